"""Plain residual networks against transformers', and names of torchvision."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers_parity import close, compare_gradients, torch, transformers
from helpers_resnet import SIZES, draw

import evolving_attention as ea

pytestmark = pytest.mark.parity
LABELS = np.array([1, 4, 0])


def theirs(sizes, name="ResNetForImageClassification", **options):
    """Returns a tiny float64 transformers model whose norms are not the identity."""
    torch.manual_seed(0)
    config = transformers.ResNetConfig(**SIZES[sizes], num_labels=5, **options)
    model = getattr(transformers, name)(config).double()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "normalization" in parameter_name:
                parameter += torch.randn_like(parameter) * 0.2
        for buffer_name, buffer in model.named_buffers():
            if "running" in buffer_name:
                buffer += torch.rand_like(buffer)
    return model


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_logits_loss_and_gradients(sizes, training, tmp_path):
    their_model = theirs(sizes)
    their_model.save_pretrained(tmp_path)
    model = ea.ResNetForImageClassification.from_pretrained(tmp_path, dtype="float64")
    assert not model.load_report.new
    their_model.train(training)
    model.train(training)
    images = draw(3, (32, 45))
    expected = their_model(
        torch.tensor(images), labels=torch.tensor(LABELS), output_hidden_states=True
    )
    found = model(images, labels=LABELS, output_hidden_states=True)
    close(found.logits, expected.logits.detach(), "float64", "logits")
    close(found.loss, expected.loss.detach(), "float64", "loss")
    assert len(found.hidden_states) == len(expected.hidden_states)
    for state, other in zip(found.hidden_states, expected.hidden_states, strict=True):
        close(state, other.detach(), "float64", "hidden state")
    expected.loss.backward()
    found.loss.backward()
    compare_gradients(model, their_model, "float64")
    their_buffers = dict(their_model.named_buffers())
    for name, tensor in model.named_buffers():
        close(tensor, their_buffers[name], "float64", name)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("act", ["gelu", "tanh"])
def test_another_activation_is_that_of_the_stem_and_the_sums(act, sizes, tmp_path):
    """Within a block transformers has ReLU, whatever ``hidden_act`` says."""
    their_model = theirs(sizes, hidden_act=act).eval()
    their_model.save_pretrained(tmp_path)
    model = ea.ResNetForImageClassification.from_pretrained(tmp_path, dtype="float64")
    images = draw(3, (32, 45))
    expected = their_model(torch.tensor(images)).logits.detach()
    close(model.eval()(images).logits, expected, "float64", "logits")


def test_features_and_float32(tmp_path):
    their_model = theirs("bottleneck", "ResNetModel").eval()
    their_model.save_pretrained(tmp_path)
    images = draw(2)
    with torch.no_grad():
        expected = their_model(torch.tensor(images))
    for dtype in ("float64", "float32"):
        model = ea.ResNetModel.from_pretrained(tmp_path, dtype=dtype)
        found = model(images)
        close(found.last_hidden_state, expected.last_hidden_state, dtype, "states")
        close(found.pooler_output, expected.pooler_output, dtype, "pooled")


def test_transformers_reads_our_folder(tmp_path):
    model = ea.ResNetForImageClassification(
        ea.ResNetConfig(**SIZES["basic"], num_labels=5)
    )
    model.eval().save_pretrained(tmp_path)
    other = transformers.ResNetForImageClassification.from_pretrained(tmp_path).eval()
    images = draw(2).astype(np.float32)
    with torch.no_grad():
        expected = other(torch.tensor(images)).logits
    close(model(images).logits, expected, "float32", "logits")
