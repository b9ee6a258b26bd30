"""Named random streams: variants that differ in one part share all other numbers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import helpers_cifar
import helpers_images
import helpers_resnet
import helpers_series
import helpers_transformer
import numpy as np
import pytest
from helpers_fake_model import make_rows
from helpers_models import BODIES, MODELS, SIZES, batch_for, inputs_for

import evolving_attention as ea
from evolving_attention.device_names import host_array
from evolving_attention.errors import CheckpointError
from evolving_attention.training import checkpoint

KINDS = {
    "vanilla": ea.attention.Vanilla(),
    "evolving": ea.attention.Evolving(alpha=0.3, beta=0.2),
    "residual": ea.attention.Residual(),
    "predictive": ea.attention.Predictive(alpha=0.3),
    "relative": ea.attention.Spec(bias=ea.attention.RelativePositions(4)),
}
every_model = pytest.mark.parametrize("name", BODIES)


def made(name: str, attention: Any, seed: int = 3) -> Any:
    ea.manual_seed(seed)
    return MODELS[name](MODELS[name].config_class(attention=attention, **SIZES))


def values_of(model: Any) -> dict[str, np.ndarray]:
    return {n: np.array(host_array(p)) for n, p in model.named_parameters()}


#: Values a float64 maths library computes from the random bits of seed 3.
WORDS = {
    0: -0.03180170145769844,
    64: 0.007415352383381626,
    127: -0.03210574902077703,
    128: 0.04433127794460019,
    16383: -0.027764787971865136,
    16384: 0.01602204072302607,
    25599: 0.033459452943199915,
}
#: Values of a truncated distribution; some of the 144 are redrawn.
TAPS = {
    0: -0.12285184112613662,
    70: 0.13012438271322552,
    127: 0.06897106970107317,
    128: 0.10601725265499656,
    143: 0.12316291572215708,
}


def test_initial_values_are_those_of_the_formula() -> None:
    """Several blocks and chunks of sqrt(-2 log u) cos(2 pi v), scaled."""
    ea.manual_seed(3)
    sizes = {"vocab_size": 400, "hidden_size": 64, "num_attention_heads": 4}
    attention = ea.attention.Evolving(0.1, 0.1)
    config = ea.BertConfig(num_hidden_layers=2, attention=attention, **sizes)
    drawn = values_of(ea.BertModel(config, dtype="float64"))
    words = drawn["embeddings.word_embeddings.weight"].ravel()
    taps = drawn["encoder.layer.1.attention.self.evolving_conv.weight"].ravel()
    for values, expected in ((words, WORDS), (taps, TAPS)):
        found = values[list(expected)]
        np.testing.assert_allclose(found, list(expected.values()), rtol=1e-13)
    sums = [words.sum(), taps.sum()]
    np.testing.assert_allclose(sums, [3.0313094184334304, -0.960220912088572], 1e-13)


@every_model
def test_every_kind_starts_from_the_same_values(name: str) -> None:
    plain = values_of(made(name, None))
    for kind in KINDS.values():
        values = values_of(made(name, kind))
        for parameter, expected in plain.items():
            np.testing.assert_array_equal(values[parameter], expected, parameter)


def test_a_deeper_model_starts_with_the_layers_of_a_shallow_one() -> None:
    ea.manual_seed(3)
    deep = values_of(ea.BertModel(ea.BertConfig(**SIZES | {"num_hidden_layers": 5})))
    for parameter, expected in values_of(made("BertModel", None)).items():
        np.testing.assert_array_equal(deep[parameter], expected, parameter)


def test_two_models_and_two_parameters_differ() -> None:
    first = values_of(made("BertModel", None))
    second = values_of(ea.BertModel(ea.BertConfig(**SIZES)))  # without a new seed
    key, value = (
        f"encoder.layer.0.attention.self.{which}.weight" for which in ("key", "value")
    )
    assert not np.array_equal(first[key], second[key])
    assert not np.array_equal(first[key], first[value])


@pytest.mark.parametrize("training", [True, False])
def test_a_pass_in_training_draws_one_number_from_the_generator(training: bool) -> None:
    inputs = batch_for("BertModel").packed()
    for kind in KINDS.values():
        model = made("BertModel", kind).train(training)
        seed, before = ea.get_rng_state()
        model(**inputs)
        assert ea.get_rng_state() == (seed, before + training)


@ea.attention.register("draws_without_use")
@dataclasses.dataclass(frozen=True)
class DrawsWithoutUse(ea.attention.CustomEvolve):
    """Draws two random streams in each layer, but computes vanilla attention."""

    def step(self, scores: Any, previous: Any, context: Any) -> Any:
        first, second = (ea.functional.dropout(scores, 0.5) for _ in range(2))
        assert not np.array_equal(host_array(first), host_array(second))
        return scores


@pytest.mark.parametrize("checkpointing", [False, True])
def test_draws_in_one_place_leave_all_others_as_they_are(checkpointing: bool) -> None:
    def steps(kind: Any) -> list[np.ndarray]:
        model = made("BertForSequenceClassification", kind)
        if checkpointing:
            model.gradient_checkpointing_enable()
        inputs = inputs_for(model, batch_for("BertForSequenceClassification"))
        found = []
        for _ in range(3):
            out = model(**inputs)
            out.loss.backward()
            found.append(np.array(host_array(out.logits)))
            found += [np.array(host_array(p.grad)) for _, p in model.named_parameters()]
            model.zero_grad()
        return found

    for ours, expected in zip(
        steps(DrawsWithoutUse()), steps(ea.attention.Vanilla()), strict=True
    ):
        np.testing.assert_array_equal(ours, expected)


def three_steps(model: Any, inputs: dict[str, Any]) -> list[bytes]:
    """Trains a model; returns the bits of each loss, or of the sum of outputs."""
    optimizer = ea.optim.AdamW(model.train().parameters(), lr=0.01)
    ea.manual_seed(3)
    found = []
    for _ in range(3):
        out = model(**inputs)
        first = out.loss if "loss" in out else ea.functional.sum(out.pooler_output)
        first.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(first.numpy().tobytes())
    return found


@every_model
def test_evolving_without_evolving_has_the_bits_of_vanilla(name: str) -> None:
    plain, nothing = made(name, None), ea.attention.Evolving(alpha=0.0, beta=0.0)
    inputs = inputs_for(plain, batch_for(name))
    assert three_steps(made(name, nothing), inputs) == three_steps(plain, inputs)


LABELS = np.array([0, 1, 1, 0])
#: Sizes and a batch of a network of every other family.
FAMILIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ViTForImageClassification": (
        helpers_images.SIZES | helpers_images.DROPOUT,
        {"pixel_values": helpers_images.draw(), "labels": LABELS},
    ),
    "AAResNetForImageClassification": (
        helpers_resnet.AUGMENTED["basic"],
        {"pixel_values": helpers_resnet.draw(4, (64, 64)), "labels": LABELS},
    ),
    "CifarNetForImageClassification": (
        helpers_cifar.TINY | {"hidden_dropout_prob": 0.1},
        {"pixel_values": helpers_resnet.draw(4, (16, 16)), "labels": LABELS},
    ),
    "TransformerForConditionalGeneration": (
        helpers_transformer.SIZES,
        helpers_transformer.draw().packed(),
    ),
    "EADCTransformerForClassification": (
        helpers_series.SIZES,
        {**helpers_series.draw().packed(), "labels": LABELS},
    ),
    "GATForNodeClassification": (
        {"num_features": 3, "hidden_size": 8, "num_hidden_layers": 3},
        {
            "features": np.random.default_rng(0).normal(size=(4, 3)),
            "graph": ea.Graph([0, 1, 2, 3, 1], [1, 2, 3, 0, 0], 4),
            "labels": LABELS,
        },
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_networks_of_a_family_share_values_and_streams(name: str) -> None:
    sizes, inputs = FAMILIES[name]
    cls = getattr(ea, name)

    def model(*weights: float) -> Any:
        kind = ea.attention.Evolving(*weights, kernel_size=1) if weights else None
        chains = dict.fromkeys(cls.config_class.chains, kind)
        ea.manual_seed(3)
        return cls(cls.config_class(**chains, **sizes))

    start, other = values_of(model()), values_of(model(0.3, 0.2))
    assert len(other) > len(start)
    for parameter, expected in start.items():
        np.testing.assert_array_equal(other[parameter], expected, parameter)
    assert three_steps(model(0.0, 0.0), inputs) == three_steps(model(), inputs)


WEIGHT = [-0.01665212753601854, 0.2265698901261709, -0.8165124708314088]
MASK = "110001010011000001110011"
HIDDEN_MASK = "111111011111111111111111111111111111111110111111111111111111101111111111"


def kept(values: Any) -> str:
    return "".join("01"[int(value != 0)] for value in np.asarray(values).ravel())


def test_the_streams_are_those_of_every_version() -> None:
    """A change would break resuming: saved runs continue with these streams."""
    ea.manual_seed(7)
    model = ea.BertModel(ea.BertConfig(**SIZES), "float64").train()
    weights = values_of(model)["encoder.layer.1.output.dense.weight"]
    np.testing.assert_allclose(weights[0, :3], WEIGHT, rtol=1e-12)
    ea.manual_seed(7)
    assert kept(ea.functional.dropout(np.ones(24), 0.5)) == MASK
    ea.manual_seed(7)
    out = model(input_ids=np.ones((1, 8), np.int64), output_hidden_states=True)
    assert kept(np.asarray(out.hidden_states[0])[0, :3]) == HIDDEN_MASK


def test_a_run_saved_with_streams_in_sequence_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trainer(steps: int) -> Any:
        return ea.Trainer(
            ea.BertForSequenceClassification(ea.BertConfig(**SIZES)),
            ea.TrainingArguments(
                str(tmp_path), max_steps=steps, save_steps=1, disable_tqdm=True
            ),
            train_dataset=make_rows(40),
        )

    def as_before(parts: Any) -> dict[str, Any]:
        return {k: v for k, v in facts(parts).items() if k != "random_streams"}

    facts = checkpoint._resume_facts
    monkeypatch.setattr(checkpoint, "_resume_facts", as_before)
    trainer(1).train()
    with pytest.raises(CheckpointError, match=r"evolving-attention 0\.1.*train afresh"):
        trainer(2).train(resume_from_checkpoint=True)
