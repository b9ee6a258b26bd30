"""transformers opens our folders if it computes the same, and rejects the others."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
from helpers_models import tiny
from helpers_parity import torch, transformers

import evolving_attention as ea
from evolving_attention.attention import Evolving, Predictive, Residual

pytestmark = pytest.mark.parity
IDS = np.array([[5, 9, 6, 7], [8, 5, 11, 4]])
FAMILIES = pytest.mark.parametrize("family", ["Bert", "Roberta"])


@ea.attention.register("half_carried")
@dataclass(frozen=True)
class HalfCarried(ea.attention.CustomEvolve):
    """L = S + L'/2, with L' of the previous layer."""

    def step(self, scores, previous, context):
        if previous is None:
            return scores
        return ea.functional.axpby(1.0, scores, 0.5, previous)


OTHERS = {
    "evolving": Evolving(alpha=0.3, beta=0.4),
    "without skip": Evolving(alpha=0.0, beta=0.4),
    "without convolution": Evolving(alpha=0.3, beta=0.0),
    "residual": Residual(),
    "predictive": Predictive(alpha=0.3),
    "custom": HalfCarried(),
}
SAME = {
    "vanilla": None,
    "evolving": Evolving(alpha=0.0, beta=0.0),
    "predictive": Predictive(alpha=0.0),
}


def saved(family, attention, folder):
    model = tiny(f"{family}ForSequenceClassification", attention).eval()
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(f"[{word}]" for word in range(40)))
    return model


def ways(family):
    """Returns every transformers call that a user may open a folder with."""
    base = getattr(transformers, f"{family}Model")
    task = getattr(transformers, f"{family}ForSequenceClassification")
    small = getattr(transformers, f"{family}Config")(hidden_size=24)
    return {
        "AutoConfig": transformers.AutoConfig.from_pretrained,
        "AutoModel": transformers.AutoModel.from_pretrained,
        "AutoModelForSequenceClassification": (
            transformers.AutoModelForSequenceClassification.from_pretrained
        ),
        "pipeline": lambda folder: transformers.pipeline("text-classification", folder),
        "remote code": lambda folder: transformers.AutoModel.from_pretrained(
            folder, trust_remote_code=True
        ),
        "base class": base.from_pretrained,
        "task class": task.from_pretrained,
        "other shapes": lambda folder: task.from_pretrained(
            folder, ignore_mismatched_sizes=True, num_labels=3
        ),
        "own config": lambda folder: base.from_pretrained(folder, config=small),
        "pickled": lambda folder: task.from_pretrained(folder, use_safetensors=False),
    }


@FAMILIES
@pytest.mark.parametrize("kind", OTHERS)
def test_what_it_cannot_compute_is_refused(family, kind, tmp_path):
    model = saved(family, OTHERS[kind], tmp_path)
    for way in ways(family).values():
        with pytest.raises((ValueError, OSError), match=r"evolving_|no file named"):
            way(str(tmp_path))
    again = ea.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    logits = [np.asarray(m(input_ids=IDS).logits) for m in (model, again)]
    assert logits[0].tobytes() == logits[1].tobytes()


@FAMILIES
@pytest.mark.parametrize("kind", SAME)
def test_what_it_computes_alike_opens(family, kind, tmp_path):
    model = saved(family, SAME[kind], tmp_path)
    expected = np.asarray(model(input_ids=IDS).logits)
    for prefix in (family, "AutoModel"):
        cls = getattr(transformers, f"{prefix}ForSequenceClassification")
        with torch.no_grad():
            found = cls.from_pretrained(tmp_path)(input_ids=torch.as_tensor(IDS)).logits
        np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)


def test_weights_of_another_model_never_stand_in(tmp_path):
    saved("Bert", None, tmp_path)
    saved("Bert", Evolving(alpha=0.3, beta=0.4), tmp_path)
    with pytest.raises(OSError, match="no file named"):
        transformers.BertModel.from_pretrained(tmp_path)
    saved("Bert", None, tmp_path)
    transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)


def test_code_of_the_first_checkpoint_is_not_named_any_more(tmp_path):
    saved("Bert", None, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["auto_map"] = {"AutoModel": "modeling.Own"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = ea.AutoModel.from_pretrained(tmp_path, attention=Evolving(0.3, 0.4))
    model.save_pretrained(tmp_path / "new")
    assert "auto_map" not in (tmp_path / "new" / "config.json").read_text()
