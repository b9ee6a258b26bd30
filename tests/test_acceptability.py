"""The acceptability data set: deterministic, balanced, held-out words, no easy cue."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict

import pytest

from evolving_attention.demo import acceptability
from evolving_attention.demo.grammar import CONSTRUCTIONS
from evolving_attention.demo.lexicon import (
    LEXICON,
    content_words,
    forms,
    plural,
)
from evolving_attention.errors import ConfigError

# Grammar: determiners, pronouns, auxiliaries, prepositions, question words.
FUNCTION_WORDS = frozenset(
    [
        "a",
        "an",
        "the",
        "this",
        "that",
        "these",
        "those",
        "each",
        "every",
        "many",
        "several",
        "two",
        "some",
        "most",
        "no",
        "any",
        "and",
        "or",
        "either",
        "never",
        "rarely",
        "hardly",
        "ever",
        "nobody",
        "everybody",
        "he",
        "she",
        "himself",
        "herself",
        "themselves",
        "who",
        "what",
        "whose",
        "which",
        "how",
        "did",
        "has",
        "have",
        "had",
        "was",
        "were",
        "be",
        "to",
        "of",
        "in",
        "by",
        "with",
        "near",
        "behind",
        "beside",
        "next",
        "front",
        "under",
        "because",
        "before",
        "after",
        "while",
        "there",
    ]
)


@pytest.fixture(scope="module")
def halves():
    return dict(zip(("train", "dev"), acceptability.load(), strict=True))


def words(rows) -> set[str]:
    return {w for row in rows for w in row["sentence"].lower().strip(".?").split()}


def fingerprint(rows) -> str:
    text = "\n".join(
        f"{r['pair']}\t{r['label']}\t{r['construction']}\t{r['sentence']}" for r in rows
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_same_rows_on_every_python_version(halves):
    """The fingerprints are fixed: changing any row changes the data set."""
    assert fingerprint(halves["train"]) == "9f62169b0ff2bf58"
    assert fingerprint(halves["dev"]) == "9fdb001b08aa4f20"


def test_another_seed_gives_other_rows():
    one, two = (acceptability.generate("dev", 50, seed) for seed in (0, 1))
    assert words(one) != words(two) or list(one) != list(two)
    assert list(acceptability.generate("dev", 50, 1)) == list(two)


def test_no_content_word_of_dev_in_train(halves):
    train, dev = words(halves["train"]), words(halves["dev"])
    assert train & dev <= FUNCTION_WORDS
    assert not content_words("train") & content_words("dev")
    assert train - FUNCTION_WORDS <= content_words("train")
    assert dev - FUNCTION_WORDS <= content_words("dev")


@pytest.mark.parametrize("split", ["train", "dev"])
def test_pairs_are_minimal_and_balanced(halves, split):
    rows = halves[split]
    pairs = defaultdict(dict)
    for row in rows:
        pairs[row["pair"]][row["label"]] = row
    assert all(set(pair) == {0, 1} for pair in pairs.values())
    assert len({row["sentence"] for row in rows}) == len(rows) == 2 * len(pairs)
    for pair in pairs.values():
        assert pair[0]["construction"] == pair[1]["construction"]
    counts = Counter(row["construction"] for row in rows)
    assert set(counts) == {kind.name for kind in CONSTRUCTIONS}
    assert max(counts.values()) - min(counts.values()) <= 2


def test_sentences_look_like_sentences(halves):
    for row in [*halves["train"], *halves["dev"]]:
        text = row["sentence"]
        assert text[0].isupper(), text
        assert text[-1] in ".?", text
        assert "  " not in text, text
        assert not any(f" a {v}" in text.lower() for v in "aeiou"), text
        assert 2 <= len(text.split()) <= 16, text


def test_counting_words_does_not_solve_dev(halves):
    """A bag-of-words model must stay near chance, or the task tests nothing."""
    text = pytest.importorskip("sklearn.feature_extraction.text")
    linear = pytest.importorskip("sklearn.linear_model")
    train, dev = halves["train"], halves["dev"]
    vectors = text.CountVectorizer(token_pattern=r"\w+|[.?]")
    model = linear.LogisticRegression(C=0.3, max_iter=1000).fit(
        vectors.fit_transform([r["sentence"] for r in train]),
        [r["label"] for r in train],
    )
    score = model.score(
        vectors.transform([r["sentence"] for r in dev]), [r["label"] for r in dev]
    )
    assert score < 0.65


def test_describe_names_every_construction_with_an_example(halves):
    table = halves["train"].describe()
    assert [row["construction"] for row in table] == [c.name for c in CONSTRUCTIONS]
    assert sum(row["pairs"] for row in table) == len(halves["train"]) // 2
    for row in table:
        assert row["acceptable"] != row["unacceptable"]
    assert len({row["phenomenon"] for row in table}) == 6


def test_slices_keep_the_type(halves):
    part = halves["dev"][:10]
    assert len(part) == 10
    assert part.split == "dev"
    assert part[0] == halves["dev"][0]


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        ("admire", ("admires", "admired", "admired")),
        ("punish", ("punishes", "punished", "punished")),
        ("try", ("tries", "tried", "tried")),
        ("annoy", ("annoys", "annoyed", "annoyed")),
        ("break", ("breaks", "broke", "broken")),
        ("ruin", ("ruins", "ruined", "ruined")),
    ],
)
def test_verb_forms(verb, expected):
    assert forms(verb) == expected


@pytest.mark.parametrize(
    ("noun", "expected"),
    [("duchess", "duchesses"), ("lady", "ladies"), ("hero", "heroes"), ("boy", "boys")],
)
def test_plurals(noun, expected):
    assert plural(noun) == expected


def test_lexicon_halves_have_the_same_categories():
    assert set(LEXICON["train"]) == set(LEXICON["dev"])
    assert all(len(w) >= 2 for half in LEXICON.values() for w in half.values())


def test_mistakes_say_what_and_what_to_do():
    with pytest.raises(ConfigError, match="expected 'train' or 'dev'"):
        acceptability.generate("test", 3)
    with pytest.raises(ConfigError, match="ask for fewer pairs"):
        acceptability.generate("dev", 10**6)
    with pytest.raises(ConfigError, match="expected 0 or more"):
        acceptability.generate("dev", -1)
