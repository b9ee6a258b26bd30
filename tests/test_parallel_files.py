"""Parallel text files: aligned lines, gzip, and errors."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

import evolving_attention as ea
from evolving_attention.data.lines import open_file
from evolving_attention.data.parallel_files import read_parallel, read_sentences
from evolving_attention.data.parallel_rows import from_rows


def write(file: Path, content: str | bytes, packed: bool = False) -> Path:
    data = content.encode() if isinstance(content, str) else content
    file.write_bytes(gzip.compress(data) if packed else data)
    return file


@pytest.mark.parametrize("packed", [False, True])
def test_lines_stay_aligned(tmp_path: Path, packed: bool):
    source = write(tmp_path / "a.en", "One.\n\nThree, ü\u2028.\n\n", packed)
    target = write(tmp_path / "a.de", "Eins.\nZwei.\n\nVier.", not packed)
    found = read_parallel(source, target)
    assert found.source == ["One.", "", "Three, ü\u2028.", ""]
    assert found.target == ["Eins.", "Zwei.", "", "Vier."]


def test_windows_files_and_marks_of_the_byte_order(tmp_path: Path):
    file = write(tmp_path / "a", b"\xef\xbb\xbfa\r\n\r\nb\r\n")
    assert read_sentences(file) == ["a", "", "b"]


@pytest.mark.parametrize(
    ("content", "place", "reason"),
    {
        "not UTF-8": (
            b"good\nu\xc3\xbcu \xfc.\n",
            ":2:5",
            r"byte 0xfc is not UTF-8 \(byte 6 of the line\); convert the file",
        ),
        "NUL": (b"a\0b\n", ":1:2", "NUL"),
        "mixed line ends": (b"a\nb\r\n", ":2", "use one line end"),
        "UTF-16": ("a\n".encode("utf-16"), ":1:1", "save it as UTF-8"),
        "empty": (b"", "a.en", "the file is empty"),
        "cut archive": (
            gzip.compress(b"a\n" * 50, mtime=0)[:-9],
            "a.en",
            "damaged gzip",
        ),
    }.values(),
)
def test_bad_lines_are_named(
    tmp_path: Path, content: bytes, place: str, reason: str
) -> None:
    file = write(tmp_path / "a.en", content)
    with pytest.raises(ea.DataError, match=reason) as caught:
        read_sentences(file)
    assert place in str(caught.value)


def test_unequal_files_name_the_first_line_without_partner(tmp_path: Path):
    source = write(tmp_path / "a.en", "1\n2\n")
    target = write(tmp_path / "a.de", "1\n2\n3\n4\n")
    for pair in ((source, target), (target, source)):
        with pytest.raises(ea.DataError, match=r"a\.de has 4 lines .*a\.en 2") as error:
            read_parallel(*pair)
        assert (error.value.file, error.value.line) == (str(target), 3)


def test_rows_as_datasets_has_them():
    rows = [{"en": "One.", "de": "Eins."}, {"en": "", "de": "Zwei."}]
    for form in (rows, [{"translation": row} for row in rows]):
        found = from_rows(form, "en", "de")
        assert found.source == ["One.", ""]
        assert found.target == ["Eins.", "Zwei."]
    with pytest.raises(ea.InputError, match=r"rows\[0\]: 'fr' is None.*with en, de"):
        from_rows(rows, "en", "fr")
    with pytest.raises(ea.InputError, match=r"rows\[1\]: 'de' is 2, expected a text"):
        from_rows([rows[0], {"en": "Two.", "de": 2}], "en", "de")


@pytest.mark.parametrize("read", [read_sentences, lambda file: open_file(file).read()])
def test_a_fault_of_the_disk_names_the_file(read: Callable[[Path], object]):
    says = r"^/proc/self/mem: cannot be read .*Input/output error.*check the disk"
    with pytest.raises(ea.DataError, match=says):
        read(Path("/proc/self/mem"))  # its beginning is no address: EIO
