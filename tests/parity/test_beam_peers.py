"""Beam search and greedy search against transformers' over the same scores."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

torch = pytest.importorskip("torch", reason="needs torch (extra: parity)")
transformers = pytest.importorskip("transformers", reason="needs transformers")

from helpers_generation import END, padded, sources, trained  # noqa: E402
from helpers_transformer import SIZES  # noqa: E402

import evolving_attention as ea  # noqa: E402
from evolving_attention import _core  # noqa: E402

pytestmark = pytest.mark.parity
LIMIT = 12


class Scores(transformers.PreTrainedModel, transformers.GenerationMixin):
    """Our logits with transformers' interface; the source is an ordinary input."""

    config_class = transformers.PretrainedConfig
    main_input_name = "input_ids"

    def __init__(self, ours):
        super().__init__(transformers.PretrainedConfig(vocab_size=SIZES["vocab_size"]))
        self.ours = ours
        self.unused = torch.nn.Parameter(torch.zeros(1))  # gives the model a device

    def forward(self, input_ids, source=None, mask=None, **_):
        with ea.no_grad():
            logits = self.ours(
                source.numpy(), mask.numpy(), decoder_input_ids=input_ids.numpy()
            ).logits
        return transformers.modeling_outputs.CausalLMOutput(
            logits=torch.from_numpy(np.asarray(logits).copy())
        )

    def prepare_inputs_for_generation(self, input_ids, source=None, mask=None, **_):
        return {"input_ids": input_ids, "source": source, "mask": mask}


def theirs(ours, given, prefix=None, **settings):
    """Returns transformers' (targets padded with 0, scores)."""
    if prefix is None:
        prefix = np.ones((len(given["input_ids"]), 1), np.int64)
    out = Scores(ours).generate(
        torch.from_numpy(prefix),
        source=torch.from_numpy(given["input_ids"]),
        mask=torch.from_numpy(given["attention_mask"]),
        eos_token_id=END,
        pad_token_id=0,
        use_cache=False,
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        **settings,
    )
    sequences = out.sequences.numpy()
    after = np.cumsum(sequences == END, axis=1) - (sequences == END) > 0
    scores = getattr(out, "sequences_scores", None)
    return np.where(after, 0, sequences), scores


@pytest.mark.parametrize("length_penalty", [-0.5, 0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("variant", ["vanilla", "evolving"])
def test_beam_search(variant, length_penalty, early_stopping):
    ours, given = trained(variant), padded(sources())
    settings = {
        "max_new_tokens": LIMIT,
        "num_beams": 4,
        "num_return_sequences": 3,
        "length_penalty": length_penalty,
        "early_stopping": early_stopping,
    }
    expected, scores = theirs(ours, given, **settings)
    found = ours.generate(**given, **settings, return_dict_in_generate=True)
    assert np.array_equal(found.sequences, expected)
    np.testing.assert_allclose(found.sequences_scores, scores, rtol=1e-5)


def test_greedy_search():
    ours, given = trained(), padded(sources())
    expected, _ = theirs(ours, given, max_new_tokens=LIMIT)
    assert np.array_equal(ours.generate(**given, max_new_tokens=LIMIT), expected)


RULES = {
    "min_new_tokens": {"min_new_tokens": 6},
    "min_length": {"min_length": 6},
    "one-grams": {"no_repeat_ngram_size": 1},
    "bigrams": {"no_repeat_ngram_size": 2, "min_new_tokens": 8},
    "trigrams": {"no_repeat_ngram_size": 3, "min_new_tokens": 8},
    "forced first": {"forced_bos_token_id": 9},
    "forced last": {"forced_eos_token_id": END, "max_new_tokens": 4},
    "forced both": {
        "forced_bos_token_id": 9,
        "forced_eos_token_id": 8,
        "max_new_tokens": 5,
        "min_new_tokens": 5,
    },
    "longest": {"max_new_tokens": None, "max_length": 6},
}
PREFIX = np.array([[1, 5, 5], [1, 4, 6], [1, 1, 3], [1, 7, 8], [1, 9, 9], [1, 3, 3]])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("num_beams", "prefixed"), [(1, False), (4, False), (4, True)])
def test_rules(rule, num_beams, prefixed):
    ours, given = trained(), padded(sources())
    settings = {"max_new_tokens": LIMIT, "num_beams": num_beams, **RULES[rule]}
    settings = {name: value for name, value in settings.items() if value is not None}
    prefix = PREFIX if prefixed else None
    expected, scores = theirs(ours, given, prefix, **settings)
    found = ours.generate(
        **given,
        **settings,
        decoder_input_ids=prefix,
        return_dict_in_generate=True,
    )
    assert np.array_equal(found.sequences, expected)
    if scores is not None:
        np.testing.assert_allclose(found.sequences_scores, scores, rtol=1e-5)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("top_k", [1, 3, 50, 400])
@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.9, 1.0])
def test_truncated_distributions(temperature, top_k, top_p):
    from transformers.generation import logits_process as theirs

    logits = np.random.default_rng(0).normal(0, 2, (5, 300)).astype(np.float32)
    scores = torch.from_numpy(logits)
    warpers = [theirs.TemperatureLogitsWarper(temperature)]
    warpers.append(theirs.TopKLogitsWarper(top_k))
    if top_p < 1:
        warpers.append(theirs.TopPLogitsWarper(top_p))
    for warper in warpers:
        scores = warper(None, scores)
    expected = scores.softmax(dim=-1).numpy()
    for row, each in zip(logits, expected, strict=True):
        found = np.array(
            _core.sampling_probabilities(row.tolist(), temperature, top_k, top_p)
        )
        assert np.array_equal(found > 0, each > 0)
        np.testing.assert_allclose(found, each, rtol=2e-5)
