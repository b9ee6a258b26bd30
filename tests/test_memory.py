"""Memory counters, and the plan of a step against the measured peak."""

from __future__ import annotations

import doctest
import gc

import helpers_series
import helpers_transformer
import numpy as np
import pytest
from helpers_models import assert_same_bits, draw, labels_for, pad_labels, run, tiny

import evolving_attention as ea
from evolving_attention import _core

Evolving = ea.attention.Evolving
SIZES = {
    "hidden_size": 192,
    "num_attention_heads": 6,
    "intermediate_size": 768,
    "num_hidden_layers": 6,
    "max_position_embeddings": 256,
    "vocab_size": 2000,
    "initializer_range": 0.02,
}


def text(name="BertForSequenceClassification", checkpointing=False, **options):
    def made(lengths, padded):
        model = tiny(name, **{**SIZES, **options})
        if checkpointing:
            model.gradient_checkpointing_enable()
        batch = draw(lengths, model.config.model_type)
        labels = labels_for(model, batch)
        if padded and len(labels) != len(lengths):
            labels = pad_labels(labels, batch.valid())
        return model, {
            **(batch.padded() if padded else batch.packed()),
            "labels": labels,
        }

    return made


def series(max_length=256, **options):
    def made(lengths, padded):
        wide = {"hidden_size": 64, "num_attention_heads": 4, "max_length": max_length}
        model = helpers_series.tiny(**{**wide, **options})
        batch = helpers_series.draw(lengths)
        inputs = batch.padded() if padded else batch.packed()
        return model, {**inputs, **helpers_series.targets_for(model, batch)}

    return made


def pairs(**options):
    def made(lengths, padded):
        wide = {
            "d_model": 128,
            "encoder_layers": 4,
            "decoder_layers": 4,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 512,
            "decoder_ffn_dim": 512,
            "max_position_embeddings": 256,
        }
        model = helpers_transformer.tiny(**{**wide, **options})
        targets = tuple(n * 3 // 4 for n in lengths)
        batch = helpers_transformer.draw(lengths, targets)
        return model, batch.padded() if padded else batch.packed()

    return made


def held():
    """Returns the bytes that tensors hold, after collecting other tests' garbage."""
    gc.collect()
    return ea.memory.current()


def measured(model, inputs, optimizer):
    """Returns the peak of the bytes that tensors hold in the second of two steps."""
    made = ea.optim.create(optimizer, model.named_parameters(), lr=1e-3)
    model.train()
    for _ in range(2):
        _core.release_cached_memory()
        ea.memory.reset_peak()
        model(**inputs).loss.backward()
        made.step()
        model.zero_grad()
    return ea.memory.peak()


MODELS = {
    "vanilla": text(),
    "evolving": text(attention=Evolving()),
    "learned": text(attention=Evolving(learnable=True)),
    "residual": text(attention="residual"),
    "predictive": text(attention=ea.attention.Predictive(0.2, num_layers=2)),
    "two layers": text(attention=Evolving(), num_hidden_layers=2),
    "checkpointing": text(attention=Evolving(), checkpointing=True),
    "masked-lm": text("RobertaForMaskedLM"),
    "bfloat16": text(attention=Evolving(), dtype="bfloat16"),
    "wide": text(attention=Evolving(), hidden_size=384, intermediate_size=1536),
    "float64": text(attention=Evolving(), dtype="float64"),
    "series": series(),
    "flat 1200": series(1200, pooling="flatten", attention=Evolving()),
    "flat 2000": series(2000, pooling="flatten", num_attention_heads=1, num_blocks=1),
    "many maps": series(
        256, attention=Evolving(), hidden_size=32, num_attention_heads=4, num_blocks=2
    ),
    "pairs": pairs(),
    "vanilla pairs": pairs(variant="vanilla"),
    "learned pairs": pairs(variant="learned"),
}


def images(cls, checkpointing=False, dtype="float32", side=64, **options):
    def made(count):
        if cls is not RESNET:
            options["image_size"] = side
        model = cls(cls.config_class(num_labels=10, **options), dtype)
        if checkpointing:
            model.gradient_checkpointing_enable()
        pixels = np.random.default_rng(0).normal(size=(count, 3, side, side))
        return model, {"pixel_values": pixels, "labels": np.arange(count) % 10}

    return made


STAGES = {"hidden_sizes": [64, 128, 256], "depths": [2, 2, 2]}
RESNET, AUGMENTED = ea.ResNetForImageClassification, ea.AAResNetForImageClassification
CIFAR = ea.CifarNetForImageClassification
HEADS = {"num_attention_heads": 4, "min_head_key_width": 0, "value_ratio": 0.25}
IMAGES = {
    "resnet": images(RESNET, **STAGES, layer_type="basic"),
    "bottleneck": images(RESNET, hidden_sizes=[128, 256, 512], depths=[2, 2, 2]),
    "bfloat16": images(RESNET, **STAGES, dtype="bfloat16"),
    "again": images(RESNET, **STAGES, layer_type="basic", checkpointing=True),
    "augmented": images(AUGMENTED, **STAGES, **HEADS, attention=Evolving()),
    "augmented again": images(
        AUGMENTED, **STAGES, **HEADS, attention=Evolving(), checkpointing=True
    ),
    "cifar": images(CIFAR, side=32, **STAGES, attention=Evolving()),
    "cifar again": images(CIFAR, side=32, **STAGES, checkpointing=True),
    "vit": images(
        ea.ViTForImageClassification,
        patch_size=8,
        hidden_size=96,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=192,
    ),
}
SHORT, EQUAL, MIXED, LONG = (16, 16), (64,) * 8, (200, 40, 10), (250,) * 6
CASES = [
    *((name, lengths, False) for name in MODELS for lengths in (EQUAL, MIXED)),
    *((f"flat {n}", (n,), True) for n in (1200, 2000)),
    ("many maps", (256,) * 32, True),
    ("many maps", (250, 200, 256, 220) * 10, False),
    *((name, LONG, True) for name in ("evolving", "series", "pairs")),
    *((name, MIXED, True) for name in ("vanilla", "masked-lm", "series", "pairs")),
    *((name, SHORT, False) for name in ("vanilla", "series", "pairs")),
]


@pytest.mark.parametrize(("name", "lengths", "padded"), CASES)
def test_the_planned_peak_is_within_a_quarter_of_the_measured(name, lengths, padded):
    before = held()
    model, inputs = MODELS[name](lengths, padded)
    planned = ea.plan(model, inputs)
    found = measured(model, inputs, "adamw") - before
    assert planned.peak == pytest.approx(found, rel=0.25, abs=2**20)


@pytest.mark.parametrize("count", [1, 3, 16])
@pytest.mark.parametrize("name", IMAGES)
def test_the_planned_peak_of_images_is_within_a_quarter(name, count):
    before = held()
    model, inputs = IMAGES[name](count)
    planned = ea.plan(model, inputs)
    found = measured(model, inputs, "adamw") - before
    assert planned.peak == pytest.approx(found, rel=0.25, abs=2**20)


class Gate(ea.attention.CustomEvolve):
    """Has a parameter that the first layer does not use."""

    def parameters(self, layer, num_heads):
        return {"gate": np.full(num_heads, 0.5, np.float32)}

    def step(self, scores, previous, context):
        if previous is None:
            return scores
        gate = context.packing.per_head(context.parameters["gate"])
        return scores + gate * previous


def test_a_parameter_without_use_does_not_stop_a_plan():
    config = ea.T5Config(
        vocab_size=50, d_model=16, d_kv=4, num_heads=4, num_layers=2, attention=Gate()
    )
    model = ea.T5ForConditionalGeneration(config)
    assert ea.plan(model, {"input_ids": [[5, 6, 7, 1]], "labels": [[7, 8, 1]]}).peak


def test_graphs_are_not_planned():
    model = ea.GATForNodeClassification(ea.GATConfig(num_features=5))
    graph = ea.Graph([0, 1, 2], [1, 2, 0], 3)
    with pytest.raises(ea.InputError, match="takes a graph"):
        ea.plan(model, {"features": np.zeros((3, 5), "f4"), "graph": graph})


@pytest.mark.parametrize("optimizer", ["sgd", "radam"])
def test_other_optimizers(optimizer):
    before = held()
    model, inputs = MODELS["evolving"](EQUAL, False)
    planned = ea.plan(model, inputs, optimizer=optimizer)
    found = measured(model, inputs, optimizer) - before
    assert planned.peak == pytest.approx(found, rel=0.25, abs=2**20)


def test_the_parts_are_counted():
    model, inputs = text(attention=Evolving())((64,) * 4, True)
    planned = ea.plan(model, inputs)
    bytes_of = sum(4 * p.size for p in model.parameters())
    table = dict(model.named_parameters())["bert.embeddings.word_embeddings.weight"]
    assert planned.parameters == bytes_of
    assert planned.optimizer == 2 * bytes_of
    assert bytes_of - 4 * table.size < planned.gradients < bytes_of
    assert ea.plan(model, inputs, optimizer=None).optimizer == 0
    assert ea.plan(model, inputs, optimizer="sgd").optimizer == 0
    for parameter in model.parameters():
        parameter.requires_grad = parameter is table
    assert ea.plan(model, inputs).optimizer == 8 * table.size
    for name in ("parameters", "gradients", "optimizer", "activations", "peak"):
        assert f"{name:12s}" in str(planned)


def test_checkpointing_shows_in_the_plan():
    model, inputs = text(attention=Evolving())((64,) * 8, True)
    kept = ea.plan(model, inputs).activations
    model.gradient_checkpointing_enable()
    assert ea.plan(model, inputs).activations < kept / 2


def test_activations_grow_with_the_square_of_the_length():
    made = text(attention=Evolving(learnable=True))
    short, long = (ea.plan(*made((n,) * 2, True)).activations for n in (64, 256))
    assert 4 * short < long < 16 * short


@pytest.mark.parametrize(
    "made",
    [
        lambda: text(hidden_dropout_prob=0.3)((12, 7, 9), True),
        lambda: series()((12, 7, 9), True),
        lambda: pairs(dropout=0.3)((12, 7, 9), True),
        lambda: IMAGES["cifar"](3),
    ],
    ids=["text", "series", "pairs", "images"],
)
def test_planning_leaves_everything_as_it_was(made):
    found = []
    for planned in (False, True):
        ea.manual_seed(1)
        model, inputs = made()
        model.eval()
        ea.manual_seed(3)
        if planned:
            with ea.no_grad():
                ea.plan(model, inputs)
                assert not _core.is_grad_enabled()
            assert not model.training
            assert all(p.grad is None for p in model.parameters())
        state = {k: v.copy() for k, v in model.state_dict().items()}
        results, gradients = run(model.train(), **inputs)
        found.append({**state, **results, **{f"d{k}": g for k, g in gradients.items()}})
    assert_same_bits(*found)


def test_what_is_no_batch_is_refused():
    model, inputs = text()((4,), True)
    with pytest.raises(ea.InputError, match="labels, expected the inputs of Bert"):
        ea.plan(model, {"labels": inputs["labels"]})
    with pytest.raises(ea.InputError, match=r"input_ids has shape \(3,\)"):
        ea.plan(model, {"input_ids": np.array([1, 2, 3])})
    for batch in (None, 5, [inputs]):
        with pytest.raises(ea.InputError, match="expected a dict of the inputs of"):
            ea.plan(model, batch)
    with pytest.raises(ea.ConfigError, match="optimizer 'lamb', expected"):
        ea.plan(model, inputs, optimizer="lamb")
    with pytest.raises(ea.InputError, match=r"pixel_values has shape \(3, 64, 64\)"):
        ea.plan(IMAGES["resnet"](1)[0], {"pixel_values": np.zeros((3, 64, 64))})
    sources = {"input_ids": np.array([[5, 6, 7]])}
    with pytest.raises(ea.InputError, match="expected the target, too: labels or"):
        ea.plan(helpers_transformer.tiny(), sources)
    for parameter in model.parameters():
        parameter.requires_grad = False
    with pytest.raises(ea.InputError, match=r"every parameter of Bert.* is frozen"):
        ea.plan(model, inputs)


SEVERAL = {"problem_type": "multi_label_classification"}
FITTING = [
    ("BertForMultipleChoice", {}, (2, 4, 6), {"labels": [0, 3]}),
    ("BertForMultipleChoice", {}, (2, 4, 6), {"attention_mask": np.ones((2, 4, 6))}),
    ("BertModel", {}, (8, 6), {"position_ids": np.arange(6)}),
    ("BertModel", {}, (8, 6), {"position_ids": [[5, 4, 3, 2, 1, 0]]}),
    ("BertForSequenceClassification", SEVERAL, (8, 2), {"labels": np.ones((8, 2))}),
]


@pytest.mark.parametrize(("name", "options", "shape", "more"), FITTING)
def test_a_plan_takes_what_the_model_takes(name, options, shape, more):
    model, inputs = tiny(name, **options), {"input_ids": np.full(shape, 7), **more}
    model(**inputs)
    assert ea.plan(model, inputs).peak > 0


def test_choices_are_planned_like_rows():
    rows, questions = (
        {"input_ids": np.full(s, 7), "attention_mask": np.ones(s)}
        for s in ((32, 20), (8, 4, 20))
    )
    model = tiny("BertForMultipleChoice", attention=Evolving())
    assert ea.plan(model, {**questions, "labels": [0] * 8}) == ea.plan(model, rows)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"input_ids": [[7, 8], [9]]}, "input_ids is no rectangular array"),
        ({"input_ids": np.zeros((0, 6), int), "labels": []}, "expected one or more"),
        ({"input_ids": np.full((8, 6), 7.5)}, "input_ids must be integers"),
        ({"input_ids": np.full((8, 600), 7)}, "length 600, expected at most"),
        ({"labels": [0, 1]}, r"labels has shape \(2,\), expected 8 rows"),
        ({"labels": 1}, r"labels has shape \(\), expected 8 rows"),
        ({"attention_mask": np.ones((7, 6))}, r"shape \(7, 6\), expected 8 rows"),
        ({"attention_mask": np.zeros((8, 6))}, "each of 1 to 6"),
    ],
)
def test_a_batch_that_does_not_fit_the_model_is_refused(changed, text):
    inputs = {"input_ids": np.full((8, 6), 7), "labels": [0, 1] * 4, **changed}
    with pytest.raises(ea.InputError, match=text):
        ea.plan(tiny("BertForSequenceClassification"), inputs)


def test_the_longest_sequence_of_a_roberta_is_planned():
    """Its positions start after that of the padding."""
    model = tiny("RobertaModel", max_position_embeddings=16, pad_token_id=1)
    longest, more = (np.full((8, n), 7) for n in (14, 15))
    model(input_ids=longest)
    assert ea.plan(model, {"input_ids": longest}).peak > 0
    with pytest.raises(ea.InputError, match="length 15, expected at most 14"):
        ea.plan(model, {"input_ids": more})


def test_targets_of_other_rows_are_refused():
    inputs = {"input_ids": np.full((4, 6), 5), "labels": np.full((3, 6), 5)}
    with pytest.raises(ea.ShapeError, match="4 sources and 3 targets"):
        ea.plan(helpers_transformer.tiny(), inputs)


def test_series_of_whole_numbers_are_planned():
    model, inputs = series()((12, 7, 9), True)
    whole = {**inputs, "values": np.ones(inputs["values"].shape, int)}
    assert ea.plan(model, whole) == ea.plan(model, inputs)


def test_the_examples_run():
    found = doctest.testmod(ea.memory)
    assert found.failed == 0
    assert found.attempted > 10


def test_counters():
    before = held()
    kept = ea.Tensor(np.zeros(2**20, np.float32))
    assert ea.memory.current() - before == 2**22
    ea.memory.reset_peak()
    more = ea.Tensor(np.zeros(2**21, np.float32))
    del more
    assert ea.memory.peak() - before >= 2**22 + 2**23
    ea.memory.reset_peak()
    assert ea.memory.peak() == ea.memory.current() == before + 2**22
    del kept


def test_scores_of_causal_maps_take_no_copy_of_the_maps():
    n = 1024
    packing = ea.functional.Packing(1, [0, n], causal=True)
    q = ea.Tensor(np.zeros((n, 16), np.float32))
    before = held()
    ea.memory.reset_peak()
    with ea.no_grad():
        scores = ea.functional.attention_scores(q, q, packing, 0.5)
    assert ea.memory.peak() - before < 1.2 * 4 * n * n
    assert scores.shape == (n * n,)
