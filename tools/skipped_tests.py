"""Lists the tests that a run skipped, from its JUnit file, as arguments for pytest.

    python tools/skipped_tests.py REPORT.xml > again && pytest @again
    python tools/skipped_tests.py --unexpected REASONS REPORT.xml

CI runs the README's test line in a bare environment, installs what the skipped tests
need, and runs exactly those again. The second form then fails if a test was skipped for
a reason that no line of the file REASONS matches, one regular expression per line.

pytest-xdist reports a file skipped whole only if no other was skipped at the same line,
as all are that import one helper. So files of which the report has nothing are listed.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from pathlib import Path


def node_ids(report: Path, root: Path) -> Iterator[tuple[str, str | None]]:
    """Yields each test's id, and why it was skipped; None: it ran.

    The id of a file skipped whole is its path.
    """
    for case in ElementTree.parse(report).iter("testcase"):
        mark = case.find("skipped")
        reason = (
            None if mark is None else f"{mark.get('message', '')} {mark.text or ''}"
        )
        dotted, name = case.get("classname", ""), case.get("name", "")
        if not dotted:  # skipped at import: the name is the module
            yield name.replace(".", "/") + ".py", reason
            continue
        parts, classes = dotted.split("."), []
        while parts and not (root / ("/".join(parts) + ".py")).is_file():
            classes.insert(0, parts.pop())
        yield "::".join(["/".join(parts) + ".py", *classes, name]), reason


def unseen(ids: Iterable[str], root: Path) -> list[str]:
    """Returns the test files of which a report has no test."""
    seen = {one.partition("::")[0] for one in ids}
    files = [path.relative_to(root) for path in (root / "tests").rglob("test_*.py")]
    return sorted({path.as_posix() for path in files} - seen)


def unexpected(
    found: Iterable[tuple[str, str]], reasons: Path
) -> Iterator[tuple[str, str]]:
    """Yields those of ``found`` whose reason matches no line of the file."""
    lines = reasons.read_text(encoding="utf-8").splitlines()
    known = [line for line in lines if line and not line.startswith("#")]
    for name, reason in found:
        if not any(re.search(one, reason) for one in known):
            yield name, reason


def main(arguments: list[str]) -> int:
    """Runs the command line; exit code 1: found nothing, or something unexpected.

    Args:
        arguments: the JUnit file, optionally after ``--unexpected`` and REASONS.
    """
    *options, report = arguments
    ids = list(node_ids(Path(report), Path.cwd()))
    found = sorted({(name, reason) for name, reason in ids if reason is not None})
    if not options:
        again = {name for name, _ in found} | {*unseen(dict(ids), Path.cwd())}
        print("\n".join(sorted(again)))
        return 0 if again else 1
    odd = list(unexpected(found, Path(options[1])))
    for name, reason in odd:
        print(f"{name}: skipped: {' '.join(reason.split())}", file=sys.stderr)
    if odd:
        print(
            f"{len(odd)} tests were skipped for reasons that {options[1]} does not "
            "list; install what they need, or list the reason",
            file=sys.stderr,
        )
    return 1 if odd else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
