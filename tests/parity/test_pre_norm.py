"""Pre-norm layers (``norm_first=True``) against transformers' RoBERTa-PreLayerNorm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers_models import (
    NO_DROPOUT,
    SIZES,
    arrays_of,
    assert_same_bits,
    batch_for,
    labels_for,
)
from helpers_parity import as_torch, close, torch, transformers

import evolving_attention as ea

TASK = "RobertaForSequenceClassification"
SETTINGS = {
    **SIZES,
    **NO_DROPOUT,
    "num_labels": 3,
    "pad_token_id": 1,
    "type_vocab_size": 1,
}


def pair(dtype: str) -> tuple[Any, Any]:
    """Returns the transformers model in float64, and ours with its weights."""
    config = transformers.RobertaPreLayerNormConfig(
        **SETTINGS, layer_norm_eps=1e-5, attn_implementation="eager"
    )
    torch.manual_seed(0)
    theirs = transformers.RobertaPreLayerNormForSequenceClassification(config).double()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if name.endswith("bias") or "LayerNorm" in name:
                parameter += torch.randn_like(parameter) * 0.1
    ours = ea.RobertaForSequenceClassification(
        ea.RobertaConfig(**SETTINGS, norm_first=True), dtype
    )
    ours.load_state_dict(
        {our_name(n): p.detach().numpy() for n, p in theirs.named_parameters()}
    )
    return theirs, ours


def our_name(name: str) -> str:
    return name.replace("roberta_prelayernorm.", "roberta.")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_outputs_and_every_gradient(dtype: str) -> None:
    theirs, ours = pair(dtype)
    batch = batch_for(TASK)
    inputs = {**batch.padded(), "labels": labels_for(ours, batch)}
    expected = theirs(**as_torch(inputs), output_hidden_states=True)
    expected.loss.backward()
    found = ours(**inputs, output_hidden_states=True)
    found.loss.backward()
    close(found.logits, expected.logits.detach(), dtype, "logits")
    close(found.loss, expected.loss.detach(), dtype, "loss")
    valid = batch.valid()
    states = zip(found.hidden_states, expected.hidden_states, strict=True)
    for layer, (state, their_state) in enumerate(states):
        close(
            np.asarray(state)[valid], their_state.detach().numpy()[valid], dtype, layer
        )
    gradients = {n: p.grad for n, p in ours.named_parameters()}
    for name, parameter in theirs.named_parameters():
        close(gradients[our_name(name)], parameter.grad, dtype, name)


@pytest.mark.parametrize("attention", [None, ea.attention.Evolving(0.3, 0.2)])
def test_folders_are_marked_and_load_again(tmp_path: Any, attention: Any) -> None:
    config = ea.RobertaConfig(**SETTINGS, norm_first=True, attention=attention)
    model = ea.RobertaForSequenceClassification(config)
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="evolving_roberta"):
        transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    again = ea.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert again.config.norm_first
    inputs = batch_for(TASK).packed()
    assert_same_bits(
        arrays_of(again.eval()(**inputs)), arrays_of(model.eval()(**inputs))
    )
