"""The words of the acceptability grammar: two disjoint halves, train and dev.

Every content word belongs to exactly one half, with all its inflected forms, so a model
that is right on dev has learnt a construction and not a word. Determiners, pronouns,
auxiliaries, prepositions and question words are grammar, not lexicon, and are the same
in both halves. :func:`forms` inflects verbs, :func:`plural` nouns.
"""

from __future__ import annotations

_TABLE: dict[str, tuple[str, str]] = {
    # category: (train words, dev words)
    "masculine noun": (
        "king uncle waiter brother father prince monk grandfather wizard landlord hero",
        "duke nephew actor husband boy lad",
    ),
    "feminine noun": (
        "queen aunt waitress sister mother princess nun grandmother witch landlady",
        "duchess niece actress wife girl lady",
    ),
    "person noun": (
        "teacher doctor student lawyer farmer singer painter baker driver soldier "
        "tourist pilot scientist writer neighbor guest judge reporter dancer senator",
        "nurse plumber sailor gardener journalist tailor engineer visitor librarian "
        "poet manager artist",
    ),
    "masculine name": (
        "John Robert David Peter Thomas Daniel Paul Kevin Brian Frank",
        "James Michael William Henry Oliver",
    ),
    "feminine name": (
        "Mary Susan Linda Karen Laura Emma Alice Nancy Julia Helen",
        "Sarah Anna Rachel Emily Diana",
    ),
    "thing": (
        "lamp chair window cup door table bottle vase carpet mirror ladder fence piano "
        "clock camera basket bucket candle pillow umbrella",
        "plate sofa gate jar violin kettle blanket hammer drum stool",
    ),
    "breakable thing": (
        "lamp window cup bottle vase mirror clock bucket",
        "plate jar violin kettle drum",
    ),
    "gift": (
        "book letter ring ticket coin map key photograph toy diary",
        "necklace postcard pencil bracelet stamp",
    ),
    "depiction": ("picture portrait drawing", "sketch statue"),
    "person adjective": (
        "old tall famous clever friendly rich brave tired",
        "strange polite lazy cheerful",
    ),
    "thing adjective": (
        "red heavy wooden expensive small dusty",
        "green fragile cheap plain",
    ),
    "affirmative adverb": ("often usually always", "frequently regularly generally"),
    "verb of person": (
        "admire praise thank blame defend respect hate criticize insult punish",
        "adore ridicule love embarrass comfort accuse",
    ),
    "verb of thing": (
        "buy destroy repair purchase inspect damage fix replace borrow",
        "demolish examine ruin acquire locate obtain",
    ),
    "verb alone": (
        "smile laugh sleep sneeze cough yawn kneel giggle wink",
        "snore shiver weep blush frown faint",
    ),
    "verb of vanishing": ("vanish arrive emerge remain", "disappear fall come rise"),
    "verb of change": (
        "break smash topple move shake roll",
        "shatter crack spin tilt",
    ),
    "verb of giving": ("give send lend offer show hand", "sell bring mail pass"),
    "verb of telling": (
        "donate describe explain return announce",
        "contribute reveal mention demonstrate report",
    ),
    "verb of opinion": ("think say believe hope", "claim suspect insist assume"),
    "verb of knowledge": ("know remember learn", "realize forget notice"),
    "verb of amusing": ("please annoy amuse", "delight irritate shock"),
    "raising verb": ("seem happen", "appear tend"),
    "control verb": ("plan refuse", "try want"),
    "content noun": ("fact rumor idea", "theory suspicion news"),
    "place": (
        "garden kitchen castle station street",
        "cellar museum hotel library forest",
    ),
}

LEXICON: dict[str, dict[str, tuple[str, ...]]] = {
    split: {name: tuple(halves[i].split()) for name, halves in _TABLE.items()}
    for i, split in enumerate(("train", "dev"))
}
"""``LEXICON[split][category]`` are base forms; splits are ``train`` and ``dev``."""

# base: third person singular, past, participle; for irregular verbs.
_IRREGULAR_VERBS: dict[str, tuple[str, str, str]] = {
    "break": ("breaks", "broke", "broken"),
    "shake": ("shakes", "shook", "shaken"),
    "spin": ("spins", "spun", "spun"),
    "give": ("gives", "gave", "given"),
    "send": ("sends", "sent", "sent"),
    "lend": ("lends", "lent", "lent"),
    "show": ("shows", "showed", "shown"),
    "sell": ("sells", "sold", "sold"),
    "bring": ("brings", "brought", "brought"),
    "think": ("thinks", "thought", "thought"),
    "say": ("says", "said", "said"),
    "know": ("knows", "knew", "known"),
    "learn": ("learns", "learned", "learned"),
    "forget": ("forgets", "forgot", "forgotten"),
    "buy": ("buys", "bought", "bought"),
    "sleep": ("sleeps", "slept", "slept"),
    "kneel": ("kneels", "knelt", "knelt"),
    "weep": ("weeps", "wept", "wept"),
    "fall": ("falls", "fell", "fallen"),
    "come": ("comes", "came", "come"),
    "rise": ("rises", "rose", "risen"),
    "plan": ("plans", "planned", "planned"),
    "refuse": ("refuses", "refused", "refused"),
}

_IRREGULAR_PLURALS = {"wife": "wives", "lady": "ladies", "landlady": "landladies"}
_SIBILANTS = ("s", "x", "z", "ch", "sh")


def _ends_in_consonant_y(word: str) -> bool:
    return word.endswith("y") and word[-2] not in "aeiou"


def plural(noun: str) -> str:
    """Returns the plural of a noun of the lexicon: ``duchess`` gives ``duchesses``."""
    if noun in _IRREGULAR_PLURALS:
        return _IRREGULAR_PLURALS[noun]
    if _ends_in_consonant_y(noun):
        return noun[:-1] + "ies"
    if noun.endswith(_SIBILANTS) or noun == "hero":
        return noun + "es"
    return noun + "s"


def forms(verb: str) -> tuple[str, str, str]:
    """Returns third person singular, past and participle of a verb of the lexicon."""
    if verb in _IRREGULAR_VERBS:
        return _IRREGULAR_VERBS[verb]
    if _ends_in_consonant_y(verb):
        stem = verb[:-1] + "i"
        return stem + "es", stem + "ed", stem + "ed"
    third = verb + ("es" if verb.endswith(_SIBILANTS) else "s")
    past = verb + ("d" if verb.endswith("e") else "ed")
    return third, past, past


def content_words(split: str) -> frozenset[str]:
    """Returns every content word of one half, in all its forms, in lower case."""
    words: set[str] = set()
    for category, bases in LEXICON[split].items():
        for base in bases:
            words.add(base.lower())
            if "verb" in category.split():
                words.update(forms(base))
            elif category.split()[-1] in ("noun", "thing", "gift", "depiction"):
                words.add(plural(base))
    return frozenset(words)
