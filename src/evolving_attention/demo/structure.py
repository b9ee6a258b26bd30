"""Minimal pairs of structure: islands, argument structure, negative polarity."""

from __future__ import annotations

from evolving_attention.demo.lexicon import forms, plural
from evolving_attention.demo.words import (
    Construction,
    Pair,
    Words,
    register_in,
)

CONSTRUCTIONS: list[Construction] = []
_construction = register_in(CONSTRUCTIONS)


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
    meet = w.past("verb of person")
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
    act = w.past("verb of thing")
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
    lone, act = w.past("verb alone"), w.past("verb of person")
    if w.coin():
        return f"{subject} {act} {other}", f"{subject} {lone} {other}"
    return f"{subject} {lone}", f"{subject} {lone} {other}"


@_construction("argument structure")
def _missing_object(w: Words) -> Pair:
    subject, act = w.person().text, w.past("verb of thing")
    if w.coin():
        return f"{subject} {w.past('verb alone')}", f"{subject} {act}"
    return f"{subject} {act} {w.thing()}", f"{subject} {act}"


@_construction("argument structure")
def _causative(w: Words) -> Pair:
    subject, thing = w.person().text, w.thing(kind="breakable thing")
    change = w.past("verb of change")
    vanish = w.past("verb of vanishing")
    return f"{subject} {change} {thing}", f"{subject} {vanish} {thing}"


@_construction("argument structure")
def _inchoative(w: Words) -> Pair:
    thing = w.thing(w.coin(), kind="breakable thing")
    category = "verb of change" if w.coin() else "verb of vanishing"
    return (
        f"{thing} {w.past(category)}",
        f"{thing} {w.past('verb of thing')}",
    )


@_construction("argument structure")
def _double_object(w: Words) -> Pair:
    subject, gift, to = w.person().text, w.gift(), w.person().text
    give, tell = w.past("verb of giving"), w.past("verb of telling")
    return f"{subject} {give} {to} {gift}", f"{subject} {tell} {to} {gift}"


@_construction("argument structure")
def _dative_order(w: Words) -> Pair:
    subject, gift, to = w.person().text, w.gift(), w.person().text
    tell = w.past("verb of telling")
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
    raising = w.past("raising verb")
    control = w.past("control verb")
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
