"""Tensors, models and tokenizers through pickle, deepcopy, joblib and spawn."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import helpers_series
import numpy as np
import pytest
from helpers_models import (
    arrays_of,
    assert_same_bits,
    draw,
    inputs_for,
    run,
    tiny,
)

import evolving_attention as ea


def pickled(value):
    return pickle.loads(pickle.dumps(value))


ways = pytest.mark.parametrize(
    "again", [pickled, copy.deepcopy], ids=lambda f: f.__name__
)


# --- tensors --------------------------------------------------------------------------


@ways
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int64", "uint8"])
def test_tensors_keep_type_shape_and_bits(again, dtype):
    tensor = ea.Tensor([[1.5, -2.0, 3.0], [0.0, 4.0, 250.0]]).abs().to(dtype)
    found = again(tensor)
    assert found.dtype == tensor.dtype
    assert found.shape == (2, 3)
    assert np.asarray(found).tobytes() == np.asarray(tensor).tobytes()
    assert not np.shares_memory(np.asarray(found), np.asarray(tensor))


@ways
def test_odd_values_and_shapes_keep_their_bits(again):
    values = np.array([np.nan, -0.0, np.inf, 1e-42], np.float32)
    assert np.asarray(again(ea.Tensor(values))).tobytes() == values.tobytes()
    assert again(ea.Tensor(2.5)).shape == ()
    assert again(ea.Tensor(np.zeros((0, 3), "f4"))).shape == (0, 3)
    turned = ea.Tensor(np.arange(6.0).reshape(2, 3)).transpose(0, 1)
    assert again(turned).tolist() == turned.tolist()


@ways
def test_leaves_keep_requires_grad_and_results_lose_their_graph(again):
    x = ea.Tensor([3.0], requires_grad=True)
    y = x * x
    assert again(x).requires_grad
    assert again(x).is_leaf
    assert not again(y).requires_grad
    assert again(y).tolist() == [9.0]
    both = again([x, x])
    assert both[0] is both[1]


def test_an_output_can_be_sent():
    model = tiny()
    out = model(**inputs_for(model, draw()), output_attentions=[1])
    found = pickled(out)
    assert_same_bits(arrays_of(found), arrays_of(out))
    assert found.attentions[0] is None


# --- models ---------------------------------------------------------------------------


@ea.attention.register("sent_by_pickle")
class Sent(ea.attention.CustomEvolve):
    """Attention kind written in Python, without options."""

    def step(self, scores, previous, context):
        return scores if previous is None else scores + previous * 0.5


MODELS = {
    "vanilla": lambda: tiny(),
    "evolving": lambda: tiny(attention=ea.attention.Evolving([0.1, 0.2, 0.3])),
    "bfloat16": lambda: tiny(attention="evolving", dtype="bfloat16"),
    "float64-residual": lambda: tiny(attention="residual", dtype="float64"),
    "python-kind": lambda: tiny(attention=Sent()),
    "masked-lm": lambda: tiny("RobertaForMaskedLM"),
    "series": lambda: helpers_series.tiny(),
}


@ways
@pytest.mark.parametrize("name", MODELS)
def test_models_are_the_same_to_the_bit(again, name):
    model = MODELS[name]()
    frozen = next(key for key, _ in model.named_parameters())
    dict(model.named_parameters())[frozen].requires_grad = False
    found = again(model)
    assert type(found) is type(model)
    assert found.config == model.config
    assert found.config is not model.config
    assert found.dtype == model.dtype
    assert found.training is True
    assert_same_bits(found.state_dict(), model.state_dict())
    for (key, ours), (_, theirs) in zip(
        found.named_parameters(), model.named_parameters(), strict=True
    ):
        assert ours.requires_grad == theirs.requires_grad == (key != frozen)
        assert not np.shares_memory(np.asarray(ours), np.asarray(theirs))
    if name == "series":
        batch = helpers_series.draw()
        inputs = {**batch.packed(), **helpers_series.targets_for(model, batch)}
    else:
        inputs = inputs_for(model, draw(architecture=model.config.model_type))
    passes = []
    for each in (model, found):
        ea.manual_seed(3)  # streams of dropout are named
        passes.append(run(each, **inputs))
    for ours, theirs in zip(*passes, strict=True):
        assert_same_bits(ours, theirs)
    assert again(model.eval()).training is False


@ways
def test_what_a_user_set_is_kept(again):
    model = tiny()
    model.gradient_checkpointing_enable()
    model.note = {"seed": 3}
    found = again(model)
    assert found.is_gradient_checkpointing
    assert found.note == {"seed": 3}
    assert found.note is not model.note


def test_a_loaded_model_keeps_its_report(tmp_path):
    tiny().save_pretrained(tmp_path)
    model = ea.AutoModelForSequenceClassification.from_pretrained(
        tmp_path, attention=ea.attention.Evolving(learnable=True)
    )
    assert pickled(model).load_report.new == model.load_report.new


def test_a_copy_trains_by_itself():
    model = tiny()
    twin = copy.deepcopy(model)
    before = {k: v.copy() for k, v in model.state_dict().items()}
    optimizer = ea.optim.AdamW(twin.parameters(), lr=0.1)
    twin(**inputs_for(twin, draw())).loss.backward()
    optimizer.step()
    assert_same_bits(model.state_dict(), before)
    assert all(p.grad is None for p in model.parameters())


# --- tokenizers -----------------------------------------------------------------------


@pytest.fixture
def tokenizer(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "sat"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    return ea.AutoTokenizer.from_pretrained(tmp_path)


@ways
def test_tokenizers_encode_the_same(again, tokenizer):
    texts = ["a cat", "a cat sat a cat sat"]
    settings = {"padding": True, "truncation": True, "max_length": 6}
    expected = tokenizer(texts, **settings)
    found = again(tokenizer)
    assert {k: np.asarray(v).tolist() for k, v in found(texts, **settings).items()} == {
        k: np.asarray(v).tolist() for k, v in expected.items()
    }
    assert found.pad_token_id == tokenizer.pad_token_id
    assert found(texts[1])["input_ids"] == tokenizer(texts[1])["input_ids"]


# --- other processes ------------------------------------------------------------------


def logits_of(model, tokenizer, texts):
    batch = tokenizer(texts, padding=True, return_tensors="np")
    with ea.no_grad():
        return np.asarray(model(**batch).logits)


def test_a_spawned_process_computes_the_same(tokenizer):
    model = tiny(attention=ea.attention.Evolving(0.3, 0.4)).eval()
    texts = ["a cat sat", "cat"]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(logits_of, (model, tokenizer, texts))
    assert found.tobytes() == logits_of(model, tokenizer, texts).tobytes()


def test_joblib_runs_seeds_side_by_side(tokenizer):
    joblib = pytest.importorskip("joblib")
    models = [tiny(seed=seed).eval() for seed in (1, 2)]
    jobs = [joblib.delayed(logits_of)(m, tokenizer, ["a cat"]) for m in models]
    found = joblib.Parallel(n_jobs=2)(jobs)
    for ours, model in zip(found, models, strict=True):
        assert ours.tobytes() == logits_of(model, tokenizer, ["a cat"]).tobytes()
