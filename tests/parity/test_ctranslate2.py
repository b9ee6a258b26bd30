"""Beam search and greedy search against CTranslate2's, with the same weights."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

ctranslate2 = pytest.importorskip("ctranslate2", reason="needs ctranslate2")

from helpers_generation import END, padded, sources, trained  # noqa: E402
from helpers_transformer import SIZES  # noqa: E402

pytestmark = pytest.mark.parity
LIMIT = 12
WORDS = ["<pad>", "<s>", "</s>", *(f"w{i}" for i in range(3, SIZES["vocab_size"]))]


def positions():
    """Returns the table of sinusoidal positions."""
    width, rows = SIZES["d_model"], SIZES["max_position_embeddings"] + 1
    column = np.arange(width)
    angle = np.arange(rows)[:, None] * 10000.0 ** (-(column - column % 2) / width)
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle)).astype(np.float32)


class Weights:
    """Copies parameters into a specification of CTranslate2."""

    def __init__(self, model):
        self.values = {k: np.asarray(v) for k, v in model.named_parameters()}

    def linear(self, spec, *names):
        """Sets a linear layer: the named matrices, stacked by rows."""
        for kind in ("weight", "bias"):
            parts = [self.values[f"{name}.{kind}"] for name in names]
            setattr(spec, kind, np.ascontiguousarray(np.concatenate(parts)))

    def norm(self, spec, name):
        """Sets a layer norm."""
        spec.gamma = self.values[f"{name}.weight"]
        spec.beta = self.values[f"{name}.bias"]

    def attention(self, spec, name, own):
        """Sets query, key and value; self-attention has all three in one matrix."""
        parts = [f"{name}.self.{part}" for part in ("query", "key", "value")]
        if own:
            self.linear(spec.linear[0], *parts)
        else:
            self.linear(spec.linear[0], parts[0])
            self.linear(spec.linear[1], *parts[1:])
        self.linear(spec.linear[-1], f"{name}.output.dense")
        self.norm(spec.layer_norm, f"{name}.output.LayerNorm")

    def side(self, spec, name, cross):
        """Sets the encoder or the decoder."""
        table = self.values["transformer.embeddings.word_embeddings.weight"]
        (spec.embeddings if cross else spec.embeddings[0]).weight = table
        spec.position_encodings.encodings = positions()
        for i, layer in enumerate(spec.layer):
            where = f"transformer.{name}.layer.{i}"
            self.attention(layer.self_attention, f"{where}.attention", True)
            if cross:
                self.attention(layer.attention, f"{where}.crossattention", False)
            self.linear(layer.ffn.linear_0, f"{where}.intermediate.dense")
            self.linear(layer.ffn.linear_1, f"{where}.output.dense")
            self.norm(layer.ffn.layer_norm, f"{where}.output.LayerNorm")


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """Returns the vanilla model in CTranslate2."""
    specs = ctranslate2.specs
    spec = specs.TransformerSpec(
        specs.TransformerEncoderSpec(
            SIZES["encoder_layers"], SIZES["encoder_attention_heads"], pre_norm=False
        ),
        specs.TransformerDecoderSpec(
            SIZES["decoder_layers"], SIZES["decoder_attention_heads"], pre_norm=False
        ),
    )
    weights = Weights(trained("vanilla"))
    weights.side(spec.encoder, "encoder", False)
    weights.side(spec.decoder, "decoder", True)
    spec.decoder.projection.weight = spec.decoder.embeddings.weight
    spec.config.layer_norm_epsilon = 1e-5
    spec.config.decoder_start_token = WORDS[1]
    spec.register_source_vocabulary(WORDS)
    spec.register_target_vocabulary(WORDS)
    spec.validate()
    spec.optimize()
    folder = tmp_path_factory.mktemp("ctranslate2")
    spec.save(str(folder))
    return ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)


def theirs(translator, **options):
    """Returns (ids without start and end, scores): ``num_hypotheses`` per source."""
    found = translator.translate_batch(
        [[WORDS[i] for i in row] for row in sources()],
        max_decoding_length=LIMIT,
        min_decoding_length=0,
        return_scores=True,
        **options,
    )
    ids = [[WORDS.index(word) for word in h] for each in found for h in each.hypotheses]
    return ids, np.array([score for each in found for score in each.scores])


def without_ends(sequences):
    """Returns the ids without start, end and padding."""
    return [[i for i in row[1:] if i not in (0, END)] for row in sequences.tolist()]


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0])
def test_beam_search(translator, length_penalty):
    # Without a penalty CTranslate2 stops at the best, before others are complete.
    returned = 1 if length_penalty == 0 else 3
    expected, scores = theirs(
        translator, beam_size=4, num_hypotheses=returned, length_penalty=length_penalty
    )
    found = trained("vanilla").generate(
        **padded(sources()),
        max_new_tokens=LIMIT,
        num_beams=4,
        num_return_sequences=returned,
        early_stopping=True,
        length_penalty=length_penalty,
        return_dict_in_generate=True,
    )
    assert without_ends(found.sequences) == expected
    np.testing.assert_allclose(found.sequences_scores, scores, rtol=1e-4)


def test_greedy_search(translator):
    expected, scores = theirs(translator, beam_size=1)
    found = trained("vanilla").generate(
        **padded(sources()), max_new_tokens=LIMIT, return_dict_in_generate=True
    )
    assert without_ends(found.sequences) == expected
    np.testing.assert_allclose(found.sequences_scores, scores, rtol=1e-4)
