"""MiniLM, a real BERT, against transformers in float64."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_parity import as_torch, torch, transformers

import evolving_attention as ea

pytestmark = pytest.mark.parity
TEXTS = [
    "The cat sat on the mat.",
    "Attention maps evolve from layer to layer, through convolutions.",
    "No",
    "What is the meaning of all these unaffordable antidisestablishmentarianisms?",
]
PAIRS = ["It was warm there.", "Maps do not.", "Yes, no!", "None."]


@pytest.fixture(scope="module")
def batch(minilm):
    """Returns four sentence pairs, padded."""
    tokenizer = ea.AutoTokenizer.from_pretrained(minilm)
    return dict(tokenizer(TEXTS, PAIRS, padding=True, return_tensors="np"))


@pytest.fixture(scope="module")
def expected(minilm, batch):
    """Returns the float64 outputs of transformers."""
    model = transformers.BertModel.from_pretrained(
        minilm, dtype=torch.float64, attn_implementation="eager"
    )
    with torch.no_grad():
        return model.eval()(
            **as_torch(batch), output_hidden_states=True, output_attentions=True
        )


@pytest.fixture(scope="module")
def valid(batch):
    mask = np.asarray(batch["attention_mask"]) > 0
    assert not mask.all()
    return mask


@pytest.mark.parametrize(
    ("dtype", "bound"), [("float32", 1e-5), ("float64", 1e-11), ("bfloat16", 0.15)]
)
def test_states_and_maps(minilm, batch, expected, valid, dtype, bound):
    model = ea.AutoModel.from_pretrained(minilm, dtype=dtype)
    assert not model.load_report.new
    assert not model.load_report.unexpected
    with ea.no_grad():
        out = model(**batch, output_hidden_states=True, output_attentions=True)

    def near(found, theirs):
        found = np.asarray(found).astype(np.float64)
        assert np.abs(found - theirs).max() <= bound

    for i, state in enumerate(expected.hidden_states):
        near(np.asarray(out.hidden_states[i])[valid], state.numpy()[valid])
    for i, maps in enumerate(expected.attentions):
        near(out.attentions[i], maps.numpy() * valid[:, None, :, None])
    near(out.pooler_output, expected.pooler_output.numpy())


def test_packed_input_gives_the_same(minilm, batch, expected, valid):
    model = ea.AutoModel.from_pretrained(minilm)
    lengths = valid.sum(1)
    with ea.no_grad():
        out = model(
            np.asarray(batch["input_ids"])[valid],
            token_type_ids=np.asarray(batch["token_type_ids"])[valid],
            sequence_offsets=np.cumsum([0, *lengths]),
        )
    states = expected.last_hidden_state.numpy()[valid]
    assert np.abs(np.asarray(out.last_hidden_state) - states).max() <= 1e-5


def test_evolving_attention_of_weight_zero_is_the_checkpoint(minilm, batch):
    base = ea.AutoModel.from_pretrained(minilm)
    model = ea.AutoModel.from_pretrained(
        minilm, attention=ea.attention.Evolving(alpha=0.0, beta=0.0)
    )
    with ea.no_grad():
        first, second = (m(**batch).last_hidden_state for m in (base, model))
    assert np.array_equal(np.asarray(first), np.asarray(second))
