"""Masks of pre-training: their shares, whole words, keys, and the collator."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers_models import tiny
from helpers_pretraining import documents, tokenizer
from tokenizers import Tokenizer, models

import evolving_attention as ea
from evolving_attention.data.masking import DRAWS, TokenMasker, random_words
from evolving_attention.text import train_byte_bpe

WORDS = tokenizer(documents(30))
SPECIAL = set(WORDS.all_special_ids)


def drawn(rows: list[np.ndarray], seed: int = 0, **options: Any) -> Any:
    """Returns the flat ids, inputs and labels of a masker."""
    masker = TokenMasker(WORDS, **options)
    ids = np.concatenate(rows)
    offsets = np.cumsum([0, *map(len, rows)])
    words = random_words(seed, 0, 0, DRAWS * len(ids)).reshape(-1, DRAWS)
    return ids, *masker(ids, offsets, words)


def random_rows(count: int, length: int, seed: int = 0) -> list[np.ndarray]:
    """Returns rows of [CLS], random tokens and [SEP]."""
    random = np.random.default_rng(seed)
    inner = random.integers(5, len(WORDS), (count, length - 2))
    frame = [WORDS.cls_token_id], [WORDS.sep_token_id]
    return [np.concatenate([frame[0], row, frame[1]]) for row in inner]


def test_shares():
    ids, inputs, labels = drawn(random_rows(400, 102))
    chosen = labels != -100
    assert np.array_equal(labels[chosen], ids[chosen])
    assert np.array_equal(inputs[~chosen], ids[~chosen])
    assert not np.isin(labels[chosen], list(SPECIAL)).any()
    n = 400 * 100  # tokens that may be chosen
    sd = (0.15 * 0.85 / n) ** 0.5
    assert abs(chosen.sum() / n - 0.15) < 4 * sd
    masked = (inputs == WORDS.mask_token_id) & chosen
    kept = (inputs == ids) & chosen
    other = chosen & ~masked & ~kept
    assert abs(masked.sum() / chosen.sum() - 0.8) < 4 * (0.16 / chosen.sum()) ** 0.5
    # one in ``ordinary`` random tokens equals the old one
    ordinary = len(WORDS) - len(SPECIAL)
    for found, share in ((kept, 0.1 * (1 + 1 / ordinary)), (other, 0.1)):
        sd = (0.09 / chosen.sum()) ** 0.5
        assert abs(found.sum() / chosen.sum() - share) < 4 * sd
    assert not np.isin(inputs[other], list(SPECIAL)).any()
    assert len(set(inputs[other])) > ordinary / 2


@pytest.mark.parametrize("shares", [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
def test_other_shares(shares: tuple[float, float]):
    options = dict(
        zip(("mask_replace_prob", "random_replace_prob"), shares, strict=True)
    )
    ids, inputs, labels = drawn(random_rows(20, 52), **options)
    chosen = labels != -100
    masked = (inputs[chosen] == WORDS.mask_token_id).mean()
    assert masked == shares[0]
    changed = (inputs[chosen] != ids[chosen]).mean()
    assert changed == 0 if sum(shares) == 0 else changed > 0.9


def test_a_row_has_a_label_and_special_tokens_have_none():
    rows = [np.array([2, 7, 3]), np.array([2, 3]), np.array([2, 3, 8, 9, 3])] * 20
    _ids, _inputs, labels = drawn(rows, mlm_probability=0.01)
    for row, part in zip(
        rows, np.split(labels, np.cumsum(list(map(len, rows)))[:-1]), strict=True
    ):
        free = [i for i, one in enumerate(row) if one not in SPECIAL]
        assert (part != -100).sum() == min(1, len(free))
        assert all(part[i] == -100 for i in range(len(row)) if i not in free)


def test_whole_words():
    vocab = WORDS.get_vocab()
    text = [line for lines in documents(40, seed=1) for line in lines]
    rows = [np.asarray(ids) for ids in WORDS(text)["input_ids"]]
    names = {index: token for token, index in vocab.items()}
    assert any(names[i].startswith("##") for row in rows for i in row)
    _, _, labels = drawn(rows, whole_word_mask=True)
    chosen = pieces = 0
    for row, part in zip(
        rows, np.split(labels, np.cumsum(list(map(len, rows)))[:-1]), strict=True
    ):
        words: list[list[int]] = []
        for place, index in enumerate(row):
            if names[index].startswith("##"):
                words[-1].append(place)
            else:
                words.append([place])
        for places in words:
            found = {part[i] != -100 for i in places}
            assert len(found) == 1  # all pieces of a word, or none
            if row[places[0]] not in SPECIAL:
                chosen += found.pop()
                pieces += 1
    assert abs(chosen / pieces - 0.15) < 4 * (0.15 * 0.85 / pieces) ** 0.5


@pytest.mark.parametrize("extra", ["", " ## a heading ## another ##"])
def test_whole_words_of_a_byte_level_bpe(extra: str):
    text = "the unbelievable extraordinary characteristically misunderstanding "
    words = train_byte_bpe([3 * text + extra] * 3, 300)
    tokens = words.get_vocab()
    assert any(token.startswith("##") for token in tokens) == bool(extra)
    continues = TokenMasker(words, whole_word_mask=True).continues
    assert continues is not None
    for token, index in tokens.items():
        if index not in words.all_special_ids:
            assert continues[index] == (token[0] not in "ĠĊ"), token


def test_tokens_of_a_word_level_vocabulary_are_words():
    model = models.WordLevel({"[UNK]": 0, "##": 1, "dog": 2}, unk_token="[UNK]")
    backend = Tokenizer(model)
    special = ["[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]"]
    backend.add_special_tokens(special)
    words = ea.text.Tokenizer(
        backend,
        settings={},
        special_tokens={token[1:-1].lower(): token for token in special},
        model_max_length=None,
        model_input_names=["input_ids"],
        tokenizer_class="PreTrainedTokenizerFast",
    )
    continues = TokenMasker(words, whole_word_mask=True).continues
    assert continues is not None
    assert not continues.any()


@pytest.mark.parametrize(
    ("vocab", "pieces"),
    [(["un", "##real", "##"], ["##real", "##"]), (["▁un", "real"], ["real"])],
)
def test_whole_words_of_a_tokenizer_without_a_backend(vocab, pieces):
    numbers = {token: i for i, token in enumerate(["[PAD]", "[MASK]", *vocab])}
    words = SimpleNamespace(  # as transformers' tokenizers written in Python
        get_vocab=lambda: numbers,
        all_special_ids=[0, 1],
        mask_token_id=1,
        pad_token_id=0,
        cls_token_id=0,
        sep_token_id=0,
    )
    continues = TokenMasker(words, whole_word_mask=True).continues
    assert continues is not None
    found = [token for token in vocab if continues[numbers[token]]]
    assert found == pieces


def test_words_are_a_function_of_seed_epoch_and_row():
    first = random_words(5, 2, 7, 40)
    assert np.array_equal(first, random_words(5, 2, 7, 40))
    assert np.array_equal(first[:9], random_words(5, 2, 7, 9))
    for other in ((6, 2, 7), (5, 3, 7), (5, 2, 8)):
        assert not np.isin(random_words(*other, 40), first).any()


@pytest.mark.parametrize("seed", [None, 7])
def test_the_collator_trains(tmp_path: Path, seed: int | None):
    text = [line for lines in documents(8) for line in lines]
    rows = [{"input_ids": ids} for ids in WORDS(text)["input_ids"]]

    def run(out: str, steps: int, again: bool | None = None) -> Any:
        collator = ea.pretraining.DataCollatorForLanguageModeling(WORDS, seed=seed)
        model = tiny("BertForMaskedLM", vocab_size=len(WORDS))
        args = ea.TrainingArguments(
            tmp_path / out,
            max_steps=steps,
            save_steps=3,
            disable_tqdm=True,
            seed=3,
            lr_scheduler_type="constant",
        )
        trainer = ea.Trainer(model, args, data_collator=collator, train_dataset=rows)
        trainer.train(resume_from_checkpoint=again)
        return {n: np.array(v) for n, v in model.state_dict().items()}

    whole = run("whole", 6)
    run("parts", 3)
    parts = run("parts", 6, True)
    assert all(np.array_equal(whole[name], parts[name]) for name in whole)


def test_the_collators_seed():
    make = ea.pretraining.DataCollatorForLanguageModeling
    rows = [{"input_ids": row, "label": 1} for row in random_rows(4, 12)]
    first, second = make(WORDS, seed=4), make(WORDS, seed=4)
    batches = [first(rows), first(rows)]
    assert "label" not in batches[0]
    assert batches[0]["labels"].shape == batches[0]["input_ids"].shape
    assert not np.array_equal(batches[0]["labels"], batches[1]["labels"])
    for batch in batches:
        assert np.array_equal(batch["input_ids"], second(rows)["input_ids"])
    third = make(WORDS, seed=4)
    third.load_state_dict(second.state_dict())
    assert np.array_equal(third(rows)["labels"], first(rows)["labels"])
