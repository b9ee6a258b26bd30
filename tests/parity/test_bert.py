"""BERT against transformers, and evolving BERT against its equations in PyTorch."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest
from helpers_models import NO_DROPOUT, SIZES, draw, pad_labels
from helpers_parity import BOUNDS, as_torch, close, compare_gradients, ours, theirs
from helpers_parity import torch as torch

import evolving_attention as ea

pytestmark = pytest.mark.parity
both_types = pytest.mark.parametrize("dtype", BOUNDS)
BATCH = draw((5, 9, 2, 6))
PADDED = BATCH.padded(2)
VALID = BATCH.valid(2)
RNG = np.random.default_rng(3)


def token_labels(valid, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, SIZES["vocab_size"], int(valid.sum()))
    return pad_labels(np.where(rng.random(labels.size) < 0.5, labels, -100), valid)


def both(name, inputs, dtype, tmp_path, **options):
    """Runs forward and backward of both models; returns the outputs."""
    reference = theirs(name, **options)
    model = ours(reference, tmp_path, dtype)
    expected = reference(**as_torch(inputs))
    expected.loss.backward()
    found = model(**inputs)
    found.loss.backward()
    close(found.loss, expected.loss.item(), dtype, "loss")
    compare_gradients(model, reference, dtype)
    return found, expected


@both_types
def test_base_model(dtype, tmp_path):
    reference = theirs("BertModel")
    model = ours(reference, tmp_path, dtype)
    expected = reference(
        **as_torch(PADDED), output_hidden_states=True, output_attentions=True
    )
    found = model(**PADDED, output_hidden_states=True, output_attentions=True)
    for i, state in enumerate(expected.hidden_states):
        state = state.detach().numpy()[VALID]
        close(np.asarray(found.hidden_states[i])[VALID], state, dtype, f"states {i}")
    for i, maps in enumerate(expected.attentions):
        # Query rows that are padding are 0 in ours and arbitrary in transformers.
        maps = maps.detach().numpy() * VALID[:, None, :, None]
        close(found.attentions[i], maps, dtype, f"attentions {i}")
    close(found.pooler_output, expected.pooler_output.detach(), dtype, "pooler")
    weight = RNG.normal(size=expected.pooler_output.shape)
    (found.pooler_output * weight).sum().backward()
    (expected.pooler_output * torch.as_tensor(weight)).sum().backward()
    compare_gradients(model, reference, dtype)


@both_types
@pytest.mark.parametrize("labels", [2, 5])
@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
def test_classification(activation, labels, dtype, tmp_path):
    inputs = {**PADDED, "labels": np.arange(4) % labels}
    found, expected = both(
        "BertForSequenceClassification",
        inputs,
        dtype,
        tmp_path,
        num_labels=labels,
        hidden_act=activation,
    )
    close(found.logits, expected.logits.detach(), dtype, "logits")


@both_types
def test_regression(dtype, tmp_path):
    inputs = {**PADDED, "labels": RNG.normal(size=4)}
    name = "BertForSequenceClassification"
    found, expected = both(name, inputs, dtype, tmp_path, num_labels=1)
    close(found.logits, expected.logits.detach(), dtype, "logits")


@both_types
def test_masked_lm(dtype, tmp_path):
    inputs = {**PADDED, "labels": token_labels(VALID)}
    found, expected = both("BertForMaskedLM", inputs, dtype, tmp_path)
    logits = expected.logits.detach().numpy()[VALID]
    close(np.asarray(found.logits)[VALID], logits, dtype, "logits")


@both_types
def test_pretraining(dtype, tmp_path):
    inputs = {
        **PADDED,
        "labels": token_labels(VALID),
        "next_sentence_label": np.array([0, 1, 1, 0]),
    }
    found, expected = both("BertForPreTraining", inputs, dtype, tmp_path)
    logits = expected.prediction_logits.detach().numpy()[VALID]
    close(np.asarray(found.prediction_logits)[VALID], logits, dtype, "logits")
    pairs = expected.seq_relationship_logits.detach()
    close(found.seq_relationship_logits, pairs, dtype, "pairs")


@both_types
def test_chosen_positions(dtype, tmp_path):
    positions = RNG.integers(0, SIZES["max_position_embeddings"], (4, 7))
    ids = RNG.integers(0, SIZES["vocab_size"], (4, 7))
    inputs = {"input_ids": ids, "position_ids": positions, "labels": np.arange(4) % 2}
    both("BertForSequenceClassification", inputs, dtype, tmp_path)


@pytest.mark.parametrize("smoothing", [0.1, 0.4])
@pytest.mark.parametrize("name", ["BertForSequenceClassification", "BertForMaskedLM"])
def test_label_smoothing_is_torchs(name, smoothing, tmp_path):
    labels = np.arange(4) % 2
    if name == "BertForMaskedLM":
        labels = token_labels(VALID)
    reference = theirs(name)
    model = ours(reference, tmp_path)
    logits = reference(**as_torch(PADDED)).logits
    expected = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]),
        torch.as_tensor(labels.reshape(-1)),
        label_smoothing=smoothing,
    )
    expected.backward()
    found = model(**PADDED, labels=labels, label_smoothing=smoothing)
    found.loss.backward()
    close(found.loss, expected.item(), "float64", "loss")
    compare_gradients(model, reference, "float64")


@pytest.mark.parametrize(
    "name",
    [
        "BertModel",
        "BertForSequenceClassification",
        "BertForMaskedLM",
        "BertForPreTraining",
    ],
)
def test_what_we_save_transformers_loads(name, tmp_path):
    reference = theirs(name, num_labels=3)
    model = ours(reference, tmp_path / "theirs")
    model.save_pretrained(tmp_path / "ours")
    again, report = type(reference).from_pretrained(
        tmp_path / "ours",
        dtype=torch.float64,
        attn_implementation="eager",
        output_loading_info=True,
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert not report["mismatched_keys"]
    assert again.config.num_labels == 3
    for key, value in reference.state_dict().items():
        assert torch.equal(again.state_dict()[key], value), key
    with torch.no_grad():
        expected = reference(**as_torch(PADDED))[0]
        assert torch.equal(again(**as_torch(PADDED))[0], expected)


def test_bin_files_of_torch_load_too(tmp_path):
    reference = theirs("BertForSequenceClassification")
    reference.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(reference.state_dict(), tmp_path / "pytorch_model.bin")
    model = ea.BertForSequenceClassification.from_pretrained(tmp_path, dtype="float64")
    expected = reference(**as_torch(PADDED)).logits.detach()
    close(model(**PADDED).logits, expected, "float64")


# --- evolving -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch_bert(repo):
    """Loads the eager PyTorch BERT of the benchmarks."""
    path = repo / "benchmarks" / "peers" / "torch_bert.py"
    spec = importlib.util.spec_from_file_location("torch_bert", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["torch_bert"] = module
    spec.loader.exec_module(module)
    return module


@both_types
@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.1, 0.2), (0.5, 1.0), (0.0, 0.3), (0.4, 0.0), (0.0, 0.0)]
)
def test_evolving_bert_equals_pytorch(torch_bert, alpha, beta, kernel, dtype):
    shape = torch_bert.Shape(
        layers=SIZES["num_hidden_layers"],
        width=SIZES["hidden_size"],
        heads=SIZES["num_attention_heads"],
        inner=SIZES["intermediate_size"],
        vocabulary=SIZES["vocab_size"],
        positions=SIZES["max_position_embeddings"],
        dropout=0.0,
        alpha=alpha,
        beta=beta,
        kernel_size=kernel,
    )
    torch.manual_seed(1)
    reference = torch_bert.BertClassifier(shape).double()
    with torch.no_grad():
        for name, parameter in reference.named_parameters():
            if "LayerNorm" not in name:
                parameter.copy_(torch.randn_like(parameter) * 0.2)
    config = ea.BertConfig(
        **SIZES,
        **NO_DROPOUT,
        attention=ea.attention.Evolving(alpha, beta, kernel),
    )
    model = ea.BertForSequenceClassification(config, dtype)
    state = {name: value.numpy() for name, value in reference.state_dict().items()}
    assert model.load_state_dict(state).loaded == len(state)
    ids = RNG.integers(1, SIZES["vocab_size"], (5, 11))  # without padding id 0
    labels = np.arange(5) % 2
    expected = reference(torch.as_tensor(ids), torch.as_tensor(labels))
    expected.backward()
    found = model(ids, labels=labels)
    found.loss.backward()
    close(found.loss, expected.item(), dtype, "loss")
    logits = reference.classifier(reference.bert(torch.as_tensor(ids))).detach()
    close(found.logits, logits, dtype, "logits")
    compare_gradients(model, reference, dtype)
