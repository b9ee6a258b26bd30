"""Text nets: sizes, parameter counts, word vectors, and the contract of models."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_models import (
    arrays_of,
    assert_gradients_are_slopes,
    assert_same_bits,
    run,
)
from helpers_text_nets import QUIET, SIZES, VARIANTS, Predictive, draw, tiny

import evolving_attention as ea
from evolving_attention import _core

every_variant = pytest.mark.parametrize("variant", VARIANTS)
both_branches = pytest.mark.parametrize(
    "variant", ["PA-Transformer of pairs", "PA-Conv-Transformer"]
)
LAYERS, HEADS, WIDTH = 3, 3, 24
WORDS = "text_net.embeddings.word_embeddings.weight"


# --- sizes ----------------------------------------------------------------------------

PLAIN = 2_788_005
SITES = 2  # of three layers, the two with a previous map
COUNTS = {
    "text_transformer": ({}, PLAIN),
    "pa_text_transformer": ({}, PLAIN + SITES * (9 * 8 * 8 + 8)),
    "without convolutions": ({"attention": Predictive(0.1, 0)}, PLAIN),
    "two convolutions": ({"attention": Predictive(0.1, 2)}, PLAIN + 2 * SITES * 584),
    "three convolutions": ({"attention": Predictive(0.1, 3)}, PLAIN + 3 * SITES * 584),
    "of pairs": ({"type_vocab_size": 2}, PLAIN),  # a table too, thus not counted
    "text_conv_transformer": ({}, 2_589_861),
    "pa_text_conv_transformer": ({}, 2_589_861 + SITES * (9 * 4 * 4 + 4)),
    "text_cnn": ({}, 2_774_277),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_those_of_the_table(name):
    """Table 1 prints 2.79, 2.79, 2.58, 2.58 and 2.77 million, without embeddings."""
    options, expected = COUNTS[name]
    known = name if name in ea.list_models() else "text_transformer"
    model = ea.create_model(known, vocab_size=3, num_labels=5, **options)
    assert model.num_parameters(exclude_embeddings=True) == expected
    assert dict(model.named_parameters())[WORDS].shape == (3, 300)


def test_names_make_classifiers_with_the_papers_settings():
    names = [
        f"{prefix}text_{kind}"
        for prefix in ("", "ea_", "pa_")
        for kind in ("conv_transformer", "transformer")
    ]
    assert ea.list_models("*text_*") == sorted([*names, "text_cnn"])
    model = ea.create_model("pa_text_conv_transformer", vocab_size=3)
    config = model.config
    assert type(model) is ea.TextNetForSequenceClassification
    assert config.attention == Predictive(0.1)
    assert (config.attention_ratio, config.num_attention_heads) == (0.5, 4)
    assert (config.embedding_dropout_prob, config.hidden_dropout_prob) == (0.4, 0.2)


@every_variant
def test_shapes(variant):
    model = tiny(variant).eval()
    batch = draw(model)
    out = model(**batch.padded(2), output_hidden_states=True)
    assert out.logits.shape == (4, 4)
    assert [s.shape for s in out.hidden_states] == [(4, 13, WIDTH)] * (LAYERS + 1)
    if variant == "CNN":
        with pytest.raises(ea.InputError, match="these layers have no attention"):
            model(**batch.padded(), output_attentions=True)
        return
    maps = model(**batch.padded(2), output_attentions=True).attentions
    assert [m.shape for m in maps] == [(4, HEADS, 13, 13)] * LAYERS
    sums = np.asarray(maps[1]).sum(-1)
    assert np.allclose(sums, batch.padded(2)["attention_mask"][:, None], atol=1e-6)


# --- the same bits --------------------------------------------------------------------


@every_variant
@pytest.mark.parametrize("mode", ["eval", "train"])
def test_packed_equals_padded_bit_for_bit(variant, mode):
    model = tiny(variant).train(mode == "train")
    batch = draw(model)
    ea.manual_seed(5)
    expected = run(model, **batch.packed())
    for extra, left in [(0, False), (3, False), (3, True)]:
        ea.manual_seed(5)
        found = run(model, **batch.padded(extra, left))
        for one, other in zip(found, expected, strict=True):
            assert_same_bits(one, other)


@every_variant
def test_a_text_is_evaluated_as_if_alone(variant):
    model = tiny(variant).eval()
    batch = draw(model)
    together = np.asarray(model(**batch.packed()).logits)
    for row, (ids, types) in enumerate(zip(batch.ids, batch.types, strict=True)):
        alone = np.asarray(model(ids[None], token_type_ids=types[None]).logits)
        assert np.abs(alone[0] - together[row]).max() < 2e-6 * np.abs(together).max()
    with ea.no_grad():
        together = np.asarray(model(**batch.packed()).logits)
        for row, (ids, types) in enumerate(zip(batch.ids, batch.types, strict=True)):
            alone = np.asarray(model(ids[None], token_type_ids=types[None]).logits)
            assert np.array_equal(alone[0], together[row])


@both_branches
def test_any_number_of_threads_gives_the_same_bits(variant):
    count, found = ea.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            ea.set_num_threads(threads)
            model = tiny(variant)
            ea.manual_seed(3)
            found.append(run(model, **draw(model, (12, 7, 3, 11) * 6).packed()))
    finally:
        ea.set_num_threads(count)
    for other in found[1:]:
        for first, second in zip(found[0], other, strict=True):
            assert_same_bits(first, second)


@every_variant
def test_gradient_checkpointing_keeps_every_bit(variant):
    found = []
    for on in (False, True):
        model = tiny(variant)
        if on:
            model.gradient_checkpointing_enable()
        ea.manual_seed(4)
        found.append(run(model, **draw(model).packed()))
    for first, second in zip(*found, strict=True):
        assert_same_bits(first, second)


@both_branches
def test_asking_for_outputs_changes_nothing_else(variant):
    model = tiny(variant).eval()
    inputs = draw(model).packed()
    plain, grads = run(model, **inputs)
    asked, asked_grads = run(
        model,
        **inputs,
        output_hidden_states=True,
        output_attentions=True,
        output_attention_logits=True,
    )
    assert_same_bits(plain, {k: v for k, v in asked.items() if k in plain})
    assert_same_bits(grads, asked_grads)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("variant", ["Transformer", "Conv-Transformer"])
def test_weights_of_zero_are_the_plain_net_bit_for_bit(variant, dtype):
    found = []
    for attention in (None, Predictive(0.0, 2), ea.attention.Evolving(0.0, 0.0)):
        model = tiny(variant, dtype, attention=attention)
        ea.manual_seed(3)
        found.append(run(model, **draw(model).packed()))
    for other in found[1:]:
        for first, second in zip(found[0], other, strict=True):
            assert_same_bits(first, second)


@pytest.mark.parametrize("path", sorted(_core.fast_paths()))
@both_branches
def test_what_stands_behind_a_fast_path_computes_the_same(variant, path):
    model = tiny(variant, "float64", **QUIET)
    inputs = draw(model).packed()
    expected = run(model, **inputs)
    ea.set_fast_path(path, False)
    for one, other in zip(run(model, **inputs), expected, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=0, atol=1e-12)


# --- training -------------------------------------------------------------------------


@every_variant
def test_gradients_follow_central_differences(variant):
    model = tiny(variant, "float64", **QUIET)
    inputs = draw(model, (4, 7, 1)).packed()
    assert_gradients_are_slopes(model, inputs, rel=1e-5, abs=2e-7)


@every_variant
def test_every_parameter_gets_a_gradient(variant):
    model = tiny(variant)
    _, grads = run(model, **draw(model).packed())
    # Softmax is invariant to a shift of all scores.
    zero = [n for n, g in grads.items() if not g.any() and not n.endswith("key.bias")]
    assert zero == []
    assert [n for n, _ in model.named_parameters() if n not in grads] == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@every_variant
def test_training_lowers_the_loss(variant, dtype):
    model = tiny(variant, dtype, **QUIET)
    inputs = draw(model).packed()
    losses = []
    optimizer = ea.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(12):
        loss = model(**inputs).loss
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize(
    "option",
    [
        "embedding_dropout_prob",
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "classifier_dropout",
    ],
)
def test_each_dropout_is_on_in_training_alone(option):
    model = tiny(**{**QUIET, "classifier_dropout": 0.0, option: 0.5})
    inputs = draw(model).packed()
    first, second = (arrays_of(model(**inputs))["logits"] for _ in range(2))
    assert not np.array_equal(first, second)
    model.eval()
    first, second = (arrays_of(model(**inputs))["logits"] for _ in range(2))
    assert np.array_equal(first, second)


def test_the_classifiers_dropout_is_that_of_the_layers_by_default():
    found = []
    for rate in (None, 0.3):
        model = tiny(hidden_dropout_prob=0.3, classifier_dropout=rate)
        ea.manual_seed(2)
        found.append(arrays_of(model(**draw(model).packed())))
    assert_same_bits(*found)


def test_labels_of_other_kinds():
    rng = np.random.default_rng(0)
    model = tiny(num_labels=1).eval()
    inputs = draw(model).packed() | {"labels": rng.normal(size=4)}
    out = model(**inputs)
    error = np.asarray(out.logits)[:, 0] - inputs["labels"]
    assert out.loss.item() == pytest.approx((error**2).mean(), rel=1e-6)
    several = tiny(problem_type="multi_label_classification").eval()
    flags = rng.integers(0, 2, (4, 4))
    out = several(**draw(several).packed() | {"labels": flags})
    x = np.asarray(out.logits, np.float64)
    entropy = np.log1p(np.exp(x)) - flags * x
    assert out.loss.item() == pytest.approx(entropy.mean(), rel=1e-6)


def test_initial_values_are_glorots():
    model = tiny("Conv-Transformer", hidden_size=48, intermediate_size=64)
    for name, tensor in model.named_parameters():
        shape, values = tensor.shape, np.asarray(tensor)
        if "_embeddings" in name:
            assert values.std() == pytest.approx(0.1, rel=0.15)
        elif "relative" not in name and len(shape) > 1:
            taps = shape[2] if len(shape) == 3 else 1
            bound = (6 / (taps * (shape[0] + shape[1]))) ** 0.5
            assert 0.95 * bound < np.abs(values).max() <= bound, name


def test_pairs_are_predicted_by_their_tokenizer(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "cat", "runs"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    model = tiny("PA-Transformer of pairs", id2label={0: "no", 1: "yes"}, num_labels=2)
    model.save_pretrained(tmp_path)
    classify = ea.pipeline("text-classification", tmp_path)
    texts = [("a dog runs", "a cat runs"), ("a cat", "a " * 20)]
    found = classify(texts, top_k=None)
    first = [2, 5, 6, 8, 3, 5, 7, 8, 3]
    types = [0] * 5 + [1] * 4
    logits = classify.model(np.array([first]), token_type_ids=np.array([types])).logits
    expected = np.exp(np.asarray(logits, np.float64)[0])
    scores = {row["label"]: row["score"] for row in found[0]}
    shares = expected / expected.sum()
    assert scores == pytest.approx(dict(zip(("no", "yes"), shares, strict=True)))
    assert [len(rows) for rows in found] == [2, 2]


NO_WORDS = ["", "  ", "\u200b", "\xad"]


def test_a_text_without_words_is_an_unknown_word(tmp_path):
    tokenizer = ea.text.train_word_level(["a good film", "a bad film"])
    model = tiny("PA-Transformer", num_labels=2)
    found = model.predict(["[UNK]", *NO_WORDS, "film"], tokenizer)
    assert found[:5] == [found[0]] * 5
    assert found[5] != found[0]
    rows = [{"text": t, "label": i % 2} for i, t in enumerate(["film", *NO_WORDS])]
    args = ea.TrainingArguments(str(tmp_path), max_steps=2)
    options = {"train_dataset": rows, "processing_class": tokenizer}
    assert ea.Trainer(model, args, **options).train().global_step == 2

    def without_unknown(texts, **_):
        return {"input_ids": [[1] * len(text) for text in texts]}

    with pytest.raises(ea.InputError, match=r"row 1: its text has no token, and the"):
        model.predict(["film", *NO_WORDS], without_unknown)


def test_the_trainer_leaves_fixed_words_alone(tmp_path):
    random = np.random.default_rng(3)
    rows = [{"input_ids": random.integers(1, 30, 6), "label": i % 2} for i in range(12)]
    model = tiny("PA-Conv-Transformer", fixed_words=True, num_labels=2)
    words = model.state_dict()[WORDS].copy()
    arguments = ea.TrainingArguments(
        output_dir=str(tmp_path), max_steps=3, learning_rate=0.01, weight_decay=0.1
    )
    before = {name: value.copy() for name, value in model.state_dict().items()}
    ea.Trainer(model, arguments, train_dataset=rows).train()
    moved = [
        n for n, v in model.state_dict().items() if not np.array_equal(v, before[n])
    ]
    assert np.array_equal(model.state_dict()[WORDS], words)
    assert {*before} - {*moved} <= {WORDS, *(n for n in before if "key.bias" in n)}


# --- word vectors ---------------------------------------------------------------------


def test_fixed_word_vectors_stay_and_are_saved(tmp_path):
    model = tiny("PA-Transformer of pairs", fixed_words=True)
    vectors = np.random.default_rng(3).normal(size=(30, 10)).astype(np.float32)
    assert model.set_word_vectors(vectors) is model
    parameters = [t for t in model.parameters() if t.requires_grad]
    assert len(parameters) == len(list(model.parameters())) - 1
    optimizer = ea.optim.AdamW(parameters, lr=1e-2)
    loss = model(**draw(model).packed()).loss
    loss.backward()
    optimizer.step()
    assert np.array_equal(model.state_dict()[WORDS], vectors)
    model.save_pretrained(tmp_path)
    again = ea.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert np.array_equal(again.state_dict()[WORDS], vectors)
    assert not dict(again.named_parameters())[WORDS].requires_grad
    assert not dict(again.copy("bfloat16").named_parameters())[WORDS].requires_grad
    freed = type(model).from_pretrained(tmp_path, fixed_words=False)
    assert dict(freed.named_parameters())[WORDS].requires_grad


def test_word_vectors_are_what_the_net_reads():
    model = tiny("CNN", "float64").eval()
    inputs = draw(model).packed()
    before = np.asarray(model(**inputs).logits)
    state = model.state_dict()
    held = state[WORDS].copy()
    after = np.asarray(model.set_word_vectors(2.0 * held)(**inputs).logits)
    assert not np.allclose(after, before)
    state["text_net.embeddings.projection.weight"] *= 0.5
    halved = np.asarray(model(**inputs).logits)
    np.testing.assert_allclose(halved, before, rtol=1e-12)


# --- files ----------------------------------------------------------------------------


@every_variant
def test_save_and_load_keep_every_bit(variant, tmp_path):
    model = tiny(variant).eval()
    model.save_pretrained(tmp_path)
    again = ea.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert type(again) is type(model)
    saved = again.config.to_dict()
    assert saved.pop("architectures") == [type(model).__name__]
    del saved["dtype"]
    assert saved == model.config.to_dict()
    assert_same_bits(again.state_dict(), model.state_dict())
    inputs = draw(model).packed()
    assert_same_bits(arrays_of(again(**inputs)), arrays_of(model(**inputs)))


def test_a_body_gets_a_new_head(tmp_path):
    tiny("PA-Conv-Transformer").save_pretrained(tmp_path)
    model = ea.TextNetForSequenceClassification.from_pretrained(
        tmp_path, num_labels=2, strict=False
    )
    mismatched = [item.name for item in model.load_report.mismatched]
    assert sorted(mismatched) == ["classifier.bias", "classifier.weight"]
    assert model(**draw(model).packed()).logits.shape == (4, 2)


def test_a_plain_net_becomes_predictive(tmp_path):
    tiny("Transformer").save_pretrained(tmp_path)
    model = ea.TextNetForSequenceClassification.from_pretrained(
        tmp_path, attention=Predictive(0.2)
    )
    new = [n for n, _ in model.named_parameters() if "evolving_conv" in n]
    assert sorted(model.load_report.new) == sorted(new)
    assert len(new) == 2 * SITES


def test_a_bias_in_attention_takes_the_place_of_positions():
    bias = ea.attention.RelativePositions(3, values=True)
    spec = ea.attention.Spec(bias=bias, evolve=Predictive(0.3))
    names = {n: t.shape for n, t in tiny(attention=spec).named_parameters()}
    layer = "text_net.encoder.layer.1.attention.self."
    assert names[layer + "relative_positions"] == (7, 8)
    assert layer + "relative_values" in names
    usual = {n: t.shape for n, t in tiny().named_parameters()}
    assert usual[layer + "relative_positions"] == (27, 8)


# --- errors ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"attention_ratio": 1.5}, "attention_ratio is 1.5.*from 0 to 1"),
        ({"attention_ratio": 0.3}, "0.3 of hidden_size 24 is a width of 7.2"),
        ({"attention_ratio": 0.0, "relative": "learned"}, "a net without attention"),
        ({"attention_ratio": 0.0, "attention": Predictive(0.1)}, "leave both out"),
        ({"kernel_size": 2, **VARIANTS["Conv-Transformer"]}, "expected an odd number"),
        ({"relative": "absolute"}, "relative = 'absolute'; expected learned or none"),
        ({"fixed_words": 1}, "fixed_words is 1, expected true or false"),
        (
            {
                "relative": "learned",
                "attention": ea.attention.Spec(bias=ea.attention.RelativePositions(3)),
            },
            "leave one of the two out",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_mistakes_of_configs(options, text):
    with pytest.raises(ea.ConfigError, match=text):
        ea.TextNetForSequenceClassification(ea.TextNetConfig(**{**SIZES, **options}))


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ({"input_ids": [[1] * 15]}, "more than 14 tokens.*max_position_embeddings 14"),
        ({"input_ids": [[31]]}, r"input_ids\[0, 0\] = 31: expected 0 to 29"),
        (
            {"input_ids": [[3, 4]], "token_type_ids": [[0, 1]]},
            r"token_type_ids\[0, 1\] = 1: expected 0 to 0 \(type_vocab_size is 1\)",
        ),
    ],
    ids=["long", "word", "pair"],
)
def test_mistakes_of_inputs(inputs, text):
    with pytest.raises(ea.InputError, match=text):
        tiny()(**inputs)


@pytest.mark.parametrize(
    ("vectors", "text"),
    [
        (np.zeros((30, 9)), r"shape \(30, 9\), expected \(30, 10\): vocab_size rows"),
        (np.full((30, 10), np.nan), r"vectors\[0\] holds NaN"),
        (np.full((30, 10), 1e40), "more than float32 holds"),
        (np.full((30, 10), "a"), "expected numbers"),
    ],
    ids=["shape", "nan", "large", "text"],
)
def test_mistakes_of_word_vectors(vectors, text):
    with pytest.raises(ea.InputError, match=text):
        tiny().set_word_vectors(vectors)
