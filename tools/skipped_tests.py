"""List the tests that a run skipped, from its JUnit file, as arguments for pytest.

    python tools/skipped_tests.py REPORT.xml > again && pytest @again

CI runs the README's test line in a bare environment, installs what the skipped tests
asked for, and runs exactly those again.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path


def skipped(report: Path, root: Path) -> Iterator[str]:
    """Yield node ids of skipped tests; a file skipped whole yields its path."""
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("skipped") is None:
            continue
        dotted, name = case.get("classname", ""), case.get("name", "")
        if not dotted:  # skipped at import: the name is the module
            yield name.replace(".", "/") + ".py"
            continue
        parts, classes = dotted.split("."), []
        while parts and not (root / ("/".join(parts) + ".py")).is_file():
            classes.insert(0, parts.pop())
        yield "::".join(["/".join(parts) + ".py", *classes, name])


def main(arguments: list[str]) -> int:
    """Command line: the path of the JUnit file; 1 when nothing was skipped."""
    found = sorted(set(skipped(Path(arguments[0]), Path.cwd())))
    print("\n".join(found))
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
