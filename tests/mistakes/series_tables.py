"""Mistakes with tables of time series."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import evolving_attention as ea
from mistakes.row import Row


def read(text: str, **options: Any) -> Any:
    """Reads a table with this text."""

    def call(folder: Path) -> Any:
        file = folder / "own.csv"
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return ea.timeseries.read_csv(file, **options)

    return call


def as_ts(text: str) -> Any:
    def call(folder: Path) -> Any:
        (folder / "own.ts").write_text(text)
        return ea.timeseries.read_ts(folder / "own.ts")

    return call


def mistake(call: Any, what: str, where: str, remedy: str) -> Row:
    return Row(call, ea.DataError, what, where, remedy)


ROWS = {
    "a table that is not there": mistake(
        lambda f: ea.timeseries.read_csv(f / "no.csv"),
        r"no such file",
        r"no\.csv",
        r"check the path",
    ),
    "a table named .ts": mistake(
        as_ts("id,time,a,label\nx,1,2,L\n"),
        r"first line is 'id,time,a,label'",
        r"own\.ts",
        r"begins with @; a table needs the ending \.csv",
    ),
    "an empty table": mistake(
        read(""), r"cannot be read as a table", r"own\.csv", r"expected a header"
    ),
    "a table of bytes": mistake(
        read(b"label,0,1\n\xff\xfe,1,2\n"),
        r"not UTF-8",
        r"own\.csv",
        r"save it as UTF-8",
    ),
    "a header alone": mistake(
        read("label,0,1\n"),
        r"no rows below the header",
        r"own\.csv",
        r"expected series",
    ),
    "a table without a header": mistake(
        read("1.5,2.5,1\n1,2,3\n"),
        r"only numbers in its first line",
        r"own\.csv:1",
        r"add one, such as label,0,1,2",
    ),
    "one column": mistake(
        read("a\n1\n"), r"one column, 'a'", r"own\.csv:1", r"delimiter= \(--delimiter\)"
    ),
    "a column twice": mistake(
        read("label,a,a\nL,1,2\n"), r"column 'a' twice", r"own\.csv:1", r"rename one"
    ),
    "more cells than the header": mistake(
        read("label,0,1\nA,1,2\nB,1,2,3\n"),
        r"Expected 3 fields in line 3, saw 4",
        r"own\.csv",
        r"rows of as many cells",
    ),
    "no column of targets": mistake(
        read("a,b\n1,2\n"),
        r"no column of targets among a, b",
        r"own\.csv",
        r"target= \(--label_column_name",
    ),
    "a target that is no column": mistake(
        read("label,0\nA,1\n", target="activity"),
        r"no column 'activity'",
        r"own\.csv",
        r"the target among label, 0; correct the name",
    ),
    "targets alone": mistake(
        read("id,label\nx,A\n"),
        r"no columns of values",
        r"own\.csv",
        r"expected at least one",
    ),
    "a word for a value": mistake(
        read("label,0,1\nA,1,2\nB,high,2\n"),
        r"'high' in the column '0'",
        r"own\.csv:3",
        r"expected one or an empty cell",
    ),
    "an empty target": mistake(
        read("label,0,1\nA,1,2\n,1,2\n"),
        r"the column 'label' is empty",
        r"own\.csv:3",
        r"leave the row out",
    ),
    "labels for a regression": mistake(
        read("label,0,1\n1,1,2\nB,1,2\n", regression=True),
        r"'B' in the column 'label' is no number",
        r"own\.csv:3",
        r"leave regression=True \(--do_regression\) out",
    ),
    "two targets of a series": mistake(
        read("id,time,a,label\nx,1,2,L\nx,2,2,R\n"),
        r"'x' has the targets 'L' and 'R'",
        r"own\.csv:3",
        r"Name the target by target=",
    ),
    "two columns that may be the target": mistake(
        read("label,class,0,1\nA,1,1,2\n"),
        r"'label', 'class', each of which may be the target",
        r"own\.csv:1",
        r"name it by target= \(--label_column_name\)",
    ),
    "a column without a name": mistake(
        read("label,0,,1\nA,1,2,3\n"),
        r"a column without a name after '0'",
        r"own\.csv:1",
        r"name it or take it out",
    ),
    "steps back in time": mistake(
        read("id,time,a,label\nx,t-1,2,L\n"),
        r"'t-1' in the column 'time'",
        r"own\.csv:2",
        r"steps as 1, 2",
    ),
    "a time twice": mistake(
        read("id,time,a,label\nx,1,2,L\n\nx,1,2,L\n"),
        r"the time 1 of the series 'x' comes twice",
        r"own\.csv:4",
        r"average or drop the copies",
    ),
    "a time that is none": mistake(
        read("id,time,a,label\nx,noon,2,L\n"),
        r"'noon' in the column 'time'",
        r"own\.csv:2",
        r"write dates as",
    ),
    "series in several rows without a time": mistake(
        read("id,a,label\nx,2,L\nx,3,L\n"),
        r"the series 'x' has several rows",
        r"own\.csv:3",
        r"name it by time=",
    ),
    "a time without series": mistake(
        read("time,a,label\n1,2,L\n"),
        r"'time' for the time and none for the series",
        r"own\.csv",
        r"name it by id=",
    ),
}
