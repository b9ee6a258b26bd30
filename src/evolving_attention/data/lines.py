"""Lines of a UTF-8 text file, each checked before its fields are read.

Lines end at ``\\n`` only (Python's own line splitting would also split at a lone
carriage return). The first line end of a file sets its convention: a file may use CR LF
throughout. A line that ends differently from the first one is a bad row, because the
file was probably joined from parts.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from evolving_attention.data.report import RowCollector
from evolving_attention.errors import DataError

MAX_LINE_CHARS = 131_072  # 2**17, the csv module's default field limit
_MAX_LINE_BYTES = 4 * MAX_LINE_CHARS  # a UTF-8 character has at most four bytes
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"


class _DataFile(io.FileIO):
    """A file that names itself where reading it fails, as a :class:`DataError`."""

    def readinto(self, buffer: Any, /) -> int:
        with self._named():
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with self._named():
            return super().readall()

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DataError(
                f"cannot be read ({error}); check the disk, and try again",
                str(self.name),
            ) from error


def open_file(path: Path) -> io.BufferedReader:
    """Open a data file; a failure, also of reading, is a :class:`DataError`."""
    try:
        if path.is_dir():
            raise DataError("is a folder; expected a data file", str(path))
        if path.exists() and not path.is_file():
            raise DataError("is not a regular file", str(path))
        return io.BufferedReader(_DataFile(path))
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError("no such file; check the path", str(path)) from error
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read ({error})", str(path)) from error


@contextlib.contextmanager
def open_text(path: Path) -> Iterator[BinaryIO]:
    """Opens a text file, plain or gzip; gzip is detected by the first bytes.

    Raises:
        DataError: the file is missing, a zip archive or a damaged gzip archive; damage
            of the latter may be detected only during reading.
    """
    with open_file(path) as handle:
        start = handle.peek(4)[:4]
        if start == _ZIP:
            raise DataError(
                "is a zip archive, expected a text file or gzip of one; unpack it",
                str(path),
            )
        packed = start.startswith(_GZIP)
        try:
            yield cast(BinaryIO, gzip.GzipFile(fileobj=handle)) if packed else handle
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(
                f"is a damaged gzip archive ({error}), expected a whole one; fetch the "
                "file again",
                str(path),
            ) from error


def checked_line(raw: bytes, crlf: bool | None) -> str | tuple[int, str]:
    """Returns a line's text without line feed, or (column, reason) if it is bad.

    ``crlf``: whether the line must end with a carriage return; None for a last line
    that has no line end.
    """
    if len(raw) > _MAX_LINE_BYTES:
        return MAX_LINE_CHARS + 1, _too_long("more than half a million")
    has_cr = crlf is not None and raw.endswith(b"\r")
    body = raw[:-1] if has_cr else raw
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(body[: error.start].decode("utf-8", "replace")) + 1
        byte = body[error.start]
        return column, (
            f"byte 0x{byte:02x} is not UTF-8 (byte {error.start + 1} of the line); "
            "convert the file to UTF-8"
        )
    if len(text) > MAX_LINE_CHARS:
        return MAX_LINE_CHARS + 1, _too_long(str(len(text)))
    if "\0" in text:
        return text.index("\0") + 1, "NUL character; remove it"
    if text.startswith("\ufeff"):  # elsewhere it is a zero-width space of real text
        return 1, "byte-order mark inside the file (were files concatenated?)"
    if "\r" in text:
        return text.index("\r") + 1, "carriage return inside the line; remove it"
    if crlf is not None and has_cr != crlf:
        here, first = ("LF", "CR LF") if crlf else ("CR LF", "LF")
        return (
            len(text) + 1,
            f"line ends with {here} but line 1 ends with {first}; use one line end",
        )
    return text


def _too_long(length: str) -> str:
    return (
        f"line of {length} characters; at most {MAX_LINE_CHARS} are taken "
        "(is a line end missing?)"
    )


def raw_lines(handle: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Yields lines without line feed, and whether they had one; splits long lines."""
    while raw := handle.readline(_MAX_LINE_BYTES + 3):
        ended = raw.endswith(b"\n")
        if not ended and len(raw) > _MAX_LINE_BYTES:
            while rest := handle.readline(1 << 20):
                if rest.endswith(b"\n"):
                    ended = True
                    break
        yield (raw[:-1] if ended and raw.endswith(b"\n") else raw), ended


def read_lines(
    path: Path, collector: RowCollector, *, header: bool, quoted: bool = False
) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without line end) for each good line.

    Bad lines go to ``collector``; a bad first line of a file with a ``header`` makes
    the file unusable. Every line but the header is announced as a row, except blank
    lines at the end of the file; blank lines before it are bad rows. In a ``quoted``
    file (CSV) a field may contain blank lines and other line ends: both are accepted.

    Raises:
        DataError: the file is missing, empty, UTF-16, or its header line is bad; or
            any line is bad and the policy is ``"raise"``.
    """
    with open_file(path) as handle:
        crlf, blanks = False, []
        number = 0
        for number, (raw, ended) in enumerate(raw_lines(handle), start=1):
            if number == 1:
                raw = first_line(raw, collector)
                crlf = ended and raw.endswith(b"\r")
                if crlf:
                    collector.note("Windows line ends (CR LF) were removed")
            if raw in (b"", b"\r"):
                blanks.append(number)
                continue
            for blank in blanks:
                if header and blank == 1:
                    collector.fail("blank line where the header is expected", 1, 1)
                collector.seen()
                if quoted:
                    yield blank, ""
                else:
                    collector.reject(blank, 1, "blank line")
            blanks.clear()
            is_header = header and number == 1
            if not is_header:
                collector.seen()
            wants_cr = raw.endswith(b"\r") if quoted else crlf
            text = checked_line(raw, wants_cr if ended else None)
            if isinstance(text, str):
                yield number, text
            elif is_header:
                collector.fail(f"header line: {text[1]}", 1, text[0])
            else:
                collector.reject(number, *text)
        if not number:
            collector.fail(
                "the file is empty (0 bytes); expected rows: download it again", 1, 1
            )
        if blanks and blanks[0] == 1:
            collector.fail("the file holds only blank lines", 1, 1)
        if blanks:
            collector.note(f"{len(blanks)} blank line(s) at the end of the file")


def first_line(raw: bytes, collector: RowCollector) -> bytes:
    """Remove the UTF-8 byte-order mark; refuse other encodings that have one."""
    if raw.startswith(_UTF16):
        collector.fail(
            "the file is UTF-16 (byte-order mark); save it as UTF-8, for example "
            "with: iconv -f UTF-16 -t UTF-8",
            1,
            1,
        )
    if raw.startswith(_BOM):
        collector.note("byte-order mark at the start of the file was removed")
        return raw[len(_BOM) :]
    return raw
