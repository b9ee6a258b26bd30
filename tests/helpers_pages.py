"""The command lines of the pages, and their reduction to small sizes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path


def blocks_of(page: Path, *languages: str) -> list[str]:
    """Returns the fenced blocks of a page in these languages."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)^```$", text, re.S | re.M)


def lines_of(page: Path) -> list[str]:
    """Returns our own command lines in the shell blocks of a page."""
    joined = "\n".join(blocks_of(page, "sh", "bash")).replace("\\\n", " ")
    ours = [one for one in joined.splitlines() if one.startswith("evolving-attention")]
    return [one.partition("  #")[0] for one in ours]


def with_sizes(words: list[str], sizes: str) -> list[str]:
    """Returns the words with these options, which replace those of the same name."""
    found, given = list(words), shlex.split(sizes)
    for option, value in zip(given[::2], given[1::2], strict=True):
        if option in found:
            found[found.index(option) + 1] = value
        else:
            found += [option, value]
    return found
