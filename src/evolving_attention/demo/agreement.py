"""Minimal pairs of agreement: verbs, determiners, reflexive pronouns."""

from __future__ import annotations

from evolving_attention.demo.lexicon import plural
from evolving_attention.demo.words import (
    Construction,
    Noun,
    Pair,
    Words,
    register_in,
)

CONSTRUCTIONS: list[Construction] = []
_construction = register_in(CONSTRUCTIONS)


# --- agreement ----------------------------------------------------------------------


def _predicates(w: Words, is_plural: bool) -> Pair:
    """Returns a right and a wrong predicate: present verb or auxiliary + participle."""
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
    stem = f"{w.person().text} {w.past('verb of thing')} {right} {adjective}"
    return stem + good, stem + bad


@_construction("determiner and noun")
def _quantifier(w: Words) -> Pair:
    many = w.coin()
    right = w.either("many", "several", "two") if many else w.either("every", "each")
    wrong = w.either("every", "each") if many else w.either("many", "several", "two")
    head = w.pick("thing")
    head = plural(head) if many else head
    adjective = f"{w.pick('thing adjective')} " if w.coin() else ""
    stem = f"{w.person().text} {w.past('verb of thing')}"
    return f"{stem} {right} {adjective}{head}", f"{stem} {wrong} {adjective}{head}"


# --- reflexives ---------------------------------------------------------------------

_OTHER = {"m": "herself", "f": "himself"}


@_construction("reflexive")
def _reflexive_gender(w: Words) -> Pair:
    subject = w.person(False, w.either("m", "f"))
    stem = f"{subject.text} {w.past('verb of person')}"
    return f"{stem} {subject.reflexive}", f"{stem} {_OTHER[subject.gender]}"


@_construction("reflexive")
def _reflexive_number(w: Words) -> Pair:
    gender = w.either("m", "f")
    subject = w.person(w.coin(), gender)
    single = Noun("", False, gender).reflexive
    wrong = single if subject.is_plural else "themselves"
    stem = f"{subject.text} {w.past('verb of person')}"
    return f"{stem} {subject.reflexive}", f"{stem} {wrong}"


@_construction("reflexive")
def _reflexive_with_nearer_noun(w: Words) -> Pair:
    gender = w.either("m", "f")
    other = "f" if gender == "m" else "m"
    subject = w.person(False, gender, names=False)
    inner = w.person(False, other).text
    link = w.either("near", "behind", "beside", f"that {w.past('verb of person')}")
    stem = f"{subject.text} {link} {inner} {w.past('verb of person')}"
    return f"{stem} {subject.reflexive}", f"{stem} {_OTHER[gender]}"


@_construction("reflexive")
def _reflexive_in_own_clause(w: Words) -> Pair:
    many = w.coin()
    outer = w.person(not many, "m" if many else None)
    inner = w.person(many, w.either("m", "f"))
    wrong = "themselves" if outer.is_plural else outer.reflexive
    stem = f"{outer.text} {w.past('verb of opinion')} that {inner.text}"
    stem = f"{stem} {w.past('verb of person')}"
    return f"{stem} {inner.reflexive}", f"{stem} {wrong}"


@_construction("reflexive")
def _reflexive_is_no_subject(w: Words) -> Pair:
    outer = w.person(False, w.either("m", "f"))
    pronoun = "she" if outer.gender == "f" else "he"
    inner = w.person(False, outer.gender)
    stem = f"{outer.text} {w.past('verb of opinion')} that"
    verb = w.past("verb of person")
    if w.coin():
        return (
            f"{stem} {inner.text} {verb} {inner.reflexive}",
            f"{stem} {inner.reflexive} {verb} {inner.text}",
        )
    end = f"had {w.verb('verb of person')[3]} {w.person().text}"
    return f"{stem} {pronoun} {end}", f"{stem} {outer.reflexive} {end}"
