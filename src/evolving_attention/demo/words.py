"""Chooses words for the constructions of the acceptability grammar, with a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from evolving_attention.demo.lexicon import LEXICON, forms, plural

Pair = tuple[str, str]


@dataclass(frozen=True)
class Noun:
    """A noun phrase, its number, and its gender (``m``, ``f`` or none)."""

    text: str
    is_plural: bool = False
    gender: str = ""

    @property
    def reflexive(self) -> str:
        """The reflexive pronoun that agrees with this phrase."""
        if self.is_plural:
            return "themselves"
        return "herself" if self.gender == "f" else "himself"


class Words:
    """Chooses words from one half of the lexicon; no word twice in one sentence.

    It uses only ``random.Random.random``, the one method whose sequence Python promises
    to keep between versions.
    """

    def __init__(self, split: str, seed: int) -> None:
        self._lexicon = LEXICON[split]
        self._random = random.Random(seed)
        self._used: set[str] = set()

    def start(self) -> Words:
        """Allow the words of the last sentence again."""
        self._used.clear()
        return self

    def below(self, n: int) -> int:
        """Returns an integer in [0, n), all equally likely."""
        return int(self._random.random() * n)

    def coin(self, chance: float = 0.5) -> bool:
        """Returns True with the given probability."""
        return self._random.random() < chance

    def either(self, *choices: str) -> str:
        """Returns one of the given strings."""
        return choices[self.below(len(choices))]

    def pick(self, category: str) -> str:
        """Returns a base form of a category that this sentence has not used yet."""
        free = [word for word in self._lexicon[category] if word not in self._used]
        word = free[self.below(len(free))]
        self._used.add(word)
        return word

    def verb(self, category: str) -> tuple[str, str, str, str]:
        """Returns base, third person, past and participle of a verb."""
        base = self.pick(category)
        return (base, *forms(base))

    def past(self, category: str) -> str:
        """Returns the past form of a verb."""
        return self.verb(category)[2]

    def present(self, category: str, plural_subject: bool) -> Pair:
        """Returns the agreeing and the disagreeing present form of a verb."""
        base, third, _, _ = self.verb(category)
        return (base, third) if plural_subject else (third, base)

    def person(
        self,
        is_plural: bool | None = None,
        gender: str | None = None,
        *,
        names: bool = True,
        determiner: str = "the",
    ) -> Noun:
        """Returns a human noun phrase; ``gender`` is ``m``, ``f`` or None for any."""
        many = self.coin() if is_plural is None else is_plural
        if gender is None and self.coin():
            gender = ""
        gender = self.either("m", "f") if gender is None else gender
        kind = {"m": "masculine", "f": "feminine", "": "person"}[gender]
        if gender and not many and names and self.coin(0.4):
            return Noun(self.pick(f"{kind} name"), False, gender)
        head = self.pick(f"{kind} noun")
        adjective = f"{self.pick('person adjective')} " if self.coin(0.25) else ""
        head = plural(head) if many else head
        return Noun(f"{determiner} {adjective}{head}", many, gender)

    def thing(
        self, is_plural: bool = False, determiner: str = "the", kind: str = "thing"
    ) -> str:
        """Returns a noun phrase for a thing."""
        head = self.pick(kind)
        adjective = f"{self.pick('thing adjective')} " if self.coin(0.25) else ""
        return f"{determiner} {adjective}{plural(head) if is_plural else head}"

    def gift(self) -> str:
        """Returns a noun phrase for something that can be given."""
        head = self.pick("gift")
        return f"a {head}" if self.coin(0.6) else f"the {head}"

    def relative(self, is_plural: bool | None = None) -> str:
        """Returns an object relative clause: "that the nurse admires"."""
        inner = self.person(is_plural)
        return f"that {inner.text} {self.present('verb of person', inner.is_plural)[0]}"


@dataclass(frozen=True)
class Construction:
    """One kind of minimal pair: its phenomenon, name and generating function."""

    phenomenon: str
    name: str
    make: Callable[[Words], Pair]


Make = Callable[[Words], Pair]


def register_in(
    constructions: list[Construction],
) -> Callable[[str], Callable[[Make], Make]]:
    """Returns a decorator that appends functions to a list under their own names."""

    def construction(phenomenon: str) -> Callable[[Make], Make]:
        def add(make: Make) -> Make:
            name = make.__name__.strip("_").replace("_", " ")
            constructions.append(Construction(phenomenon, name, make))
            return make

        return add

    return construction
