"""The installed package: one oneDNN, few requirements, licences, named extras."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import evolving_attention

PACKAGE = Path(evolving_attention.__file__).parent
BASE = {"numpy", "ml_dtypes", "safetensors", "tokenizers", "typer", "rich"}
MAPS = Path("/proc/self/maps")


def requirements() -> list[str]:
    """Returns the distribution's requirement lines; skips in a source tree."""
    try:
        return metadata.requires("evolving-attention") or []
    except metadata.PackageNotFoundError:
        pytest.skip("evolving-attention runs from its source tree, not installed")


def test_one_onednn_lies_inside_of_the_package() -> None:
    assert [p.name for p in PACKAGE.rglob("libdnnl*")] == ["libdnnl.so.3"]


@pytest.mark.skipif(not MAPS.exists(), reason="needs /proc")
def test_the_core_loads_its_own_onednn() -> None:
    code = (
        "import evolving_attention._core\n"
        "print({l.split()[-1] for l in open('/proc/self/maps') if 'dnnl' in l})"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == repr({str(PACKAGE / "libdnnl.so.3")})


def test_the_core_is_hardened() -> None:
    """Stack protector, fortified C functions, checked indices of the C++ library."""
    (core,) = PACKAGE.glob("_core*.so")
    symbols = core.read_bytes()
    for name in (b"__stack_chk_fail", b"__memcpy_chk", b"__glibcxx_assert_fail"):
        assert name in symbols


@pytest.mark.skipif(not MAPS.exists(), reason="needs /proc")
def test_the_core_is_relocated_before_it_runs() -> None:
    """Relocations are all done at loading (BIND_NOW) and read-only then (RELRO)."""
    (core,) = PACKAGE.glob("_core*.so")
    data = core.read_bytes()
    assert data[:6] == b"\x7fELF\x02\x01"  # 64 bits, little-endian
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    parts = [
        struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)
    ]
    by_kind = {kind: (start, size) for kind, _, start, _, _, size in parts}
    relro, dynamic = 0x6474E552, 2
    assert relro in by_kind
    start, length = by_kind[dynamic]
    tags = dict(struct.iter_unpack("<QQ", data[start : start + length // 16 * 16]))
    assert tags.get(30, 0) & 8 or tags.get(0x6FFFFFFB, 0) & 1  # FLAGS, FLAGS_1


def test_run_time_requirements_are_the_six() -> None:
    base = [line for line in requirements() if "extra ==" not in line]
    assert {re.split(r"[<>=!~ ;]", line)[0] for line in base} == BASE
    assert not any("dnn" in line or "eigen" in line for line in requirements())


def test_every_extra_that_messages_name_exists() -> None:
    requirements()
    declared = set(metadata.metadata("evolving-attention").get_all("Provides-Extra"))
    named = set()
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        named |= set(re.findall(r'\bextra="(\w+)"', text))
        named |= set(re.findall(r"evolving-attention\[([a-z]+)\]", text))
    assert named
    assert named <= declared


def test_licences_travel_with_the_package() -> None:
    requirements()
    files = metadata.files("evolving-attention") or []
    names = {file.name for file in files if "licenses" in file.parts}
    assert {"LICENSE", "THIRD_PARTY_NOTICES.md"} <= names
