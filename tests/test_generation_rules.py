"""Rules of generation: lengths, repeats, prefixes, forced tokens; alignments."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from helpers_generation import (
    END,
    log_probabilities,
    padded,
    sources,
    trained,
)

LIMIT = 12
BEAMS = pytest.mark.parametrize("num_beams", [1, 3])


def ids_of(row):
    """Returns the row up to its end token."""
    ids = row.tolist()
    return ids[: ids.index(END) + 1] if END in ids else [i for i in ids if i != 0]


@BEAMS
def test_no_end_before_so_many_tokens(num_beams):
    model, given = trained(), padded(sources())
    usual = model.generate(**given, num_beams=num_beams, max_new_tokens=LIMIT)
    short = [len(ids_of(row)) - 1 for row in usual]
    assert min(short) < 6
    for options in ({"min_new_tokens": 6}, {"min_length": 7}):
        found = model.generate(
            **given, num_beams=num_beams, max_new_tokens=LIMIT, **options
        )
        lengths = [len(ids_of(row)) - 1 for row in found]
        assert min(lengths) == 7  # six tokens and the end token


@BEAMS
def test_the_longest_length_counts_the_start(num_beams, caplog):
    model, given = trained(), padded(sources())
    short = model.generate(**given, num_beams=num_beams, max_new_tokens=4)
    with caplog.at_level(logging.WARNING):
        found = model.generate(**given, num_beams=num_beams, max_length=5)
    assert np.array_equal(found, short)
    assert "reach max_length (5) without an end" in caplog.text


@BEAMS
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_n_gram_comes_twice(num_beams, n):
    model, given = (
        trained(),
        padded([np.array([5, 5, 5, 5, 5, 5]), np.array([4, 4, 4])]),
    )

    def repeats(**options):
        rows = model.generate(
            **given,
            num_beams=num_beams,
            max_new_tokens=LIMIT,
            min_new_tokens=8,
            **options,
        )
        grams = [
            [tuple(row[i : i + n]) for i in range(len(row) - n + 1)]
            for row in map(ids_of, rows)
        ]
        return sum(len(found) - len(set(found)) for found in grams)

    assert repeats() > 0
    assert repeats(no_repeat_ngram_size=n) == 0


@BEAMS
def test_prefixes_of_different_lengths(num_beams):
    model, rows = trained("skips"), sources()
    prefixes = [[1, 5], [], [4, 4, 4, 6], [1], [7], [1, 3, 3]]
    options = {"num_beams": num_beams, "max_new_tokens": LIMIT}
    options["return_dict_in_generate"] = True
    out = model.generate(**padded(rows), **options, decoder_input_ids=prefixes)
    free = model.generate(**padded(rows), **options)
    for i, (row, prefix) in enumerate(zip(rows, prefixes, strict=True)):
        whole = prefix if prefix[:1] == [1] else [1, *prefix]
        alone = model.generate(row[None], **options, decoder_input_ids=[prefix])
        width = alone.sequences.shape[1]
        assert np.array_equal(out.sequences[i, :width], alone.sequences[0])
        assert np.array_equal(out.sequences_scores[i], alone.sequences_scores[0])
        ids = ids_of(out.sequences[i])
        assert ids[: len(whole)] == whole
        if len(whole) == 1:
            assert np.array_equal(alone.sequences[0], free.sequences[i, :width])
        log_p = log_probabilities(model, row, [ids[:-1]])[0]
        scores = log_p[np.arange(len(ids) - 1), ids[1:]]
        scores[: len(whole) - 1] = 0
        found = out.token_scores[i, : len(scores)]
        np.testing.assert_allclose(found, scores, rtol=1e-4, atol=1e-5)
        new = len(ids) - len(whole)
        assert out.sequences_scores[i] == pytest.approx(scores.sum() / new, rel=1e-4)
    array = np.array([[1, 5], [1, 6]])
    two = model.generate(**padded(rows[:2]), **options, decoder_input_ids=array)
    assert two.sequences[:, :2].tolist() == array.tolist()


@BEAMS
def test_forced_tokens(num_beams):
    model, given = trained(), padded(sources())
    options = {"num_beams": num_beams, "max_new_tokens": 4}
    out = model.generate(
        **given,
        **options,
        forced_bos_token_id=9,
        forced_eos_token_id=END,
        return_dict_in_generate=True,
    )
    assert (out.sequences[:, 1] == 9).all()
    assert (out.token_scores[:, 0] == 0).all()
    full = out.sequences[:, 3] != 0
    assert full.any()
    ended = (out.sequences == END).any(axis=1)
    assert ended.all()
    prefixed = model.generate(
        **given, **options, forced_bos_token_id=9, decoder_input_ids=[[1, 4]] * 6
    )
    assert (prefixed[:, 1] == 4).all()  # as transformers: only after a lone start token


@BEAMS
@pytest.mark.parametrize("layer", [-1, 0])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_alignments_are_the_cross_maps_of_the_whole_forward(num_beams, layer, dtype):
    model, rows = trained("skips", dtype), sources()
    copies = num_beams
    options = {
        "num_beams": num_beams,
        "num_return_sequences": copies,
        "max_new_tokens": LIMIT,
        "return_dict_in_generate": True,
        "output_alignments": True,
        "alignment_layer": layer,
    }
    model.train()
    out = model.generate(**padded(rows, 2, True), **options)
    assert model.training
    model.eval()
    assert len(out.alignments) == copies * len(rows)
    for i, alignment in enumerate(out.alignments):
        ids, row = ids_of(out.sequences[i]), rows[i // copies]
        maps = model(
            row[None], decoder_input_ids=[ids[:-1]], output_attentions=True
        ).cross_attentions[layer]
        assert alignment.shape == (len(ids) - 1, len(row))
        assert alignment.dtype == np.float32
        expected = np.asarray(maps).astype(np.float32)[0].mean(axis=0)
        np.testing.assert_allclose(alignment, expected, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(alignment.sum(1), 1, rtol=1e-2)
    alone = model.generate(rows[3][None], **options).alignments
    for one, two in zip(alone, out.alignments[3 * copies :], strict=False):
        assert np.array_equal(one, two)
    packed = model.generate(
        np.concatenate(rows),
        sequence_offsets=np.cumsum([0, *map(len, rows)]),
        max_new_tokens=LIMIT,
        return_dict_in_generate=True,
        output_alignments=True,
    )
    assert [a.shape[1] for a in packed.alignments] == [len(row) for row in rows]
