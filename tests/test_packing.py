"""Inputs of models: padded, packed, invalid; and Packing of ea.functional."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_models import (
    NO_DROPOUT,
    SIZES,
    arrays_of,
    assert_same_bits,
    draw,
    run,
    tiny,
)

import evolving_attention as ea
from evolving_attention import functional as F

EVOLVING = ea.attention.Evolving(0.3, 0.4)
BATCH = draw((5, 9, 1, 6))


@pytest.fixture(scope="module")
def model():
    return tiny("BertModel", EVOLVING, **NO_DROPOUT).eval()


@pytest.fixture(scope="module")
def roberta():
    return tiny("RobertaModel", EVOLVING, **NO_DROPOUT).eval()


def outputs(model, **inputs):
    with ea.no_grad():
        return arrays_of(model(**inputs))


# --- equal results --------------------------------------------------------------------


@pytest.mark.parametrize("order", [[3, 1, 0, 2], [2]])
def test_sequences_do_not_see_each_other(model, order):
    whole = outputs(model, **BATCH.packed())
    some = draw((5, 9, 1, 6))
    some.ids[:] = [BATCH.ids[i] for i in order]
    some.types[:] = [BATCH.types[i] for i in order]
    found = outputs(model, **some.packed())
    begins = np.cumsum([0, *BATCH.lengths])
    rows = np.concatenate([np.arange(begins[i], begins[i + 1]) for i in order])
    expected = whole["last_hidden_state"][rows]
    assert np.array_equal(found["last_hidden_state"], expected)
    assert np.array_equal(found["pooler_output"], whole["pooler_output"][order])


def test_without_a_mask_every_place_is_a_token(model):
    ids = np.array([[5, 0, 7], [8, 9, 0]])  # 0 is the padding id
    expected = outputs(model, input_ids=ids, attention_mask=np.ones((2, 3)) > 0)
    assert_same_bits(outputs(model, input_ids=ids), expected)


def test_a_masked_token_is_as_if_it_were_not_there(model):
    ids = np.array([[5, 6, 7, 8, 9]])
    mask = np.array([[1, 0, 1, 1, 0]])
    found = outputs(model, input_ids=ids, attention_mask=mask)
    kept = mask.astype(bool)
    expected = outputs(
        model,
        input_ids=ids[kept],
        position_ids=np.flatnonzero(kept[0]),
        sequence_offsets=[0, 3],
    )
    assert np.array_equal(
        found["last_hidden_state"][kept], expected["last_hidden_state"]
    )
    for other in (1, 39):
        changed = np.where(kept, ids, other)
        assert_same_bits(outputs(model, input_ids=changed, attention_mask=mask), found)


@pytest.mark.parametrize(
    "places",
    [
        [(0, 1, 2), (0,), (0, 1, 2, 3), (0, 1)],
        [(0, 2, 3), (1,), (0, 1, 2, 3), (3, 5)],
    ],
    ids=["in front", "with gaps"],
)
def test_maps_come_back_at_the_places_of_their_tokens(model, places):
    ids = np.arange(4 * 6).reshape(4, 6)
    kept = np.array([[t in row for t in range(6)] for row in places])
    wanted = {"output_attentions": True, "output_attention_logits": True}
    padded = model(ids, kept, **wanted)
    packed = model(
        input_ids=ids[kept],
        position_ids=np.nonzero(kept)[1],
        sequence_offsets=np.cumsum([0, *kept.sum(1)]),
        **wanted,
    )
    for name in ("attentions", "attention_logits"):
        for layer, short in enumerate(getattr(packed, name)):
            found = np.array(np.asarray(getattr(padded, name)[layer]))
            heads = SIZES["num_attention_heads"]
            assert found.shape == (4, heads, 6, 6)
            for row, maps, expected in zip(
                places, found, np.asarray(short), strict=True
            ):
                cells = np.ix_(range(heads), row, row)
                n = len(row)
                assert np.array_equal(maps[cells], expected[:, :n, :n])
                maps[cells] = 0
            assert not found.any()


def test_positions_and_types_have_defaults(model):
    ids = np.array([[5, 6, 7, 8], [9, 8, 7, 6]])
    expected = outputs(
        model,
        input_ids=ids,
        position_ids=np.tile(np.arange(4), (2, 1)),
        token_type_ids=np.zeros((2, 4), int),
    )
    assert_same_bits(outputs(model, input_ids=ids), expected)
    moved = outputs(model, input_ids=ids, position_ids=np.full((2, 4), 3))
    assert not np.allclose(moved["pooler_output"], expected["pooler_output"])


def test_bert_counts_columns_and_roberta_counts_tokens(model, roberta):
    ids = np.array([[5, 6, 7]])
    mask = np.array([[0, 0, 0, 1, 1, 1]])
    for each, pad, same in [(model, 0, False), (roberta, 1, True)]:
        left = np.concatenate([np.full((1, 3), pad), ids], axis=1)
        padded = outputs(each, input_ids=left, attention_mask=mask)
        alone = outputs(each, input_ids=ids)
        equal = np.array_equal(padded["pooler_output"], alone["pooler_output"])
        assert equal == same


def test_a_padding_id_inside_keeps_the_padding_position_in_roberta(roberta):
    ids = np.array([[5, 1, 7, 8]])
    expected = outputs(roberta, input_ids=ids, position_ids=[[2, 1, 3, 4]])
    assert_same_bits(outputs(roberta, input_ids=ids), expected)


def test_padding_ids_get_no_gradient_as_inputs(model, roberta):
    ids = np.array([[5, 6, 0, 1, 8]])  # unmasked
    for each, pad, tables in [(model, 0, "word"), (roberta, 1, "word position")]:
        _, gradients = run(each, input_ids=ids)
        for table in tables.split():
            rows = gradients[f"embeddings.{table}_embeddings.weight"]
            assert not rows[pad].any()
            assert rows[5].any()
        others = gradients["embeddings.word_embeddings.weight"][1 - pad]
        assert others.any()


def test_left_padding_does_not_use_up_robertas_positions(roberta):
    # 40 positions hold 38 tokens, regardless of the padding in front.
    ids = np.full((1, 60), 1)
    ids[0, -38:] = np.arange(38) + 2
    mask = (ids != 1).astype(int)
    found = outputs(roberta, input_ids=ids, attention_mask=mask)
    expected = outputs(roberta, input_ids=ids[:, -38:])
    assert np.array_equal(found["pooler_output"], expected["pooler_output"])


FORMS = {
    "lists": lambda a: a.tolist(),
    "int32": lambda a: a.astype(np.int32),
    "uint16": lambda a: a.astype(np.uint16),
    "big-endian": lambda a: a.astype(">i8"),
    "Fortran order": np.asfortranarray,
    "every other column": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "read-only": lambda a: np.broadcast_to(a[None], (1, *a.shape))[0],
    "ea.Tensor": lambda a: ea.Tensor(a),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_input(model, form):
    padded = BATCH.padded(2)
    given = {name: FORMS[form](value) for name, value in padded.items()}
    assert_same_bits(outputs(model, **given), outputs(model, **padded))


def test_torch_tensors_are_inputs(model):
    torch = pytest.importorskip("torch")
    padded = BATCH.padded(2)
    expected = outputs(model, **padded)
    given = {name: torch.from_numpy(value) for name, value in padded.items()}
    assert_same_bits(outputs(model, **given), expected)
    given["attention_mask"] = given["attention_mask"].bool()
    given["token_type_ids"] = given["token_type_ids"].to(torch.int16)
    assert_same_bits(outputs(model, **given), expected)


# --- errors ---------------------------------------------------------------------------

IDS = np.array([[5, 6, 7], [8, 9, 4]])
FLAT = IDS.reshape(-1)
WRONG = {
    "nothing": ({}, ea.InputError, "tokenizer"),
    "floats": ({"input_ids": IDS * 1.0}, ea.DTypeError, "input_ids must be integers"),
    "ragged": ({"input_ids": [[1, 2], [3]]}, ea.ShapeError, "input_ids.*rectangular"),
    "words": ({"input_ids": [["a"]]}, ea.DTypeError, "input_ids must be integers"),
    "one row": ({"input_ids": FLAT}, ea.ShapeError, r"input_ids.*\(6,\)"),
    "three axes": ({"input_ids": IDS[None]}, ea.ShapeError, r"\(1, 2, 3\)"),
    "no tokens": ({"input_ids": np.zeros((2, 0), int)}, ea.InputError, "row 0"),
    "id too large": (
        {"input_ids": [[5, 6], [7, 40]]},
        ea.InputError,
        r"input_ids\[1, 1\] = 40: expected 0 to 39 \(vocab_size is 40\)",
    ),
    "id too large with padding": (
        {"input_ids": [[5, 0], [7, 99]], "attention_mask": [[1, 0], [1, 1]]},
        ea.InputError,
        r"input_ids\[1, 1\] = 99",
    ),
    "id negative": ({"input_ids": [[-1]]}, ea.InputError, r"input_ids\[0, 0\] = -1"),
    "packed id": (
        {"input_ids": [5, 6, 41], "sequence_offsets": [0, 1, 3]},
        ea.InputError,
        r"input_ids\[2\] = 41",
    ),
    "type": (
        {"input_ids": IDS, "token_type_ids": IDS * 0 + 2},
        ea.InputError,
        r"token_type_ids\[0, 0\] = 2.*type_vocab_size",
    ),
    "position": (
        {"input_ids": IDS, "position_ids": IDS * 0 + 40},
        ea.InputError,
        r"position_ids\[0, 0\] = 40.*max_position_embeddings",
    ),
    "too long": (
        {"input_ids": np.full((1, 41), 5)},
        ea.InputError,
        "more than 40 tokens.*truncation",
    ),
    "mask shape": (
        {"input_ids": IDS, "attention_mask": np.ones((2, 4), int)},
        ea.ShapeError,
        "attention_mask",
    ),
    "mask values": (
        {"input_ids": IDS, "attention_mask": [[1, 1, 1], [1, 2, 0]]},
        ea.InputError,
        r"attention_mask\[1, 1\] = 2",
    ),
    "mask of nothing": (
        {"input_ids": IDS, "attention_mask": [[1, 1, 1], [0, 0, 0]]},
        ea.InputError,
        "row 1 has no token",
    ),
    "types shape": (
        {"input_ids": IDS, "token_type_ids": [0, 0, 0]},
        ea.ShapeError,
        "token_type_ids",
    ),
    "mask with offsets": (
        {"input_ids": FLAT, "attention_mask": FLAT, "sequence_offsets": [0, 6]},
        ea.ShapeError,
        "attention_mask with sequence_offsets",
    ),
    "offsets and two axes": (
        {"input_ids": IDS, "sequence_offsets": [0, 6]},
        ea.ShapeError,
        "sequence_offsets",
    ),
    "offsets too short": (
        {"input_ids": FLAT, "sequence_offsets": [0, 5]},
        ea.ShapeError,
        "expected 0 to 6",
    ),
    "offsets fall": (
        {"input_ids": FLAT, "sequence_offsets": [0, 4, 2, 6]},
        ea.InputError,
        r"sequence_offsets\[2\] = 2",
    ),
    "empty sequence": (
        {"input_ids": FLAT, "sequence_offsets": [0, 3, 3, 6]},
        ea.InputError,
        "sequence 1 has no token",
    ),
    "no offsets": (
        {"input_ids": FLAT, "sequence_offsets": np.zeros(0, int)},
        ea.ShapeError,
        "sequence_offsets",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_inputs_are_named(model, case):
    inputs, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        model(**inputs)


def test_a_wrong_input_leaves_a_usable_model(model):
    expected = outputs(model, **BATCH.packed())
    with pytest.raises(ea.InputError):
        model(input_ids=[[SIZES["vocab_size"]]])
    assert_same_bits(outputs(model, **BATCH.packed()), expected)


# --- Packing --------------------------------------------------------------------------


def test_packing_describes_maps():
    packing = F.Packing(2, [0, 3, 4], key_offsets=[0, 2, 6])
    assert (packing.num_heads, packing.num_sequences) == (2, 2)
    assert packing.offsets == [0, 3, 4]
    assert packing.key_offsets == [0, 2, 6]
    assert packing.map_elements == 2 * (3 * 2 + 1 * 4)
    flat = np.arange(20.0)
    dense = np.asarray(packing.pad(ea.Tensor(flat)))
    expected = np.zeros((2, 2, 3, 4))
    expected[0, :, :, :2] = flat[:12].reshape(2, 3, 2)
    expected[1, :, :1, :] = flat[12:].reshape(2, 1, 4)
    assert np.array_equal(dense, expected)


def test_pad_is_differentiable():
    packing = F.Packing(1, [0, 2, 3])
    maps = ea.Tensor(np.arange(5.0), requires_grad=True)
    weight = np.arange(8.0).reshape(2, 1, 2, 2)
    (packing.pad(maps) * weight).sum().backward()
    assert np.asarray(maps.grad).tolist() == [0, 1, 2, 3, 4]


def test_packing_says_which_cells_exist():
    mask = ea.Tensor(np.array([1, 1, 0, 1], np.uint8))
    packing = F.Packing(1, [0, 2], key_offsets=[0, 4], causal=True, key_mask=mask)
    assert packing.causal
    assert not F.Packing(1, [0, 2]).causal
    scores = F.attention_scores(np.ones((2, 1)), np.ones((4, 1)), packing, 1.0)
    assert np.asarray(packing.pad(scores)).tolist() == [[[[1, 1, 0, 0], [1, 1, 0, 1]]]]


@pytest.mark.parametrize("case", [(1, [0, 2**32]), (4, [0, 2**31]), (2**62, [0, 2])])
def test_maps_beyond_every_memory(case):
    with pytest.raises(ea.ShapeError, match="more elements than memory has addresses"):
        F.Packing(*case)
    edges = F.Edges([0, 2, 4], [0, 1, 0, 1])
    with pytest.raises(ea.ShapeError, match="more elements than memory has addresses"):
        F.Packing(2**62, [0, 2], edges=edges)


@pytest.mark.parametrize("mask", [np.ones(3, np.uint8), np.ones(2, np.float32)])
def test_wrong_key_masks(mask):
    with pytest.raises(ea.ShapeError, match=r"expected bool or uint8 \(2,\)"):
        F.Packing(1, [0, 2], key_mask=ea.Tensor(mask))


@pytest.mark.parametrize("shift", [(-1, 0), (0, -1)])
def test_wrong_shifts(shift):
    packing = F.Packing(1, [0, 2])
    with pytest.raises(ea.ConfigError, match="goes up or left"):
        F.map_conv(np.ones(4), np.ones((1, 1, 3, 3)), np.ones(1), packing, shift)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2, [1, 3]), "start with 0"),
        ((2, [0, 3, 2]), r"offsets\[2\] = 2"),
        ((0, [0, 3]), "at least one head"),
        ((2, np.zeros(0, int)), "start with 0"),
        ((2, [0, 3], [0, 1, 2]), "1 query sequences but 2 key sequences"),
    ],
)
def test_wrong_packings(arguments, message):
    with pytest.raises(ea.ShapeError, match=message):
        F.Packing(*arguments)
