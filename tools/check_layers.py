"""Checks that every #include of the C++ core points downwards, as the table allows.

The table below is the rule of docs/architecture.md. A file belongs to the room of its
folder under src/cpp; ``kernels/ref``, ``kernels/cpu`` and ``kernels/cuda`` are separate
rooms, and ``kernels`` means the contract. An include that matches neither one of our
files nor a known library allowed in the room is an error too.

    python tools/check_layers.py [--root src/cpp] [--graph]
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

CONTRACT = ["kernels", "tensor", "runtime"]
BACKENDS = ["kernels/ref", "kernels/cpu", "kernels/cuda"]

# ops that models may include; all other arithmetic belongs in nn
WIRING = [
    "arithmetic",
    "dropout",
    "gather",
    "losses",
    "packing",
    "shape_ops",
    "unpack_maps",
]

# room -> rooms it may include, besides itself; "room/file.h" allows that one header
MAY_INCLUDE: dict[str, list[str]] = {
    "runtime": [],
    "tensor": ["runtime"],
    "kernels": ["tensor", "runtime"],
    "kernels/ref": CONTRACT,
    "kernels/cpu": CONTRACT,
    "kernels/cuda": CONTRACT,
    "autograd": CONTRACT,
    "ops": ["autograd", *CONTRACT],
    "optim": ["autograd", *CONTRACT],
    "nn": ["ops", "autograd", "tensor", "runtime"],
    "models": ["nn", *(f"ops/{w}.h" for w in WIRING), "autograd", "tensor", "runtime"],
    "generation": ["models", "nn", "ops", "tensor", "runtime"],
    "bindings": ["generation", "models", "nn", "ops", "optim", "autograd", *CONTRACT],
}

# library (first part of an <include>) -> rooms that may use it
LIBRARIES: dict[str, list[str]] = {
    "Eigen": ["kernels/ref"],
    "oneapi": ["kernels/cpu"],
    "dnnl.h": ["kernels/cpu"],
    "dnnl.hpp": ["kernels/cpu"],
    "cuda.h": ["kernels/cuda"],
    "cuda_runtime.h": ["kernels/cuda"],
    "cuda_runtime_api.h": ["kernels/cuda"],
    "cublasLt.h": ["kernels/cuda"],
    "pybind11": ["bindings"],
    "Python.h": ["bindings"],
}

# headers of the operating system and the compiler, allowed in the named rooms
SYSTEM: dict[str, list[str]] = {
    "cpuid.h": ["runtime"],
    "dlfcn.h": ["runtime", "kernels/cuda"],
    "immintrin.h": ["runtime", "kernels/cpu"],
    "pthread.h": ["runtime"],
    "signal.h": ["runtime"],
    "sched.h": ["runtime"],
    "sys": ["runtime"],
    "unistd.h": ["runtime"],
}

SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".in"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>|(\S.*))')
STANDARD = re.compile(r"[a-z_0-9]+")  # <vector>, <cstdint>: no suffix, no folder


def room_of(path: Path) -> str:
    """Returns the room of a file given relative to the root: ``kernels/cpu/x.cpp``."""
    parts = path.parts[:-1]
    two = "/".join(parts[:2])
    return two if two in BACKENDS else (parts[0] if parts else "")


def includes(file: Path) -> Iterator[tuple[int, str | None, str | None, str | None]]:
    """Yields (line, quoted, angled, other) for each include directive of a file."""
    text = file.read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, *match.groups()


def place(root: Path, file: Path, name: str) -> Path | None:
    """Returns our file that a quoted include names, relative to the root, or None."""
    for candidate in (root / name, file.parent / name):
        resolved = candidate.resolve()
        if resolved.is_file() and resolved.is_relative_to(root.resolve()):
            return resolved.relative_to(root.resolve())
    return None


def judge_library(room: str, name: str) -> str | None:
    """Returns why a room may not include <name>, or None if it may."""
    first = name.split("/")[0]
    rooms = LIBRARIES.get(first, SYSTEM.get(first))
    if rooms is None:
        return None if STANDARD.fullmatch(name) else "cannot be placed: unknown library"
    if room in rooms:
        return None
    return f"is open to {', '.join(rooms)} only"


def judge_own(room: str, target: Path) -> str | None:
    """Returns why a room may not include our file, or None if it may."""
    other = room_of(target)
    if other == room or other in MAY_INCLUDE[room]:
        return None
    if target.as_posix() in MAY_INCLUDE[room]:
        return None
    allowed = ", ".join(MAY_INCLUDE[room]) or "nothing of ours"
    return f"lies in {other}; {room} may include {allowed}"


def check(root: Path) -> tuple[list[str], Counter[tuple[str, str]]]:
    """Returns all violations under a root, and counts of room-to-room includes."""
    errors: list[str] = []
    graph: Counter[tuple[str, str]] = Counter()
    files = sorted(p for p in root.rglob("*") if p.suffix in SUFFIXES)
    for file in files:
        relative = file.relative_to(root)
        room = room_of(relative)
        if room not in MAY_INCLUDE:
            errors.append(f"{relative}: room '{room}' is not in the table")
            continue
        for line, quoted, angled, other in includes(file):
            name = quoted or angled or other or ""
            reason = None
            if quoted:
                target = place(root, file, quoted)
                if target is None:
                    reason = "cannot be placed: no such file of ours"
                else:
                    graph[room, room_of(target)] += 1
                    reason = judge_own(room, target)
            elif angled:
                reason = judge_library(room, angled)
            else:
                reason = "cannot be placed: a computed include"
            if reason:
                errors.append(f"{relative}:{line}: include of {name} {reason}")
    return errors, graph


def print_graph(graph: Counter[tuple[str, str]]) -> None:
    """Prints one line per pair of rooms, in the order of the table."""
    order = {room: i for i, room in enumerate(MAY_INCLUDE)}
    pairs = sorted(graph.items(), key=lambda e: [order.get(r, 99) for r in e[0]])
    for (room, other), count in pairs:
        print(f"{room:14s} -> {other:14s} {count:5d}")


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns 0 if no include breaks the law, else 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    repo = Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=Path, default=repo / "src" / "cpp")
    parser.add_argument("--graph", action="store_true", help="print include counts")
    options = parser.parse_args(arguments)
    if not options.root.is_dir():
        print(f"check_layers: no folder {options.root}", file=sys.stderr)
        return 1
    errors, graph = check(options.root)
    if options.graph:
        print_graph(graph)
    for error in errors:
        print(error, file=sys.stderr)
    total = sum(graph.values())
    print(f"check_layers: {total} includes between our files, {len(errors)} wrong")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
