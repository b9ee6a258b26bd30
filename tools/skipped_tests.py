"""Lists the tests that a run skipped, from its JUnit file, as arguments for pytest.

    python tools/skipped_tests.py REPORT.xml > again && pytest @again
    python tools/skipped_tests.py --unexpected REASONS REPORT.xml

CI runs the README's test line in a bare environment, installs what the skipped tests
need, and runs exactly those again. The second form then fails if a test was skipped for
a reason that no line of the file REASONS matches, one regular expression per line.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from pathlib import Path


def skipped(report: Path, root: Path) -> Iterator[tuple[str, str]]:
    """Yields node id and reason of skipped tests; the path for a file skipped whole."""
    for case in ElementTree.parse(report).iter("testcase"):
        mark = case.find("skipped")
        if mark is None:
            continue
        reason = f"{mark.get('message', '')} {mark.text or ''}"
        dotted, name = case.get("classname", ""), case.get("name", "")
        if not dotted:  # skipped at import: the name is the module
            yield name.replace(".", "/") + ".py", reason
            continue
        parts, classes = dotted.split("."), []
        while parts and not (root / ("/".join(parts) + ".py")).is_file():
            classes.insert(0, parts.pop())
        yield "::".join(["/".join(parts) + ".py", *classes, name]), reason


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
    found = sorted(set(skipped(Path(report), Path.cwd())))
    if not options:
        print("\n".join(dict.fromkeys(name for name, _ in found)))
        return 0 if found else 1
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
