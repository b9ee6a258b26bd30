"""Data sets of time series: .ts files read by aeon, found by path or by name."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evolving_attention.data.records import parses
from evolving_attention.data.series_parts import (
    SeriesDataset,
    SeriesPart,
    check_parts,
)
from evolving_attention.errors import DataError, require, suggestion

_WHY = "to read .ts files"
_ENCODING = "utf-8"


def read_ts(file: str | Path, *, labelled: bool = True) -> SeriesPart:
    """Read one .ts file.

    Args:
        file: path of the file.
        labelled: whether a file without targets is an error.

    Raises:
        DataError: the file is missing, empty, truncated, not a .ts file, or has no
            targets; names the line if known.
        MissingExtraError: aeon is not installed.
    """
    path = Path(file)
    if not path.is_file():
        raise DataError(
            "no such file, expected a .ts file of time series; check the path",
            str(path),
        )
    _refuse_other_formats(path)
    loaders = require("aeon.datasets", extra="timeseries", why=_WHY)
    try:
        found = loaders.load_from_ts_file(
            str(path), return_meta_data=True, encoding=_ENCODING
        )
    except (OSError, ValueError, IndexError, KeyError, TypeError) as error:
        line, reason = _first_bad_line(path)
        raise DataError(
            f"{reason or error}, expected the .ts format: @ lines, @data, then one "
            "series a line, channels and the target between colons; is the file cut "
            "short? Download it again",
            str(path),
            line,
        ) from error
    X, y, header = found
    if len(X) == 0:
        raise DataError(
            "has no series, expected at least one after @data; is the file cut short? "
            "Download it again",
            str(path),
        )
    if not header["classlabel"] and not header["targetlabel"]:
        if not labelled:
            return SeriesPart(X, None, False, str(path))
        raise DataError(
            "has no targets (@classLabel false), expected class labels or values; "
            "add them to the file",
            str(path),
        )
    if header["classlabel"]:
        _check_labels(y, header["class_values"], path)
    return SeriesPart(X, y, bool(header["targetlabel"]), str(path))


def _refuse_other_formats(path: Path) -> None:
    """Refuse text that is not a .ts file, such as a CSV file, by its first line.

    Raises:
        DataError: the first line is not a header of a .ts file.
    """
    with path.open("rb") as file:
        begin = file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    if not begin or begin[:1] in b"@#" or b"\0" in begin:
        return
    try:
        first = begin.decode(_ENCODING, "ignore").splitlines()[0][:60]
        begin.decode(_ENCODING)
    except UnicodeDecodeError as error:
        if error.start < len(begin) - 4:  # not a character split at the 4096-byte limit
            return
    raise DataError(
        f"is not a .ts file: its first line is {first!r}, expected one that begins "
        "with @; a table needs the ending .csv or .tsv, or ea.timeseries.read_csv",
        str(path),
    )


def _check_labels(y: Any, known: Sequence[str], path: Path) -> None:
    """Check every label against the header: truncated lines end in a partial label."""
    allowed = {str(value) for value in known}
    for case, label in enumerate(y):
        if allowed and str(label) not in allowed:
            raise DataError(
                f"series {case + 1} has the label {str(label)!r}, expected one of "
                f"{', '.join(known)} as in @classLabel; is the file cut short?",
                str(path),
            )


def _first_bad_line(path: Path) -> tuple[int | None, str]:
    """Returns (number, problem) of the first line that is no series, or (None, "")."""
    try:
        lines = path.read_text(encoding=_ENCODING).splitlines()
    except UnicodeDecodeError as error:
        return None, f"is not UTF-8 text ({error.reason} at byte {error.start})"
    begin = next((i for i, x in enumerate(lines) if x.strip().lower() == "@data"), None)
    if begin is None:
        return None, "has no @data line"
    fields = 0
    for number, line in enumerate(lines[begin + 1 :], start=begin + 2):
        parts = line.strip().split(":")
        fields = fields or len(parts)
        if len(parts) != fields:
            return number, f"{len(parts)} parts between colons, {fields} before"
        if len(parts) < 2:
            return number, "no target after the last colon"
        for channel, part in enumerate(parts[:-1]):
            for value in part.split(","):
                if not _is_value(value):
                    shown = value.strip()[:40]
                    return number, f"{shown!r} in channel {channel} is no number"
        if len({part.count(",") for part in parts[:-1]}) > 1:
            return number, "channels that differ in length"
    return None, ""


def _is_value(text: str) -> bool:
    return text.strip() == "?" or parses(text)


def load(name: str | Path, data_dir: str | Path | None = None) -> SeriesDataset:
    """Loads ``NAME_TRAIN.ts`` and ``NAME_TEST.ts`` by name; uses no network.

    Searches ``data_dir`` and its folders ``NAME`` and ``timeseries/NAME``, then the
    data sets that aeon includes.

    Args:
        name: name of the data set, such as "JapaneseVowels".
        data_dir: a folder of data sets; None: only aeon's.

    Raises:
        DataError: not found, or a file cannot be read; names the places searched.
        InputError: the two parts do not fit together.
        MissingExtraError: aeon is not installed.
    """
    name = str(name)
    places = _places(name, data_dir)
    for folder in places:
        files = [folder / f"{name}_{part}.ts" for part in ("TRAIN", "TEST")]
        if all(file.is_file() for file in files):
            train, test = map(read_ts, files)
            check_parts(train, test)
            return SeriesDataset(name, train, test)
    hint = suggestion(name, _names(places), "check the name or data_dir")
    raise DataError(
        f"data set {name!r}: no {name}_TRAIN.ts with {name}_TEST.ts in "
        f"{', '.join(map(str, places))}; {hint}"
    )


def _places(name: str, data_dir: str | Path | None) -> list[Path]:
    """Returns folders that may contain the data set, in search order."""
    if os.sep in name or name in ("", ".", ".."):
        raise DataError(
            f"data set {name!r}: expected a name such as JapaneseVowels; give files by "
            "their paths, and a folder as data_dir"
        )
    places = []
    if data_dir is not None:
        root = Path(data_dir)
        if not root.is_dir():
            raise DataError(
                "no such folder, expected one with data sets; check data_dir", str(root)
            )
        places += [root, root / name, root / "timeseries" / name]
    spec = importlib.util.find_spec("aeon")
    if spec is not None:
        for folder in spec.submodule_search_locations or []:
            places.append(Path(folder) / "datasets" / "data" / name)
    else:
        require("aeon", extra="timeseries", why=_WHY)
    return places


def _names(places: Sequence[Path]) -> list[str]:
    """Returns names of other data sets in these places, for a suggestion."""
    found: set[str] = set()
    for place in places:
        if place.parent.is_dir():
            found |= {one.parent.name for one in place.parent.glob("*/*_TRAIN.ts")}
    return sorted(found)
