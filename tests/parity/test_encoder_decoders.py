"""The Transformer against torch's layers: logits, loss and every gradient."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

torch = pytest.importorskip("torch", reason="needs torch (extra: parity)")

from helpers_transformer import draw, tiny  # noqa: E402
from reference.transformer import positions  # noqa: E402

pytestmark = pytest.mark.parity
BOUNDS = {"float64": 1e-10, "float32": 3e-5}
PLAIN = {
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 36,
    "decoder_ffn_dim": 36,
}
VARIANTS = {
    "post-norm": {},
    "pre-norm": {"norm_first": True},
    "separate": {
        "share_encoder_decoder_embeddings": False,
        "decoder_vocab_size": 26,
        "tie_word_embeddings": False,
    },
}


class Peer(torch.nn.Module):
    """torch.nn's encoder and decoder, with embeddings and the output matrix."""

    def __init__(self, config, dtype):
        super().__init__()
        sizes = (config.d_model, config.encoder_attention_heads, config.encoder_ffn_dim)
        settings = {
            "dropout": 0.0,
            "batch_first": True,
            "norm_first": config.norm_first,
            "dtype": dtype,
        }
        nn = torch.nn
        norm = (
            (lambda: nn.LayerNorm(config.d_model, dtype=dtype))
            if config.norm_first
            else (lambda: None)
        )
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(*sizes, **settings),
            config.encoder_layers,
            norm(),
            enable_nested_tensor=False,
        )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(*sizes, **settings),
            config.decoder_layers,
            norm(),
        )
        self.source = nn.Embedding(config.vocab_size, config.d_model, dtype=dtype)
        self.target = self.source
        if not config.share_encoder_decoder_embeddings:
            self.target = nn.Embedding(
                config.decoder_vocab_size, config.d_model, dtype=dtype
            )
        self.output = self.target.weight
        if not config.tie_word_embeddings:
            self.output = nn.Parameter(torch.empty_like(self.target.weight))

    def embed(self, table, ids):
        width = table.weight.shape[1]
        places = torch.tensor(positions(ids.shape[1], width), dtype=table.weight.dtype)
        return table(ids) * math.sqrt(width) + places

    def forward(self, ids, mask, decoder_ids):
        hidden = mask == 0
        memory = self.encoder(self.embed(self.source, ids), src_key_padding_mask=hidden)
        causal = torch.triu(torch.ones(2 * decoder_ids.shape[1:], dtype=bool), 1)
        out = self.decoder(
            self.embed(self.target, decoder_ids),
            memory,
            tgt_mask=causal,
            memory_key_padding_mask=hidden,
        )
        return out @ self.output.T


def pieces(peer, config):
    """Yields (our name, torch's parameter, which third of it or None for all)."""
    yield "output", peer.output, None
    yield "source", peer.source.weight, None
    yield "target", peer.target.weight, None
    first = config.norm_first
    for side, stack in (("encoder", peer.encoder), ("decoder", peer.decoder)):
        blocks = {"attention": "self_attn", "crossattention": "multihead_attn"}
        if side == "encoder":
            del blocks["crossattention"]
        if first:
            yield from whole(f"{side}.LayerNorm", stack.norm)
        for i, layer in enumerate(stack.layers):
            place = f"{side}.layer.{i}"
            for n, (ours, theirs) in enumerate(blocks.items(), 1):
                block = getattr(layer, theirs)
                for third, part in enumerate(("query", "key", "value")):
                    name = f"{place}.{ours}.self.{part}"
                    yield f"{name}.weight", block.in_proj_weight, third
                    yield f"{name}.bias", block.in_proj_bias, third
                yield from whole(f"{place}.{ours}.output.dense", block.out_proj)
                norm = f"{place}.{ours}.{'' if first else 'output.'}LayerNorm"
                yield from whole(norm, getattr(layer, f"norm{n}"))
            yield from whole(f"{place}.intermediate.dense", layer.linear1)
            yield from whole(f"{place}.output.dense", layer.linear2)
            norm = f"{place}.{'intermediate' if first else 'output'}.LayerNorm"
            yield from whole(norm, getattr(layer, f"norm{len(blocks) + 1}"))


def whole(name, module):
    yield f"{name}.weight", module.weight, None
    yield f"{name}.bias", module.bias, None


def name_in(state, short):
    """Returns our full name of a piece."""
    table = "transformer.{}embeddings.word_embeddings.weight"
    shared = table.format("") in state
    side = {"source": "encoder.", "target": "decoder."}
    if short == "output":
        own = "lm_head.weight"
        return own if own in state else name_in(state, "target")
    if short in side:
        return table.format("" if shared else side[short])
    return f"transformer.{short}"


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_loss_and_gradients(variant, dtype, smoothing):
    model = tiny("vanilla", dtype=dtype, **{**PLAIN, **VARIANTS[variant]})
    state, bound = model.state_dict(), BOUNDS[dtype]
    peer = Peer(model.config, getattr(torch, dtype))
    used = set()
    with torch.no_grad():
        for short, parameter, third in pieces(peer, model.config):
            name = name_in(state, short)
            used.add(name)
            target = parameter if third is None else parameter.chunk(3)[third]
            target.copy_(torch.tensor(np.array(state[name])))
    assert used == set(state)

    batch = draw()
    given = batch.padded()
    decoder = np.zeros_like(given["labels"])
    for row, ids in enumerate(batch.decoder()):
        decoder[row, : len(ids)] = ids
    theirs = peer(
        torch.tensor(given["input_ids"]),
        torch.tensor(given["attention_mask"]),
        torch.tensor(decoder),
    )
    loss = torch.nn.functional.cross_entropy(
        theirs.flatten(0, 1),
        torch.tensor(given["labels"]).flatten(),
        label_smoothing=smoothing,
    )
    loss.backward()
    out = model(**given, label_smoothing=smoothing)
    out.loss.backward()

    valid = batch.valid()
    np.testing.assert_allclose(
        np.asarray(out.logits)[valid],
        theirs.detach().numpy()[valid],
        rtol=0,
        atol=bound * 10,
    )
    assert out.loss.item() == pytest.approx(loss.item(), abs=bound)
    ours = dict(model.named_parameters())
    for short, parameter, third in pieces(peer, model.config):
        gradient = parameter.grad if third is None else parameter.grad.chunk(3)[third]
        found = np.asarray(ours[name_in(state, short)].grad)
        np.testing.assert_allclose(
            found, gradient.numpy(), rtol=0, atol=bound, err_msg=short
        )
