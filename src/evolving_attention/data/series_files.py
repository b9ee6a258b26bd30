"""Data sets of time series: .ts files, found by path or by name."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.data.lines import open_file
from evolving_attention.data.series_parts import (
    SeriesDataset,
    SeriesPart,
    check_parts,
)
from evolving_attention.errors import DataError, InputError, require, suggestion

Array = np.ndarray[Any, Any]
_ENCODING = "utf-8-sig"  # a byte-order mark is left out
_FORMAT = (
    "expected the .ts format: @ lines, @data, then one series a line, channels and the "
    "target between colons; is the file cut short? Download it again"
)


def read_ts(file: str | Path, *, labelled: bool = True) -> SeriesPart:
    """Read one .ts file. Labels are read in lower case, as aeon reads them.

    Args:
        file: path of the file.
        labelled: whether a file without targets is an error.

    Raises:
        DataError: the file is missing, empty, truncated, not a .ts file, has time
            stamps, or has no targets; names the line if known.
    """
    path = Path(file)
    lines = _lines(path)
    header = _header(lines, path)
    if _flag(header, "@timestamps", path):
        raise DataError(
            "has time stamps (@timeStamps true), expected values alone, at equal steps "
            "of time; resample the series, and write them without time stamps",
            str(path),
        )
    is_regression = _flag(header, "@targetlabel", path)
    has_targets = _flag(header, "@classlabel", path, True) or is_regression
    if labelled and not has_targets:
        raise DataError(
            "has no targets (@classLabel false), expected class labels or values; "
            "add them to the file",
            str(path),
        )
    is_equal = _flag(header, "@equallength", path, True)
    labels = [] if is_regression else header.get("@classlabel", [])[1:]
    X: list[Array] = []
    y: list[Any] = []
    for number, line in lines:
        *channels, target = line.split(":") if has_targets else [*line.split(":"), ""]
        try:
            X.append(_series(channels, X[0] if X else None, is_equal, has_targets))
            y.append(_number(target, "the target") if is_regression else target)
        except InputError as error:
            raise DataError(f"{error}, {_FORMAT}", str(path), number) from error
        if has_targets and labels and target not in labels:
            raise DataError(
                f"series {len(X)} has the label {target!r}, expected one of "
                f"{', '.join(labels)} as in @classLabel; is the file cut short?",
                str(path),
                number,
            )
    if not X:
        raise DataError(
            "has no series, expected at least one after @data; is the file cut short? "
            "Download it again",
            str(path),
        )
    targets = np.asarray(y) if has_targets else None
    return SeriesPart(np.stack(X) if is_equal else X, targets, is_regression, str(path))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields numbers and texts of the lines that are not blank, in lower case."""
    with open_file(path) as file:
        for number, raw in enumerate(file, start=1):
            try:
                text = raw.decode(_ENCODING).strip().lower()
            except UnicodeDecodeError as error:
                reason = f"is not UTF-8 text (byte {error.start + 1} of the line)"
                raise DataError(f"{reason}, {_FORMAT}", str(path), number) from error
            if text:
                yield number, text


def _header(lines: Iterator[tuple[int, str]], path: Path) -> dict[str, list[str]]:
    """Reads up to @data; returns the words after each name."""
    found: dict[str, list[str]] = {}
    for number, line in lines:
        name, *words = line.split()
        if [name, *words] == ["@data"]:
            return found
        if not found and name[0] not in "@#%":
            raise DataError(
                f"is not a .ts file: its first line is {line[:60]!r}, expected one "
                "that begins with @; a table needs the ending .csv or .tsv, or "
                "ea.timeseries.read_csv",
                str(path),
                number,
            )
        found[name] = words
    raise DataError(f"has no @data line, {_FORMAT}", str(path))


def _flag(
    header: dict[str, list[str]], name: str, path: Path, default: bool = False
) -> bool:
    """Returns a value that is true or false."""
    word = " ".join(header.get(name, [str(default).lower()])[:1])
    if word not in ("true", "false"):
        raise DataError(
            f"{name} {word!r}, expected true or false; correct the line", str(path)
        )
    return word == "true"


def _series(
    parts: list[str], first: Array | None, is_equal: bool, has_target: bool
) -> Array:
    """Returns the channels of a line as an array [channels, length].

    Raises:
        InputError: a value is no number, or the shape does not fit to the first series.
    """
    if not parts:
        raise InputError("no target after the last colon")
    if first is not None and len(parts) != len(first):
        raise InputError(
            f"{len(parts) + has_target} parts between colons, "
            f"{len(first) + has_target} before"
        )
    rows = [
        [_number(value, f"channel {channel}") for value in part.split(",")]
        for channel, part in enumerate(parts)
    ]
    if len({*map(len, rows)}) > 1:
        raise InputError("channels that differ in length")
    if first is not None and is_equal and len(rows[0]) != first.shape[1]:
        raise InputError(
            f"{len(rows[0])} time steps, {first.shape[1]} before, without @equalLength "
            "false"
        )
    return np.asarray(rows)


def _number(text: str, where: str) -> float:
    """Returns a value; NaN for ?, a missing one."""
    try:
        return float("nan" if text.strip() == "?" else text)
    except ValueError:
        raise InputError(f"{text.strip()[:40]!r} in {where} is no number") from None


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
        MissingExtraError: there is no ``data_dir``, and aeon is not installed.
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
    elif not places:
        require("aeon", extra="timeseries", why="for data sets without data_dir")
    return places


def _names(places: Sequence[Path]) -> list[str]:
    """Returns names of other data sets in these places, for a suggestion."""
    found: set[str] = set()
    for place in places:
        if place.parent.is_dir():
            found |= {one.parent.name for one in place.parent.glob("*/*_TRAIN.ts")}
    return sorted(found)
