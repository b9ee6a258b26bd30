"""Checks that the SIMD objects define no symbols that the linker could share or mix up.

The sources of ``kernels/cpu/simd`` are compiled once per instruction set. An inline
function or template instance among their symbols (weak, or unique) would exist in
several objects, of which the linker keeps an arbitrary one: a processor without AVX-512
could then get AVX-512 code. So each object may define only local symbols and functions
inside ``ea::simd``.

    python tools/check_simd_symbols.py BUILD_DIR
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# a pointer to the language's unwinder: data that is equal in every object
HARMLESS = {"DW.ref.__gxx_personality_v0"}
OURS = "_ZN2ea4simd"


def faults(symbols: str) -> list[str]:
    """Returns the lines of ``nm`` output that break the rule.

    >>> faults("0 t _ZL4help\\n0 T _ZN2ea4simd4avx23addEv\\n0 W _ZSt3maxv\\n0 T f")
    ['W _ZSt3maxv', 'T f']
    """
    found = []
    for line in symbols.splitlines():
        kind, name = line.split()[-2:]
        local = kind.islower() and kind not in "uvw"
        ours = kind in "TDRB" and name.startswith(OURS)
        if not local and not ours and name not in HARMLESS:
            found.append(f"{kind} {name}")
    return found


def main() -> int:
    """Checks every object below the build folder; returns the exit status."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    objects = sorted(  # of single sources, or of several at once
        path
        for path in Path(sys.argv[1]).rglob("*.o")
        if "simd" in path.parts or path.name.startswith("unity_simd")
    )
    if not objects:
        print(f"check_simd_symbols: no SIMD object below {sys.argv[1]}")
        return 2
    wrong = 0
    for path in objects:
        listing = subprocess.run(
            ["nm", "--defined-only", str(path)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for fault in faults(listing):
            print(f"{path}: {fault}", file=sys.stderr)
            wrong += 1
    print(f"check_simd_symbols: {len(objects)} objects, {wrong} wrong symbols")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
