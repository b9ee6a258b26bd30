"""Public interface of time series: data sets, .ts and CSV files, and comparisons."""

from evolving_attention.data.series_files import load, read_ts
from evolving_attention.data.series_parts import (
    SeriesDataset,
    SeriesPart,
    check_parts,
)
from evolving_attention.data.series_tables import read_csv
from evolving_attention.metrics import average_rank, average_relative_difference

__all__ = [
    "SeriesDataset",
    "SeriesPart",
    "average_rank",
    "average_relative_difference",
    "check_parts",
    "load",
    "read_csv",
    "read_ts",
]
