"""Marks of tests that need certain CPU instructions."""

from __future__ import annotations

import pytest

from evolving_attention import _core

INFO = _core.build_info()
MULTIPLIES_BFLOAT16 = INFO["avx512_bf16"] and INFO["isa_used"] == "avx512"
needs_bfloat16 = pytest.mark.skipif(
    not MULTIPLIES_BFLOAT16, reason="no products of bfloat16"
)
# Where AMX does not replace the AVX-512 instructions.
needs_pairs = pytest.mark.skipif(
    not MULTIPLIES_BFLOAT16 or INFO["amx_bf16"],
    reason="no products of bfloat16 in pairs, or in tiles of 16 rows",
)
float32_and_pairs = pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("bfloat16", marks=needs_pairs)]
)
