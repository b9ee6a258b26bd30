"""The constructions of the acceptability data set: each makes one minimal pair.

A construction is a function from :class:`Words` (a seeded chooser of words of one half
of the lexicon) to ``(acceptable, unacceptable)``. The two sentences differ in one
point of grammar; wherever the language allows it they contain the same words, or the
deciding word is as often right as wrong, so that counting words does not help.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from evolving_attention.data.acceptability_lexicon import LEXICON, forms, plural

__all__ = ["CONSTRUCTIONS", "Construction", "Words"]

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
    """Chooses words of one half of the lexicon; no word twice in one sentence.

    Only ``random.Random.random`` is used, the one method whose sequence Python
    promises not to change between versions.
    """

    def __init__(self, split: str, seed: int) -> None:
        self._lexicon = LEXICON[split]
        self._random = random.Random(seed)
        self._used: set[str] = set()

    def start(self) -> Words:
        """Forget which words the last sentence used."""
        self._used.clear()
        return self

    def below(self, n: int) -> int:
        """An integer in [0, n), all equally likely."""
        return int(self._random.random() * n)

    def coin(self, chance: float = 0.5) -> bool:
        """True with the given chance."""
        return self._random.random() < chance

    def either(self, *choices: str) -> str:
        """One of the given strings."""
        return choices[self.below(len(choices))]

    def pick(self, category: str) -> str:
        """A base form of a category, not yet used in this sentence."""
        free = [word for word in self._lexicon[category] if word not in self._used]
        word = free[self.below(len(free))]
        self._used.add(word)
        return word

    def verb(self, category: str) -> tuple[str, str, str, str]:
        """Base, third person, past and participle of a verb."""
        base = self.pick(category)
        return (base, *forms(base))

    def present(self, category: str, plural_subject: bool) -> Pair:
        """The agreeing and the disagreeing present form of a verb."""
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
        """A human noun phrase; ``gender`` is ``m``, ``f`` or None for any."""
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
        """A noun phrase for a thing."""
        head = self.pick(kind)
        adjective = f"{self.pick('thing adjective')} " if self.coin(0.25) else ""
        return f"{determiner} {adjective}{plural(head) if is_plural else head}"

    def gift(self) -> str:
        """A noun phrase for something that can be handed over."""
        head = self.pick("gift")
        return f"a {head}" if self.coin(0.6) else f"the {head}"

    def relative(self, is_plural: bool | None = None) -> str:
        """An object relative clause: "that the nurse admires"."""
        inner = self.person(is_plural)
        return f"that {inner.text} {self.present('verb of person', inner.is_plural)[0]}"


@dataclass(frozen=True)
class Construction:
    """One kind of minimal pair: its phenomenon, its name, and how to make one."""

    phenomenon: str
    name: str
    make: Callable[[Words], Pair]


CONSTRUCTIONS: list[Construction] = []
"""All constructions, in the order in which the data set cycles through them."""


def _construction(phenomenon: str) -> Callable[[Callable[[Words], Pair]], object]:
    def add(make: Callable[[Words], Pair]) -> Callable[[Words], Pair]:
        name = make.__name__.removeprefix("_").replace("_", " ")
        CONSTRUCTIONS.append(Construction(phenomenon, name, make))
        return make

    return add


# --- agreement ----------------------------------------------------------------------


def _predicates(w: Words, is_plural: bool) -> Pair:
    """A right and a wrong predicate: present verb, or auxiliary and participle."""
    kind = w.below(3)
    if kind == 0:
        return w.present("verb alone", is_plural)
    if kind == 1:
        right, wrong = w.present("verb of thing", is_plural)
        rest = w.thing()
    else:
        right, wrong = ("have", "has") if is_plural else ("has", "have")
        rest = f"{w.verb('verb of thing')[3]} {w.thing()}"
    return f"{right} {rest}", f"{wrong} {rest}"


def _agree(subject: str, predicates: Pair) -> Pair:
    return f"{subject} {predicates[0]}", f"{subject} {predicates[1]}"


@_construction("agreement")
def _subject_and_verb(w: Words) -> Pair:
    subject = w.person()
    return _agree(subject.text, _predicates(w, subject.is_plural))


@_construction("agreement")
def _attractor_in_prepositional_phrase(w: Words) -> Pair:
    subject = w.person(names=False)
    near = w.either("near", "behind", "beside", "next to", "in front of")
    attractor = w.person(not subject.is_plural, names=False).text
    attractor = w.thing(not subject.is_plural) if w.coin() else attractor
    return _agree(
        f"{subject.text} {near} {attractor}", _predicates(w, subject.is_plural)
    )


@_construction("agreement")
def _attractor_in_relative_clause(w: Words) -> Pair:
    subject = w.person(names=False)
    return _agree(
        f"{subject.text} {w.relative(not subject.is_plural)}",
        _predicates(w, subject.is_plural),
    )


@_construction("agreement")
def _coordinated_subject(w: Words) -> Pair:
    first, second = w.person(False).text, w.person(False).text
    both = w.coin()
    joined = "and" if both else "or"
    subject = f"{first} {joined} {second}" if both else f"either {first} or {second}"
    return _agree(subject, _predicates(w, both))


@_construction("determiner and noun")
def _demonstrative(w: Words) -> Pair:
    many = w.coin()
    right = w.either("these", "those") if many else w.either("this", "that")
    adjective = f"{w.pick('thing adjective')} " if w.coin() else ""
    head = w.pick("thing")
    good = plural(head) if many else head
    bad = head if many else plural(head)
    stem = f"{w.person().text} {w.verb('verb of thing')[2]} {right} {adjective}"
    return stem + good, stem + bad


@_construction("determiner and noun")
def _quantifier(w: Words) -> Pair:
    many = w.coin()
    right = w.either("many", "several", "two") if many else w.either("every", "each")
    wrong = w.either("every", "each") if many else w.either("many", "several", "two")
    head = w.pick("thing")
    head = plural(head) if many else head
    adjective = f"{w.pick('thing adjective')} " if w.coin() else ""
    stem = f"{w.person().text} {w.verb('verb of thing')[2]}"
    return f"{stem} {right} {adjective}{head}", f"{stem} {wrong} {adjective}{head}"


# --- reflexives ---------------------------------------------------------------------

_OTHER = {"m": "herself", "f": "himself"}


def _verb_of_person(w: Words) -> str:
    return w.verb("verb of person")[2]


@_construction("reflexive")
def _reflexive_gender(w: Words) -> Pair:
    subject = w.person(False, w.either("m", "f"))
    stem = f"{subject.text} {_verb_of_person(w)}"
    return f"{stem} {subject.reflexive}", f"{stem} {_OTHER[subject.gender]}"


@_construction("reflexive")
def _reflexive_number(w: Words) -> Pair:
    gender = w.either("m", "f")
    subject = w.person(w.coin(), gender)
    single = Noun("", False, gender).reflexive
    wrong = single if subject.is_plural else "themselves"
    stem = f"{subject.text} {_verb_of_person(w)}"
    return f"{stem} {subject.reflexive}", f"{stem} {wrong}"


@_construction("reflexive")
def _reflexive_with_nearer_noun(w: Words) -> Pair:
    gender = w.either("m", "f")
    other = "f" if gender == "m" else "m"
    subject = w.person(False, gender, names=False)
    inner = w.person(False, other).text
    link = w.either("near", "behind", "beside", f"that {_verb_of_person(w)}")
    stem = f"{subject.text} {link} {inner} {_verb_of_person(w)}"
    return f"{stem} {subject.reflexive}", f"{stem} {_OTHER[gender]}"


@_construction("reflexive")
def _reflexive_in_own_clause(w: Words) -> Pair:
    many = w.coin()
    outer = w.person(not many, "m" if many else None)
    inner = w.person(many, w.either("m", "f"))
    wrong = "themselves" if outer.is_plural else outer.reflexive
    stem = f"{outer.text} {w.verb('verb of opinion')[2]} that {inner.text}"
    stem = f"{stem} {_verb_of_person(w)}"
    return f"{stem} {inner.reflexive}", f"{stem} {wrong}"


@_construction("reflexive")
def _reflexive_is_no_subject(w: Words) -> Pair:
    outer = w.person(False, w.either("m", "f"))
    pronoun = "she" if outer.gender == "f" else "he"
    inner = w.person(False, outer.gender)
    stem = f"{outer.text} {w.verb('verb of opinion')[2]} that"
    verb = _verb_of_person(w)
    if w.coin():
        return (
            f"{stem} {inner.text} {verb} {inner.reflexive}",
            f"{stem} {inner.reflexive} {verb} {inner.text}",
        )
    end = f"had {w.verb('verb of person')[3]} {w.person().text}"
    return f"{stem} {pronoun} {end}", f"{stem} {outer.reflexive} {end}"


# --- islands ------------------------------------------------------------------------


@_construction("island")
def _embedded_question(w: Words) -> Pair:
    outer, inner = w.person().text, w.person().text
    base, _, past, _ = w.verb("verb of knowledge")
    act = w.verb("verb of thing")[3]
    if w.coin():
        return (
            f"{outer} {past} who had {act} {w.thing()}",
            f"what did {outer} {base} who had {act}",
        )
    return (
        f"what did {outer} {base} that {inner} had {act}",
        f"what did {outer} {base} who had {act}",
    )


@_construction("island")
def _relative_clause(w: Words) -> Pair:
    subject, other, thing = w.person(names=False).text, w.person().text, w.thing()
    meet = _verb_of_person(w)
    act, _, did, _ = w.verb("verb of thing")
    if w.coin():
        good = f"what did {subject} that {meet} {other} {act}"
        return good, f"who did {subject} that {meet} {act} {thing}"
    base, _, past, _ = w.verb("verb of opinion")
    good = f"who {past} that {subject} that {meet} {other} {did} {thing}"
    return good, f"who did {subject} that {meet} {base} that {other} {did} {thing}"


@_construction("island")
def _coordination(w: Words) -> Pair:
    subject, first = w.person().text, w.thing()
    act = w.pick("verb of thing")
    if w.coin():
        stem = f"what did {subject} {act}"
        link = w.either("with", "near", "under", "behind")
        return f"{stem} {first} {link}", f"{stem} {first} and"
    other, verb = w.person().text, w.pick("verb of thing")
    return (
        f"what did {subject} {act} and {other} {verb}",
        f"what did {subject} {act} and {other} {verb} {first}",
    )


@_construction("island")
def _adjunct_clause(w: Words) -> Pair:
    outer, inner = w.person().text, w.person().text
    link = w.either("because", "before", "after", "while")
    act = w.verb("verb of thing")[2]
    alone = w.pick("verb alone")
    if w.coin():
        base = w.pick("verb of opinion")
        return (
            f"what did {outer} {base} that {inner} {act}",
            f"what did {outer} {alone} {link} {inner} {act}",
        )
    base = w.pick("verb of thing")
    return (
        f"what did {outer} {base} {link} {inner} {forms(alone)[2]}",
        f"what did {outer} {alone} {link} {inner} {forms(base)[2]}",
    )


@_construction("island")
def _noun_complement(w: Words) -> Pair:
    outer, inner = w.person().text, w.person().text
    verb = w.pick("verb of knowledge")
    noun = w.pick("content noun")
    act = w.verb("verb of thing")[3]
    if w.coin():
        return (
            f"who {forms(verb)[1]} the {noun} that {inner} had {act} {w.thing()}",
            f"what did {outer} {verb} the {noun} that {inner} had {act}",
        )
    return (
        f"what did {outer} {verb} that {inner} had {act}",
        f"what did {outer} {verb} the {noun} that {inner} had {act}",
    )


@_construction("island")
def _subject_phrase(w: Words) -> Pair:
    other = w.person().text
    depiction = w.pick("depiction")
    base = w.pick("verb of amusing")
    if w.coin():
        act = w.pick("verb of thing")
        return (
            f"who did {other} {act} a {depiction} of",
            f"who did a {depiction} of {base} {other}",
        )
    subject = w.person().text
    return (
        f"who did a {depiction} of {subject} {base}",
        f"who did a {depiction} of {base} {subject}",
    )


@_construction("island")
def _left_branch(w: Words) -> Pair:
    subject = w.person().text
    base = w.pick("verb of thing")
    asked = w.either("whose", "which", "how many")
    head = w.pick("thing")
    head = plural(head) if asked == "how many" or w.coin(0.4) else head
    return (
        f"{asked} {head} did {subject} {base}",
        f"{asked} did {subject} {base} {head}",
    )


# --- argument structure -------------------------------------------------------------


@_construction("argument structure")
def _intransitive(w: Words) -> Pair:
    subject, other = w.person().text, w.person().text
    lone, act = w.verb("verb alone")[2], _verb_of_person(w)
    if w.coin():
        return f"{subject} {act} {other}", f"{subject} {lone} {other}"
    return f"{subject} {lone}", f"{subject} {lone} {other}"


@_construction("argument structure")
def _missing_object(w: Words) -> Pair:
    subject, act = w.person().text, w.verb("verb of thing")[2]
    if w.coin():
        return f"{subject} {w.verb('verb alone')[2]}", f"{subject} {act}"
    return f"{subject} {act} {w.thing()}", f"{subject} {act}"


@_construction("argument structure")
def _causative(w: Words) -> Pair:
    subject, thing = w.person().text, w.thing(kind="breakable thing")
    change = w.verb("verb of change")[2]
    vanish = w.verb("verb of vanishing")[2]
    return f"{subject} {change} {thing}", f"{subject} {vanish} {thing}"


@_construction("argument structure")
def _inchoative(w: Words) -> Pair:
    thing = w.thing(w.coin(), kind="breakable thing")
    category = "verb of change" if w.coin() else "verb of vanishing"
    return (
        f"{thing} {w.verb(category)[2]}",
        f"{thing} {w.verb('verb of thing')[2]}",
    )


@_construction("argument structure")
def _double_object(w: Words) -> Pair:
    subject, gift, to = w.person().text, w.gift(), w.person().text
    give, tell = w.verb("verb of giving")[2], w.verb("verb of telling")[2]
    return f"{subject} {give} {to} {gift}", f"{subject} {tell} {to} {gift}"


@_construction("argument structure")
def _dative_order(w: Words) -> Pair:
    subject, gift, to = w.person().text, w.gift(), w.person().text
    tell = w.verb("verb of telling")[2]
    return f"{subject} {tell} {gift} to {to}", f"{subject} {tell} to {to} {gift}"


@_construction("argument structure")
def _passive(w: Words) -> Pair:
    subject, agent = w.person(), w.person().text
    be = "were" if subject.is_plural else "was"
    good = w.verb("verb of person")[3]
    bad = w.verb("verb alone" if w.coin() else "verb of vanishing")[3]
    stem = f"{subject.text} {be}"
    return f"{stem} {good} by {agent}", f"{stem} {bad} by {agent}"


@_construction("argument structure")
def _expletive(w: Words) -> Pair:
    raising = w.verb("raising verb")[2]
    control = w.verb("control verb")[2]
    place = f"in the {w.pick('place')}"
    thing = w.thing(determiner="a")
    if w.coin():
        return (
            f"there {raising} to be {thing} {place}",
            f"there {control} to be {thing} {place}",
        )
    who = w.person().text
    end = f"to {w.pick('verb of thing')} {thing}"
    return f"{who} {control} {end}", f"there {control} {who} {end}"


# --- negative polarity --------------------------------------------------------------


def _ever(w: Words, determiner: str, subject: str, is_plural: bool) -> str:
    have = "have" if is_plural else "has"
    return f"{determiner} {subject} {have} ever"


@_construction("negative polarity")
def _ever_needs_a_licensor(w: Words) -> Pair:
    subject = w.person(names=False, determiner="")
    end = f"{w.verb('verb of thing')[3]} {w.thing()}"
    wrong = w.either("the", "some", "most" if subject.is_plural else "every")
    good, bad = (
        f"{_ever(w, which, subject.text.strip(), subject.is_plural)} {end}"
        for which in ("no", wrong)
    )
    return good, bad


@_construction("negative polarity")
def _licensor_must_command(w: Words) -> Pair:
    subject = w.person(names=False, determiner="")
    inner = w.person(names=False, determiner="")
    likes = w.present("verb of person", inner.is_plural)[0]
    end = f"{'have' if subject.is_plural else 'has'} ever"
    end = f"{end} {w.verb('verb of thing')[3]} {w.thing()}"
    good, bad = (
        f"{a} {subject.text.strip()} that {b} {inner.text.strip()} {likes} {end}"
        for a, b in (("no", "the"), ("the", "no"))
    )
    return good, bad


@_construction("negative polarity")
def _any_needs_a_licensor(w: Words) -> Pair:
    subject = w.person()
    act, third, did, _ = w.verb("verb of thing")
    things = w.thing(True, "any")
    if w.coin():
        adverb = w.pick("affirmative adverb")
        verb = w.either(did, act if subject.is_plural else third)
        never, often = (
            f"{subject.text} {word} {verb} {things}"
            for word in (w.either("never", "rarely", "hardly ever"), adverb)
        )
        return never, often
    if w.coin():
        return (
            f"did {subject.text} {act} {things}",
            f"{subject.text} did {act} {things}",
        )
    return f"nobody {did} {things}", f"everybody {did} {things}"
