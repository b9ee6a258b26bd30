"""RoBERTa against transformers: position ids, heads and padding."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_models import SIZES, draw, pad_labels
from helpers_parity import BOUNDS, as_torch, close, compare_gradients, ours, theirs

pytestmark = pytest.mark.parity
both_types = pytest.mark.parametrize("dtype", BOUNDS)
PAD = 1
RNG = np.random.default_rng(4)
BATCH = draw((5, 9, 2, 6), "roberta")


def middle(mask_too):
    """Returns inputs with padding ids at the end and inside, masked or not."""
    inputs = BATCH.padded(2)
    inputs["input_ids"][0, 2] = inputs["input_ids"][1, 4] = PAD
    inputs["input_ids"][1, 5] = PAD
    if mask_too:
        inputs["attention_mask"] = (inputs["input_ids"] != PAD).astype(np.int64)
    return inputs


def types():
    """Returns inputs of two segments, for type_vocab_size 2."""
    inputs = BATCH.padded(2)
    inputs["token_type_ids"] = RNG.integers(0, 2, inputs["input_ids"].shape)
    return inputs


INPUTS = {
    "padding at the end": lambda: BATCH.padded(2),
    "padding in front": lambda: BATCH.padded(2, left=True),
    "padding ids in the middle": lambda: middle(False),
    "padding in the middle": lambda: middle(True),
    "token types": types,
    "no mask": lambda: {"input_ids": RNG.integers(2, SIZES["vocab_size"], (3, 8))},
}
every_input = pytest.mark.parametrize("case", INPUTS)
OPTIONS = {"pad_token_id": PAD, "type_vocab_size": 2, "layer_norm_eps": 1e-5}


def run_both(name, inputs, dtype, tmp_path, **options):
    reference = theirs(name, **OPTIONS, **options)
    model = ours(reference, tmp_path, dtype)
    expected, found = reference(**as_torch(inputs)), model(**inputs)
    expected.loss.backward()
    found.loss.backward()
    close(found.loss, expected.loss.item(), dtype, "loss")
    compare_gradients(model, reference, dtype)
    return found, expected


@both_types
@every_input
def test_base_model(case, dtype, tmp_path):
    inputs = INPUTS[case]()
    reference = theirs("RobertaModel", **OPTIONS)
    model = ours(reference, tmp_path, dtype)
    expected = reference(**as_torch(inputs)).last_hidden_state
    found = model(**inputs).last_hidden_state
    valid = inputs.get("attention_mask", np.ones_like(inputs["input_ids"])) > 0
    close(
        np.asarray(found)[valid], expected.detach().numpy()[valid], dtype, "last state"
    )
    weight = RNG.normal(size=expected.shape) * valid[..., None]
    (found * weight).sum().backward()
    (expected * as_torch({"w": weight})["w"]).sum().backward()
    compare_gradients(model, reference, dtype)


@both_types
@pytest.mark.parametrize("labels", [1, 3])
@pytest.mark.parametrize("case", [c for c in INPUTS if c != "padding in front"])
def test_classification(case, labels, dtype, tmp_path):
    # No case with padding in front: transformers would pool a padding token.
    inputs = INPUTS[case]()
    rows = len(inputs["input_ids"])
    inputs["labels"] = np.arange(rows) % 3 if labels > 1 else RNG.normal(size=rows)
    name = "RobertaForSequenceClassification"
    found, expected = run_both(name, inputs, dtype, tmp_path, num_labels=labels)
    close(found.logits, expected.logits.detach(), dtype, "logits")


@both_types
@every_input
def test_masked_lm(case, dtype, tmp_path):
    inputs = INPUTS[case]()
    valid = inputs.get("attention_mask", np.ones_like(inputs["input_ids"])) > 0
    labels = RNG.integers(0, SIZES["vocab_size"], int(valid.sum()))
    labels[::2] = -100
    inputs["labels"] = pad_labels(labels, valid)
    found, expected = run_both("RobertaForMaskedLM", inputs, dtype, tmp_path)
    logits = expected.logits.detach().numpy()[valid]
    close(np.asarray(found.logits)[valid], logits, dtype, "logits")


@pytest.mark.parametrize(
    "name", ["RobertaModel", "RobertaForSequenceClassification", "RobertaForMaskedLM"]
)
def test_what_we_save_transformers_loads(name, tmp_path):
    reference = theirs(name, **OPTIONS)
    ours(reference, tmp_path / "theirs").save_pretrained(tmp_path / "ours")
    again, report = type(reference).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    for key, value in reference.state_dict().items():
        assert np.array_equal(again.double().state_dict()[key], value), key
