"""T5 of both versions against transformers: buckets, gradients, files, generation."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers_generation import padded, sources
from helpers_parity import (
    as_torch,
    close,
    compare_gradients,
    torch,
    transformers,
)
from helpers_t5 import END, SIZES, V1_1, tiny, trained
from helpers_transformer import EVOLVING, draw
from transformers.models.t5 import modeling_t5

import evolving_attention as ea

pytestmark = pytest.mark.parity
# name: options, and whether the output matrix is separate from the embeddings
VERSIONS = {
    "v1.0": ({}, False),
    "v1.1": (V1_1, True),
    "v1.1, tied": (V1_1, False),  # as created by transformers version 5
    "gated relu, scaled": ({"feed_forward_proj": "gated-relu"}, True),
}
every_version = pytest.mark.parametrize("version", VERSIONS)


@pytest.fixture(autouse=True)
def wide_norms(monkeypatch):
    """Patches transformers, which computes mean squares in float32 for all types."""

    def forward(self, x):
        mean = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(mean + self.variance_epsilon))

    monkeypatch.setattr(modeling_t5.T5LayerNorm, "forward", forward)


def theirs(version, name="T5ForConditionalGeneration", seed=0):
    """Returns a tiny float64 transformers model whose norm weights are not 1."""
    options, separate = VERSIONS[version]
    torch.manual_seed(seed)
    config = transformers.T5Config(
        **{**SIZES, **options}, decoder_start_token_id=0, attn_implementation="eager"
    )
    model = getattr(transformers, name)(config).double().eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "norm" in parameter_name:
                parameter += torch.randn_like(parameter) * 0.1
            if "relative" in parameter_name:
                parameter.copy_(torch.randn_like(parameter))
        if separate and hasattr(model, "lm_head"):
            own = torch.randn_like(model.lm_head.weight)
            model.lm_head.weight = torch.nn.Parameter(own)
    return model


def ours(model, folder, dtype="float64", **options):
    model.save_pretrained(folder)
    cls = getattr(ea, type(model).__name__)
    return cls.from_pretrained(folder, dtype=dtype, **options)


def batch():
    return draw((5, 23, 1, 6), (7, 4, 19, 2))


@pytest.mark.parametrize(("number", "farthest"), [(32, 128), (8, 10), (14, 300)])
def test_the_buckets_are_theirs(number, farthest):
    """Distances up to 400, read from maps of scores that consist of the bias alone."""
    options = {
        "relative_attention_num_buckets": number,
        "relative_attention_max_distance": farthest,
        **{"num_heads": 1, "num_layers": 2, "num_decoder_layers": 2},
    }
    model = tiny("v1.0", "float64", ea.T5Model, **options).eval()
    for name, tensor in model.named_parameters():
        if name.endswith(".q.weight"):
            tensor.copy_(np.zeros(tensor.shape))
        if "relative" in name:
            tensor.copy_(np.arange(1.0, number + 1)[:, None])
    ids = np.full((1, 401), 5)
    out = model(ids, decoder_input_ids=ids, output_attention_scores=True)
    distance = torch.arange(401)[None, :] - torch.arange(401)[:, None]
    for scores, both in (
        (out.encoder_attention_scores, True),
        (out.decoder_attention_scores, False),
    ):
        expected = 1 + modeling_t5.T5Attention._relative_position_bucket(
            distance, bidirectional=both, num_buckets=number, max_distance=farthest
        )
        if not both:
            expected = torch.tril(expected)
        for layer in scores:  # in the second layer too: it reuses the first one's bias
            assert np.array_equal(np.asarray(layer)[0, 0], expected.numpy())


@every_version
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_logits_loss_and_gradients(version, dtype, tmp_path):
    model = theirs(version)
    mine, given = ours(model, tmp_path, dtype), batch().padded()
    assert mine.load_report.unexpected == mine.load_report.new == []
    expected = model(**as_torch(given))
    expected.loss.backward()
    out = mine(**given)
    out.loss.backward()
    valid = batch().valid()
    found = np.asarray(out.logits)[valid]
    close(found, expected.logits.detach().numpy()[valid], dtype)
    close(out.loss, expected.loss.detach().numpy(), dtype)
    compare_gradients(mine, model, dtype)


def test_hidden_states_and_maps(tmp_path):
    model = theirs("v1.1", "T5Model")
    mine = ours(model, tmp_path)
    source, target = np.arange(3, 15)[None], np.arange(5, 12)[None]
    wanted = {"output_attentions": True, "output_hidden_states": True}
    expected = model(
        input_ids=torch.tensor(source), decoder_input_ids=torch.tensor(target), **wanted
    )
    found = mine(source, decoder_input_ids=target, **wanted)
    for name in ("last_hidden_state", "encoder_last_hidden_state"):
        close(found[name], expected[name].detach().numpy(), "float64", name)
    for name in (
        "encoder_hidden_states",
        "decoder_hidden_states",
        "encoder_attentions",
        "decoder_attentions",
        "cross_attentions",
    ):
        assert len(found[name]) == len(expected[name])
        for mine_, their in zip(found[name], expected[name], strict=True):
            close(mine_, their.detach().numpy(), "float64", name)


@every_version
def test_transformers_reads_what_we_write(version, tmp_path):
    model = theirs(version)
    mine = ours(model, tmp_path / "theirs")
    mine.save_pretrained(tmp_path / "ours")
    again = transformers.AutoModelForSeq2SeqLM.from_pretrained(
        tmp_path / "ours", dtype=torch.float64, attn_implementation="eager"
    )
    assert type(again) is transformers.T5ForConditionalGeneration
    given = as_torch(batch().padded())
    expected = model(**given).logits.detach().numpy()
    assert np.array_equal(again(**given).logits.detach().numpy(), expected)


def test_transformers_refuses_an_evolving_one(tmp_path):
    tiny("v1.0", **EVOLVING).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="evolving_t5"):
        transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    with pytest.raises(OSError):
        transformers.T5ForConditionalGeneration.from_pretrained(tmp_path)


@pytest.mark.parametrize("variant", ["v1.0", "v1.1"])
@pytest.mark.parametrize("num_beams", [1, 4])
def test_greedy_and_beam_search(variant, num_beams, tmp_path):
    """Uses models that learnt to end their targets, at different lengths."""
    mine, given = trained(variant, "float64"), padded(sources())
    mine.save_pretrained(tmp_path)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(
        tmp_path, dtype=torch.float64, attn_implementation="eager"
    )
    settings = {"max_new_tokens": 12, "num_beams": num_beams}
    expected = model.generate(**as_torch(given), do_sample=False, **settings).numpy()
    ended = np.cumsum(expected == END, axis=1) - (expected == END) > 0
    expected = np.where(ended, 0, expected)  # beam search treats padding 0 as unset
    for use_cache in (None, False):
        found = mine.generate(**given, use_cache=use_cache, **settings)
        assert np.array_equal(found, expected)
    assert len({(row == END).argmax() for row in found}) > 2


def test_generation_follows_the_folders_defaults(tmp_path):
    model = theirs("v1.0")
    rules = {"num_beams": 4, "no_repeat_ngram_size": 2, "min_new_tokens": 5}
    model.generation_config.update(**rules, max_new_tokens=6)
    mine, given = ours(model, tmp_path / "theirs"), padded(sources())
    mine.save_pretrained(tmp_path / "ours")
    again = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "ours")
    for options in ({}, {"num_beams": 2}, {"no_repeat_ngram_size": 0}):
        found = mine.generate(**given, **options)
        for peer in (model, again.double().eval()):
            expected = peer.generate(**as_torch(given), **options).numpy()
            assert np.array_equal(found, expected)
    assert not np.array_equal(
        mine.generate(**given), mine.generate(**given, no_repeat_ngram_size=0)
    )
