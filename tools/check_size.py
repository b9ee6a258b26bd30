"""Checks the sizes of files and functions, and prints the ten largest files.

Limits: median file < 250 lines, no file > 600, no function > 80 (C++ and Python, from
the first line of its signature, docstring included, to its last). Generated stubs do
not count.

    python tools/check_size.py [--root .]
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

MEDIAN_LIMIT, FILE_LIMIT, FUNCTION_LIMIT = 250, 600, 80
FOLDERS = ("src", "tests", "tools", "benchmarks")
CPP = {".h", ".cpp", ".cu", ".cuh"}
SUFFIXES = CPP | {".py", ".sh", ".in"}
SKIPPED = {"__pycache__", "build", "results"}

# text that may contain braces: comments, raw strings, strings, characters, directives
HIDING = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r'|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-zA-Z_])'(?:\\.[^'\n]*|[^'\\\n])'"
    r"|^[ \t]*#(?:\\\n|[^\n])*",
    re.S | re.M,
)
CONTAINER = re.compile(r"(?:inline\s+)?(?:namespace|class|struct|union|enum|extern)\b")


def blank(match: re.Match[str]) -> str:
    """Returns spaces of the same length, with the same line breaks."""
    return re.sub(r"[^\n]", " ", match[0])


def without_template(head: str) -> str:
    """Returns a declaration without its leading ``template <...>`` and attributes."""
    head = head.strip()
    while match := re.match(
        r"template\s*<|\[\[.*?\]\]|(?:public|private|protected):", head
    ):
        end = match.end()
        if match[0].endswith("<"):
            depth = 1
            while depth and end < len(head):
                depth += {"<": 1, ">": -1}.get(head[end], 0)
                end += 1
        head = head[end:].strip()
    return head


def cpp_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Yields (name, first line, lines) of every outermost function body of a source."""
    text = HIDING.sub(blank, text)
    stack: list[tuple[str, int]] = []  # kind of each open brace, and its start
    begin = 0  # start of the declaration being read
    for match in re.finditer(r"[{};]", text):
        at, inside = match.start(), any(kind == "function" for kind, _ in stack)
        if match[0] == "{":
            head = without_template(text[begin:at])
            kind = "block"
            if not inside and CONTAINER.match(head):
                kind = "container"
            elif not inside and "(" in head:
                kind = "function"
            first = at - len(text[begin:at].lstrip())
            stack.append((kind, first))
        elif match[0] == "}" and stack:
            kind, first = stack.pop()
            if kind == "function":
                head = without_template(text[first:at]).split("(")[0].split()
                line = text.count("\n", 0, first) + 1
                yield head[-1] if head else "?", line, text.count("\n", first, at) + 1
        if not any(kind == "function" for kind, _ in stack):
            begin = match.end()


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Yields (name, first line, lines) of every function of a Python module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, (node.end_lineno or 0) - node.lineno + 1


def sources(root: Path) -> list[Path]:
    """Returns the sources in the four folders, without hidden or generated files."""
    found = []
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            parts = file.relative_to(root).parts
            hidden = any(part.startswith(".") or part in SKIPPED for part in parts)
            if file.suffix in SUFFIXES and file.is_file() and not hidden:
                found.append(file)
    return found


def docstring_lines(tree: ast.AST) -> set[int]:
    """Returns the line numbers of a Python module's docstrings."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            lines |= set(range(first.lineno, (first.end_lineno or 0) + 1))
    return lines


def code_lines(file: Path) -> int:
    """Returns the number of lines with more than comments, docstrings and blanks.

    Docstrings of the bindings are their raw strings.
    """
    text = file.read_text(encoding="utf-8")
    if file.suffix in CPP | {".in"}:
        if file.parent.name == "bindings":
            text = re.sub(r'R"\(.*?\)"', '""', text, flags=re.S)
        text = re.sub(
            r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', r"\1", text, flags=re.S
        )
        return sum(bool(line.strip()) for line in text.splitlines())
    documented = docstring_lines(ast.parse(text))
    return sum(
        number not in documented and bool(line.split("#")[0].strip())
        for number, line in enumerate(text.splitlines(), 1)
    )


def check(root: Path) -> tuple[list[str], list[tuple[int, str]]]:
    """Returns violations under a root, and (lines, name) of files, largest first."""
    errors, sizes = [], []
    for file in sources(root):
        name = file.relative_to(root).as_posix()
        text = file.read_text(encoding="utf-8")
        sizes.append((text.count("\n"), name))
        if sizes[-1][0] > FILE_LIMIT:
            errors.append(f"{name}: {sizes[-1][0]} lines, limit {FILE_LIMIT}")
        functions: Iterator[tuple[str, int, int]] = iter(())
        if file.suffix in CPP:
            functions = cpp_functions(text)
        elif file.suffix == ".py":
            functions = python_functions(text)
        for function, line, lines in functions:
            if lines > FUNCTION_LIMIT:
                errors.append(
                    f"{name}:{line}: {function} has {lines} lines, "
                    f"limit {FUNCTION_LIMIT}"
                )
    median = statistics.median(lines for lines, _ in sizes) if sizes else 0
    if median >= MEDIAN_LIMIT:
        errors.append(f"median file has {median} lines, limit {MEDIAN_LIMIT}")
    return errors, sorted(sizes, reverse=True)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns 0 if every size is within its limit, else 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    repo = Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=Path, default=repo)
    options = parser.parse_args(arguments)
    errors, sizes = check(options.root)
    for lines, name in sizes[:10]:
        print(f"{lines:5d}  {name}")
    for error in errors:
        print(error, file=sys.stderr)
    median = statistics.median(lines for lines, _ in sizes) if sizes else 0
    code = sum(code_lines(options.root / n) for _, n in sizes if n.startswith("src/"))
    print(f"check_size: {code} lines of code in src, comments and docstrings left out")
    print(f"check_size: {len(sizes)} files, median {median:g}, {len(errors)} too large")
    return 1 if errors or not sizes else 0


if __name__ == "__main__":
    sys.exit(main())
