"""A custom kind in one Python file: equal to the core's, trained, saved, loaded."""

from __future__ import annotations

import contextlib
import importlib.util
import pickle
import sys
import textwrap
from dataclasses import dataclass

import numpy as np
import pytest
from helpers_models import (
    NO_DROPOUT,
    arrays_of,
    assert_same_bits,
    draw,
    labels_for,
    run,
    tiny,
)

import evolving_attention as ea
from evolving_attention import functional as F

RESEARCHERS_FILE = '''
"""Evolving attention once more, from the functions of ea.functional."""

from dataclasses import dataclass

import numpy as np

import evolving_attention as ea
from evolving_attention import functional as F


@ea.attention.register("my_evolving")
@dataclass(frozen=True)
class MyEvolving(ea.attention.CustomEvolve):
    """I = a M + (1 - a) S; L = b relu(Conv(I)) + (1 - b) I; first layer L = S."""

    alpha: float
    beta: float

    def parameters(self, layer, num_heads):
        if layer == 0:
            return {}
        rng = np.random.default_rng(layer)
        weight = rng.normal(0, (9 * num_heads) ** -0.5, (num_heads, num_heads, 3, 3))
        return {"weight": weight, "bias": np.zeros(num_heads)}

    def step(self, scores, previous, context):
        if previous is None:
            return scores
        a, b, own = self.alpha, self.beta, context.parameters
        mixed = F.axpby(a, previous, 1 - a, scores)
        conv = F.map_conv(mixed, own["weight"], own["bias"], context.packing)
        return F.axpby(1 - b, mixed, b, F.relu(conv))
'''
BATCH = draw((5, 9, 1, 6))


@pytest.fixture(scope="module")
def my_evolving(tmp_path_factory):
    """The class, imported from the researcher's file."""
    path = tmp_path_factory.mktemp("research") / "my_kind.py"
    path.write_text(textwrap.dedent(RESEARCHERS_FILE), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("my_kind", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["my_kind"] = module
    spec.loader.exec_module(module)
    return module.MyEvolving


def pair(my_evolving, dtype, alpha=0.3, beta=0.4):
    """Returns the custom model and the core's with the same parameters."""
    custom = tiny(attention=my_evolving(alpha, beta), dtype=dtype)
    core = tiny(attention=ea.attention.Evolving(alpha, beta), dtype=dtype)
    held = dict(custom.named_parameters())
    for name, tensor in core.named_parameters():
        tensor.copy_(held[name.replace("evolving_conv", "evolve")])
    return custom, core


@pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-13), ("float32", 2e-5)])
@pytest.mark.parametrize(("alpha", "beta"), [(0.3, 0.4), (0.0, 1.0), (1.0, 0.5)])
def test_it_reproduces_evolving(my_evolving, alpha, beta, dtype, bound):
    custom, core = pair(my_evolving, dtype, alpha, beta)
    names = [name for name, _ in custom.named_parameters()]
    assert "bert.encoder.layer.1.attention.self.evolve.weight" in names
    assert "bert.encoder.layer.0.attention.self.evolve.weight" not in names
    inputs = {
        **BATCH.packed(),
        "labels": labels_for(core, BATCH),
        "output_attention_logits": True,
    }
    results = []
    for model in (custom, core):
        ea.manual_seed(2)
        results.append(run(model, **inputs))
    (found, found_gradients), (expected, gradients) = results
    for key, value in expected.items():
        assert np.allclose(found[key], value, rtol=0, atol=bound), key
    for name, gradient in gradients.items():
        ours = found_gradients[name.replace("evolving_conv", "evolve")]
        scale = max(1.0, np.abs(gradient).max())
        assert np.allclose(ours, gradient, rtol=0, atol=bound * scale), name


@pytest.mark.parametrize(
    "name", ["BertForSequenceClassification", "RobertaForMaskedLM"]
)
def test_it_trains_is_saved_and_loaded(my_evolving, name, tmp_path):
    model = tiny(name, my_evolving(0.2, 0.3), initializer_range=0.1)
    batch = draw((5, 9, 1, 6), model.config.model_type)
    inputs = {**batch.packed(), "labels": labels_for(model, batch)}
    start = {k: v.copy() for k, v in model.state_dict().items()}
    before = model.eval()(**inputs).loss.item()
    optimizer = ea.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(12):
        model(**inputs).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    after = arrays_of(model.eval()(**inputs))
    assert after["loss"] < 0.6 * before
    moved = [k for k, v in model.state_dict().items() if np.any(v != start[k])]
    assert len([key for key in moved if ".evolve." in key]) == 4

    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    assert again.config.attention == my_evolving(0.2, 0.3)
    assert again.load_report.new == []
    assert_same_bits(arrays_of(again(**inputs)), after)


def test_a_pretrained_model_gains_it(my_evolving, tmp_path):
    tiny().save_pretrained(tmp_path)
    model = ea.AutoModelForSequenceClassification.from_pretrained(
        tmp_path, attention=my_evolving(0.1, 0.1)
    )
    place = "bert.encoder.layer.{}.attention.self.evolve.{}"
    new = [place.format(i, part) for i in (1, 2) for part in ("weight", "bias")]
    assert sorted(model.load_report.new) == sorted(new)
    initial = my_evolving(0.1, 0.1).parameters(1, 3)["weight"].astype(np.float32)
    state = model.state_dict()
    assert np.array_equal(state[place.format(1, "weight")], initial)


def test_padding_does_not_change_it(my_evolving):
    model = tiny(attention=my_evolving(0.3, 1.0)).eval()
    labels = labels_for(model, BATCH)
    expected = run(model, **BATCH.packed(), labels=labels)
    for extra, left in [(0, False), (7, False), (7, True)]:
        found = run(model, **BATCH.padded(extra, left), labels=labels)
        for ours, theirs in zip(found, expected, strict=True):
            assert_same_bits(ours, theirs)


def test_its_file_must_have_been_imported(my_evolving, tmp_path, monkeypatch):
    tiny(attention=my_evolving(0.2, 0.3)).save_pretrained(tmp_path)
    monkeypatch.delitem(ea.attention.base._KINDS["evolve"], "my_evolving")
    with pytest.raises(ea.ConfigError, match=r"my_evolving.*import its module"):
        ea.BertForSequenceClassification.from_pretrained(tmp_path)


@dataclass(frozen=True)
class Forgotten(ea.attention.CustomEvolve):
    """A kind without @register."""

    gain: float = 0.5

    def step(self, scores, previous, context):
        return scores if previous is None else scores + self.gain * previous


@dataclass(frozen=True)
class ForgottenScore(ea.attention.CustomScore):
    def scores(self, q, k, dot, pair_sum, context):
        return dot(q, k, 0.5)


@dataclass(frozen=True)
class Derived(ea.attention.Evolving):
    """A subclass with the name of its base in config.json."""


UNREGISTERED = {
    "evolve": (lambda: Forgotten(), "call it 'custom'.*register.'forgotten'. above"),
    "score": (lambda: ea.attention.Spec(ForgottenScore()), "score kind ForgottenScore"),
    "layer": (lambda: ["vanilla", "vanilla", Forgotten()], "kind Forgotten is not"),
    "subclass": (lambda: Derived(0.1, 0.1), "call it 'evolving'"),
}


@pytest.mark.parametrize("case", UNREGISTERED)
def test_a_kind_that_no_file_can_name_is_not_saved(case, tmp_path):
    attention, message = UNREGISTERED[case]
    model = tiny(attention=attention())
    model(**BATCH.packed())
    assert "ttention" in repr(model.config)
    with pytest.raises(ea.ConfigError, match=message):
        model.save_pretrained(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_estimator_of_a_kind_not_registered_is_pickled_but_not_saved(tmp_path):
    x = np.random.default_rng(0).normal(size=(6, 1, 8))
    sizes = {"hidden_size": 16, "num_blocks": 1, "n_epochs": 1}
    fitted = ea.TimeSeriesClassifier(**sizes, attention=Forgotten()).fit(x, [0, 1] * 3)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(x), fitted.predict_proba(x))
    with pytest.raises(ea.ConfigError, match="Forgotten is not registered"):
        fitted.save(tmp_path / "folder")


def test_training_that_could_not_be_saved_does_not_begin(tmp_path, monkeypatch):
    held = {slot: dict(kinds) for slot, kinds in ea.attention.base._KINDS.items()}
    monkeypatch.setattr(ea.attention.base, "_KINDS", held)
    monkeypatch.setattr(Forgotten, "kind", "custom")
    rows = [{"input_ids": [2, 7, 3], "labels": 1}] * 2
    model = tiny(attention=Forgotten())

    def trainer(folder, strategy):
        args = ea.TrainingArguments(
            str(tmp_path / folder), max_steps=1, save_strategy=strategy
        )
        return ea.Trainer(model, args, train_dataset=rows)

    saving = trainer("a", "steps")
    with pytest.raises(ea.ConfigError, match="Forgotten is not registered"):
        saving.train()
    assert saving.state.global_step == 0
    assert trainer("b", "no").train().global_step == 1
    ea.attention.register("forgotten")(Forgotten)  # as the message says
    saving.save_model(str(tmp_path / "c"))
    again = ea.BertForSequenceClassification.from_pretrained(tmp_path / "c")
    assert again.config.attention == Forgotten()


# --- arguments and results of a step --------------------------------------------------


def kind_of(step):
    """Returns an unregistered kind with this step."""

    class Kind(ea.attention.CustomEvolve):
        pass

    Kind.step = lambda self, *arguments: step(*arguments)
    return Kind()


def test_the_context(my_evolving):
    seen = []

    def step(scores, previous, context):
        seen.append(context)
        assert (previous is None) == (context.layer == 0)
        assert scores.shape == (context.packing.map_elements,)
        return scores

    model = tiny(attention=kind_of(step))
    model(**BATCH.packed())
    model.eval()(**BATCH.packed())
    assert [c.layer for c in seen] == [0, 1, 2] * 2
    assert [c.training for c in seen] == [True] * 3 + [False] * 3
    assert {c.num_layers for c in seen} == {c.num_heads for c in seen} == {3}
    assert seen[0].packing.offsets == [0, 5, 14, 15, 21]
    assert seen[0].parameters == {}


def test_a_pair_is_shown_and_carried():
    carried = []

    def step(scores, previous, context):
        if previous is not None:
            carried.append(np.asarray(previous).copy())
        return F.scale(scores, 0.5), F.scale(scores, 3.0)

    model = tiny("BertModel", kind_of(step), **NO_DROPOUT).eval()
    out = model(**BATCH.packed(), output_attention_logits=True, output_attentions=True)
    base = tiny("BertModel", **NO_DROPOUT).eval()
    scores = np.asarray(
        base(**BATCH.packed(), output_attention_logits=[0]).attention_logits[0]
    )
    assert np.allclose(out.attention_logits[0], 3 * scores, atol=1e-6)
    row = scores[1, 0, 0] * 0.5
    expected = np.exp(row) / np.exp(row).sum()
    assert np.allclose(np.asarray(out.attentions[0])[1, 0, 0], expected, atol=1e-6)
    begin = 3 * 5 * 5
    assert np.allclose(carried[0][begin : begin + 9], 3 * scores[1, 0, 0], atol=1e-6)


@pytest.mark.parametrize("frozen", [True, False])
def test_a_step_that_writes_into_maps_changes_no_output(frozen):
    def step(scores, previous, context):
        if previous is None:
            return scores
        previous += scores
        return previous

    model = tiny("BertModel", kind_of(step), dtype="float64", **NO_DROPOUT).eval()
    asked = {"output_attention_logits": True, "output_attention_scores": True}
    recorded = model(**BATCH.packed(), **asked)
    for parameter in model.parameters():
        parameter.requires_grad = not frozen
    with contextlib.nullcontext() if frozen else ea.no_grad():
        found = model(**BATCH.packed(), **asked)
    for name in ("attention_logits", "attention_scores"):
        for one, other in zip(found[name], recorded[name], strict=True):
            assert np.allclose(one, other, atol=1e-12), name


def test_a_scope_that_writes_into_logits_changes_no_output():
    class Tripled(ea.attention.CustomScope):
        grid = True

        def dot(self, q, k, scale, context):
            return F.attention_scores(q, k, context.packing, scale)

        def normalise(self, logits, scale, context):
            logits *= 3.0
            return F.map_softmax(logits, context.packing, scale)

        def mix(self, probabilities, v, context):
            return F.attention_context(probabilities, v, context.packing)

    spec = ea.attention.Spec(scope=Tripled(), evolve=ea.attention.Residual())
    model = tiny("BertModel", spec, **NO_DROPOUT).eval()
    recorded = model(**BATCH.packed(), output_attention_logits=True)
    with ea.no_grad():
        found = model(**BATCH.packed(), output_attention_logits=True)
    for one, other in zip(
        found.attention_logits, recorded.attention_logits, strict=True
    ):
        assert np.allclose(one, other, atol=1e-5)


WRONG = {
    "shape": (lambda s, p, c: s.reshape(-1, 1), ea.ShapeError, "step returned"),
    "type": (lambda s, p, c: s.to("float64"), ea.ShapeError, "step returned float64"),
    "nothing": (lambda s, p, c: None, ea.InputError, "step returned.*NoneType"),
    "an array": (
        lambda s, p, c: np.asarray(s),
        ea.InputError,
        "step returned.*ndarray",
    ),
    "three": (lambda s, p, c: (s, s, s), ea.InputError, "step returned.*tuple"),
    "a pair of arrays": (
        lambda s, p, c: (s, np.asarray(s)),
        ea.InputError,
        "step returned",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_results_of_a_step(case):
    step, error, message = WRONG[case]
    model = tiny(attention=kind_of(step)).eval()
    with pytest.raises(error, match=message):
        model(**BATCH.packed())


def test_a_kind_without_a_step():
    class Kind(ea.attention.CustomEvolve):
        pass

    model = tiny(attention=Kind())
    with pytest.raises(NotImplementedError, match="Kind has no step"):
        model(**BATCH.packed())


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([1.0], ea.ConfigError, r"Kind\.parameters\(\) returned a list"),
        ({3: np.ones(2)}, ea.ConfigError, "has a name of type int"),
        ({"weight": "abc"}, ea.DTypeError, "expected numbers"),
    ],
)
def test_wrong_parameters(given, error, message):
    class Kind(ea.attention.CustomEvolve):
        def parameters(self, layer, num_heads):
            return given

    with pytest.raises(error, match=message):
        tiny(attention=Kind())


def test_a_name_belongs_to_one_class():
    class Other(ea.attention.CustomEvolve):
        pass

    with pytest.raises(ea.ConfigError, match=r"'evolving' is already .*Evolving; reg"):
        ea.attention.register("evolving")(Other)


class Residual(ea.attention.CustomEvolve):
    """Has the name of a built-in kind, which is at the top of a file, too."""

    kind = "residual"


def test_a_class_of_another_module_does_not_replace_a_kind():
    built_in = ea.attention.kinds()["residual"]
    with pytest.raises(ea.ConfigError, match=r"is already .*attention\.residual\.R"):
        ea.attention.register("residual")(Residual)
    assert ea.attention.kinds()["residual"] is built_in
    with pytest.raises(ea.ConfigError, match="Residual is not registered"):
        tiny(attention=Residual()).config.to_saved()


def test_a_class_that_is_defined_again_replaces_itself(monkeypatch):
    monkeypatch.setattr(ea.attention.base, "_KINDS", {"evolve": {}})
    cell = "@register('mine')\nclass Mine(CustomEvolve): pass"
    names = {**vars(ea.attention), "__name__": "__main__"}
    for _ in range(2):
        exec(cell, names)
        assert ea.attention.kinds()["mine"] is names["Mine"]


def _by_hand(self, g=1.0):
    self.g = g


def _by_hand_too(self, g=1.0, *more, h: int = 2):
    object.__setattr__(self, "g", g)


LOSING = {
    "no dataclass": (lambda cls: cls, _by_hand, "takes g, which"),
    "options with the fields": (dataclass, _by_hand_too, "takes more, h, which"),
}


@pytest.mark.parametrize("case", LOSING)
def test_options_that_would_not_be_saved_are_refused(case):
    decorate, init, message = LOSING[case]
    parts = {"__init__": init, "__annotations__": {"g": float}, "g": 1.0}
    Losing = decorate(type("Losing", (ea.attention.CustomEvolve,), parts))
    with pytest.raises(ea.ConfigError, match=message) as caught:
        ea.attention.register("losing")(Losing)
    for part in ("attention kind 'losing'", "@dataclass(frozen=True)", "__init__"):
        assert part in str(caught.value)
    assert "losing" not in ea.attention.kinds()


def test_a_kind_without_options_needs_no_dataclass(monkeypatch):
    held = {slot: dict(kinds) for slot, kinds in ea.attention.base._KINDS.items()}
    monkeypatch.setattr(ea.attention.base, "_KINDS", held)

    class Plain(ea.attention.CustomEvolve):
        def __init__(self):
            self.calls = 0

    assert ea.attention.register("plain")(Plain) is Plain


@dataclass(frozen=True)
class Scheduled(ea.attention.Evolve):
    strength: float = 0.1

    def to_core(self):
        return ea.attention.Evolving(self.strength, 0.1).to_core()


@dataclass(frozen=True)
class Halved(ea.attention.Evolving):
    def to_core(self):
        return ea.attention.Evolving(self.alpha / 2, self.beta).to_core()


@dataclass(frozen=True)
class Scaled(ea.attention.Score):
    scale: float = 1.0

    def to_core(self):
        return ea.attention.Dot(self.scale).to_core()


@pytest.mark.parametrize("cls", [Scheduled, Halved, Scaled])
def test_a_kind_whose_to_core_gives_another_kind(cls, monkeypatch):
    held = {slot: dict(kinds) for slot, kinds in ea.attention.base._KINDS.items()}
    monkeypatch.setattr(ea.attention.base, "_KINDS", held)
    monkeypatch.setattr(cls, "kind", "unset", raising=False)
    attention = {cls.slot: ea.attention.register("mine")(cls)()}
    config = tiny(attention=ea.attention.Spec(**attention)).config
    assert type(config).from_dict(config.to_saved()).attention == config.attention
    if cls is Scaled:
        cls(float("nan"))  # its own to_core is checked by the Spec
        with pytest.raises(ea.ConfigError, match="scale"):
            ea.attention.Spec(score=cls(float("nan")))
