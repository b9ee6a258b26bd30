"""Public face of time series: ``ea.timeseries.load``, ``read_ts``, and comparisons."""

from evolving_attention.data.series_files import (
    SeriesDataset,
    SeriesPart,
    check_parts,
    load,
    read_ts,
)
from evolving_attention.metrics import average_rank, average_relative_difference

__all__ = [
    "SeriesDataset",
    "SeriesPart",
    "average_rank",
    "average_relative_difference",
    "check_parts",
    "load",
    "read_ts",
]
