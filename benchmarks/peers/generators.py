"""Engines that generate: ours, transformers and CTranslate2, from the same weights.

All three use the Transformer's vanilla form: transformers' MarianMTModel is a post-norm
Transformer with fixed positions, which are overwritten with ours, and CTranslate2 reads
that model. ``prepare`` takes padded ids and lengths, ``run`` returns target ids.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["ENGINES", "ctranslate2_folder", "marian"]

_LAYER = {
    "attention.self.query": "self_attn.q_proj",
    "attention.self.key": "self_attn.k_proj",
    "attention.self.value": "self_attn.v_proj",
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "self_attn_layer_norm",
    "crossattention.self.query": "encoder_attn.q_proj",
    "crossattention.self.key": "encoder_attn.k_proj",
    "crossattention.self.value": "encoder_attn.v_proj",
    "crossattention.output.dense": "encoder_attn.out_proj",
    "crossattention.output.LayerNorm": "encoder_attn_layer_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_layer_norm",
}


def marian(model: Any) -> Any:
    """Returns transformers' MarianMTModel with our vanilla Transformer's weights."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    from benchmarks.models import weights

    own = model.config
    config = MarianConfig(
        vocab_size=own.vocab_size,
        d_model=own.d_model,
        encoder_layers=own.encoder_layers,
        decoder_layers=own.decoder_layers,
        encoder_attention_heads=own.encoder_attention_heads,
        decoder_attention_heads=own.decoder_attention_heads,
        encoder_ffn_dim=own.encoder_ffn_dim,
        decoder_ffn_dim=own.decoder_ffn_dim,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=own.max_position_embeddings,
        pad_token_id=own.pad_token_id,
        eos_token_id=own.eos_token_id,
        bos_token_id=own.bos_token_id,
        decoder_start_token_id=own.decoder_start_token_id,
        forced_eos_token_id=None,
    )
    peer = MarianMTModel(config).eval()
    state = peer.state_dict()
    for name, value in weights(model).items():
        place = name.removeprefix("transformer.")
        if place == "embeddings.word_embeddings.weight":
            state["model.shared.weight"].copy_(torch.from_numpy(value))
            continue
        stack, _, number, rest = place.split(".", 3)
        piece, kind = rest.rsplit(".", 1)
        theirs = f"model.{stack}.layers.{number}.{_LAYER[piece]}.{kind}"
        state[theirs].copy_(torch.from_numpy(value))
    set_positions(peer)
    return peer


def set_positions(peer: Any) -> None:
    """Overwrites Marian's positions with ours, as no checkpoint stores them."""
    import torch

    for stack in (peer.model.encoder, peer.model.decoder):
        table = stack.embed_positions.weight
        place, column = np.arange(table.shape[0])[:, None], np.arange(table.shape[1])
        angle = place / 10000 ** (column // 2 * 2 / table.shape[1])
        both = np.where(column % 2, np.cos(angle), np.sin(angle))
        with torch.no_grad():
            table.copy_(torch.from_numpy(both))


def ctranslate2_folder(model: Any, folder: Path) -> Path:
    """Writes our vanilla Transformer in CTranslate2's format, ids as token names."""
    from ctranslate2.converters.transformers import BartLoader

    peer = marian(model)
    peer.config.normalize_before = peer.config.normalize_embedding = False
    spec = BartLoader().get_model_spec(peer)
    words = [str(i) for i in range(model.config.vocab_size)]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.bos_token = words[model.config.bos_token_id]
    spec.config.eos_token = words[model.config.eos_token_id]
    spec.config.unk_token = words[model.config.pad_token_id]
    spec.config.decoder_start_token = words[model.config.decoder_start_token_id]
    spec.validate()
    spec.optimize()
    folder.mkdir(parents=True)
    spec.save(str(folder))
    return folder


class _Engine:
    """Common parts of the three engines."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.folder = Path(request["folder"])
        self.beams, self.tokens = request["beams"], request["new_tokens"]
        self.dtype, self.threads = request["dtype"], request["threads"]

    def prepare(self, ids: Any, lengths: Any) -> Any:
        """Returns a batch in the engine's own form."""
        return ids, (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)

    def padded(self, rows: list[list[int]]) -> Any:
        """Pads target ids after the start token with -1 to the maximum length."""
        found = np.full((len(rows), self.tokens), -1, np.int64)
        for row, ids in zip(found, rows, strict=True):
            row[: len(ids)] = ids
        return found


class Ours(_Engine):
    """This package."""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__(request)
        import evolving_attention as ea

        ea.set_num_threads(self.threads)
        self.model = ea.AutoModelForSeq2SeqLM.from_pretrained(
            self.folder / request["model"], dtype=self.dtype
        ).eval()

    def run(self, batch: Any) -> Any:
        """Generates target ids."""
        found = self.model.generate(
            *batch, num_beams=self.beams, max_new_tokens=self.tokens
        )
        return self.padded([list(row[1:]) for row in np.asarray(found)])


class Transformers(_Engine):
    """transformers' generate."""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__(request)
        import torch
        from transformers import MarianMTModel

        torch.set_num_threads(self.threads)
        self.model = MarianMTModel.from_pretrained(
            self.folder / "marian", dtype=getattr(torch, self.dtype)
        ).eval()
        set_positions(self.model)

    def run(self, batch: Any) -> Any:
        """Generates target ids."""
        import torch

        with torch.inference_mode():
            ids, mask = map(torch.from_numpy, batch)
            found = self.model.generate(
                ids,
                attention_mask=mask,
                num_beams=self.beams,
                max_new_tokens=self.tokens,
                max_length=None,
                do_sample=False,
            )
        return self.padded([row[1:] for row in found.tolist()])


class CTranslate2(_Engine):
    """CTranslate2's translator."""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__(request)
        import ctranslate2

        self.translator = ctranslate2.Translator(
            str(self.folder / "ctranslate2"),
            compute_type=self.dtype,
            inter_threads=1,
            intra_threads=self.threads,
        )

    def prepare(self, ids: Any, lengths: Any) -> Any:
        """Returns sources as words, which are the names of their ids."""
        pairs = zip(ids.tolist(), lengths.tolist(), strict=True)
        return [list(map(str, row[:length])) for row, length in pairs]

    def run(self, batch: Any) -> Any:
        """Generates target ids."""
        found = self.translator.translate_batch(
            batch,
            beam_size=self.beams,
            max_decoding_length=self.tokens,
            length_penalty=1.0,
            disable_unk=False,
        )
        return self.padded([list(map(int, each.hypotheses[0])) for each in found])


ENGINES = {"ours": Ours, "transformers": Transformers, "ctranslate2": CTranslate2}
