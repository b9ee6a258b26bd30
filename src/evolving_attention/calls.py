"""Error texts for calls of the core that no signature fits."""

from __future__ import annotations

import re

# pybind11's text: the name of what was called, and a line for each signature.
_TEXT = re.compile(r"(\w*)\(\): incompatible (\w+) .*?\n(.*?)\n\nInvoked", re.DOTALL)
_FORM = re.compile(r"\d+\. (.*?)(?: -> .*)?$")
_SELF = re.compile(r"^\(self: ([^,)]*)(?:, )?")


def told(text: str, given: list[str]) -> str:
    """Returns the text of an error, with types instead of values.

    Args:
        text: pybind11's text.
        given: the types of the arguments; those with a name are ``name=type``.
    """
    found = _TEXT.match(text)
    if found is None:
        return text
    name, kind, lines = found.groups()
    forms = [_FORM.sub(r"\1", line.strip()) for line in lines.splitlines()]
    place = name
    if kind == "constructor":
        given = given[1:]
        place = plain(forms[0]).partition("(")[0]
    else:
        if own := _SELF.match(forms[0]):
            known = own[1].rpartition(".")[2]
            if known == "object" and given:
                known = given[0]
            place = f"{known}.{name}"
            if given[:1] == [known]:  # otherwise ``self`` is what is wrong
                given, forms = given[1:], [_SELF.sub("(", form) for form in forms]
        forms = [name + form for form in forms]
    return (
        f"[{place}] cannot be called with ({', '.join(given)}); expected "
        f"{' or '.join(map(plain, forms))}"
    )


def plain(line: str) -> str:
    """Rewrites a signature with types that readers know."""
    line = line.replace("evolving_attention._core.", "").replace("typing.", "")
    for word, known in (("Int", "int"), ("Float", "float")):
        line = line.replace(f"Supports{word} | SupportsIndex", known)
    line = re.sub(r"Annotated\[(.*?), ['\"]FixedSize\(\d+\)['\"]\]", r"\1", line)
    return line.replace("collections.abc.", "")
