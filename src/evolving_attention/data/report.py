"""Counts the rows of a data file: used, or rejected with position and reason.

Always ``rows_in == used + rejected``. A reader announces each row with
:meth:`RowCollector.seen` before checking it, and then calls
:meth:`~RowCollector.use` or :meth:`~RowCollector.reject`; ``finish`` checks the sum.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from evolving_attention.errors import ConfigError, DataError, Error
from evolving_attention.notices import note

BAD_ROWS = ("raise", "skip", "report")
SHOWN_ROWS = 20


class RejectedRow(NamedTuple):
    """A rejected row: position (line and column from 1) and reason."""

    file: str
    line: int
    column: int | None
    reason: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}"
        return f"{place}:{self.column or 1}: {self.reason}"


@dataclass
class RowReport:
    """The report on one file.

    Attributes:
        file: path of the file as given to the reader.
        rows_in: rows of the file without the header; blank lines count as rows, except
            at the end of the file.
        used: number of rows in the data set.
        rejected: all other rows, in file order.
        notes: tolerated irregularities and their number (a byte-order mark at the start
            of the file, Windows line ends in all lines, …).
    """

    file: str
    rows_in: int = 0
    used: int = 0
    rejected: list[RejectedRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{self.file}: {self.rows_in} rows = {self.used} used + "
            f"{len(self.rejected)} rejected"
        ]
        lines += [f"  note: {note}" for note in self.notes]
        shown = self.rejected[:SHOWN_ROWS]
        if shown:
            width = max(len(f"{r.line}:{r.column or 1}") for r in shown)
            width = max(width, len("line:column"))
            lines.append(f"  {'line:column':<{width}}  reason")
            lines += [
                f"  {f'{r.line}:{r.column or 1}':<{width}}  {r.reason}" for r in shown
            ]
        if len(self.rejected) > len(shown):
            lines.append(f"  … and {len(self.rejected) - len(shown)} more")
        return "\n".join(lines)


def check_policy(bad_rows: str) -> str:
    """Return ``bad_rows`` if it is one of raise, skip, report."""
    if bad_rows not in BAD_ROWS:
        raise ConfigError(
            f"bad_rows={bad_rows!r} is not known; expected one of {', '.join(BAD_ROWS)}"
        )
    return bad_rows


class RowCollector:
    """Counts the rows of one file and applies the ``bad_rows`` policy to them.

    Args:
        file: name used in messages.
        bad_rows: ``"raise"`` stops at the first bad row with :class:`DataError`;
            ``"skip"`` drops bad rows and warns once with their number;
            ``"report"`` drops them and prints the whole table to stderr.
    """

    def __init__(self, file: str, bad_rows: str = "raise") -> None:
        self.policy = check_policy(bad_rows)
        self.report = RowReport(file)

    def seen(self) -> None:
        """Announce a row, good or bad."""
        self.report.rows_in += 1

    def use(self) -> None:
        """Count the last announced row as used."""
        self.report.used += 1

    def reject(self, line: int, column: int | None, reason: str) -> None:
        """Count a row as bad; raises :class:`DataError` under ``"raise"``."""
        if self.policy == "raise":
            self.fail(
                f'{reason}; correct the row, or leave it out with bad_rows="skip"',
                line,
                column or 1,
            )
        self.report.rejected.append(
            RejectedRow(self.report.file, line, column or 1, reason)
        )

    def note(self, text: str) -> None:
        """Record a tolerated irregularity."""
        self.report.notes.append(text)

    def fail(
        self, reason: str, line: int | None = None, column: int | None = None
    ) -> NoReturn:
        """Raise :class:`DataError` under every policy: the file itself is unusable."""
        raise DataError(reason, self.report.file, line, column)

    def finish(self) -> RowReport:
        """Finish the report: check the sum, refuse a file without a usable row."""
        report = self.report
        if report.rows_in != report.used + len(report.rejected):
            raise Error(
                f"{report.file}: rows were lost while reading ({report.rows_in} in, "
                f"{report.used} used, {len(report.rejected)} rejected); this is a "
                "fault of evolving_attention, please report it with the file"
            )
        if not report.rows_in:
            self.fail("no rows; expected at least one row of data", 1, 1)
        if not report.used:
            first = report.rejected[0]
            self.fail(
                f"all {report.rows_in} rows were rejected, the first because: "
                f"{first.reason}; is this the right file for this task?",
                first.line,
                first.column,
            )
        if report.rejected and self.policy == "report":
            note(str(report))
        elif report.rejected:
            warnings.warn(
                f"{report.file}: {len(report.rejected)} of {report.rows_in} rows were "
                "left out (see .report of the data set)",
                stacklevel=4,
            )
        return report
