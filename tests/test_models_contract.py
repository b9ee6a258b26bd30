"""Contract tests of every architecture and head: they find each task class."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_models import (
    MODELS,
    NO_DROPOUT,
    NOWHERE,
    PAD,
    SIZES,
    architecture,
    arrays_of,
    assert_same_bits,
    batch_for,
    inputs_for,
    padded_targets,
    run,
    tiny,
)

import evolving_attention as ea

EVOLVING = ea.attention.Evolving(0.3, 0.4)
LAYERS, HEADS, WIDTH = 3, 3, 24
every_model = pytest.mark.parametrize("name", MODELS)
BASES = {"bert": "BertModel", "roberta": "RobertaModel"}
LINEAR = ("token_classification", "question_answering", "multiple_choice")
HEADED = [name for name, cls in MODELS.items() if cls.head != "base"]


def test_every_architecture_has_its_classes():
    heads = {(architecture(name), cls.head) for name, cls in MODELS.items()}
    for each in BASES:
        for head in ("base", "sequence_classification", "masked_lm", *LINEAR):
            assert (each, head) in heads


@pytest.fixture
def whole_last_layer():
    """Computes all rows of the last layer, whichever outputs are requested."""
    ea.set_fast_path("first_tokens", False)


# --- outputs --------------------------------------------------------------------------


@every_model
def test_shapes(name):
    labels = 2 if MODELS[name].head == "question_answering" else 4
    model = tiny(name, EVOLVING, num_labels=labels).eval()
    batch = batch_for(name)
    out = model(**batch.padded(2), output_hidden_states=True)
    b, t, total = len(batch.ids), max(batch.lengths) + 2, sum(batch.lengths)
    expected = {
        "base": {"last_hidden_state": (b, t, WIDTH), "pooler_output": (b, WIDTH)},
        "sequence_classification": {"logits": (b, 4)},
        "token_classification": {"logits": (b, t, 4)},
        "question_answering": {"start_logits": (b, t), "end_logits": (b, t)},
        "multiple_choice": {"logits": (1, b)},
        "masked_lm": {"logits": (b, t, SIZES["vocab_size"])},
        "pretraining": {
            "logits": (b, t, SIZES["vocab_size"]),
            "seq_relationship_logits": (b, 2),
        },
    }[model.head]
    found = {k: v.shape for k, v in dict(out).items() if k != "hidden_states"}
    assert found == expected
    assert [s.shape for s in out.hidden_states] == [(b, t, WIDTH)] * 4
    packed = model(**batch.packed())
    for key, shape in expected.items():
        rows = (total, *shape[2:]) if shape[:2] == (b, t) else shape
        assert packed[key].shape == rows, key


@every_model
def test_outputs_on_request(name):
    model = tiny(name, EVOLVING).eval()
    ids = {"input_ids": batch_for(name).padded()["input_ids"]}
    plain = model(**ids)
    counts = {
        "output_hidden_states": ("hidden_states", LAYERS + 1),
        "output_attentions": ("attentions", LAYERS),
        "output_attention_logits": ("attention_logits", LAYERS),
    }
    for option, (field, count) in counts.items():
        assert getattr(plain, field) is None
        everything = getattr(model(**ids, **{option: True}), field)
        assert len(everything) == count
        some = getattr(model(**ids, **{option: [count - 1, 0]}), field)
        last = getattr(model(**ids, **{option: [-1]}), field)
        for chosen, kept in ((some, {0, count - 1}), (last, {count - 1})):
            for i, value in enumerate(chosen):
                assert (value is not None) == (i in kept)
                assert value is None or np.array_equal(value, everything[i])
        for nothing in (False, None, []):
            assert getattr(model(**ids, **{option: nothing}), field) is None
        for bad in ([count], [-count - 1]):
            with pytest.raises(ea.InputError, match=f"{option}.*{bad[0]}"):
                model(**ids, **{option: bad})
        with pytest.raises(ea.InputError, match=option):
            model(**ids, **{option: [0.5]})


@every_model
def test_asking_for_outputs_changes_nothing_else(name, whole_last_layer):
    model = tiny(name, EVOLVING).eval()
    inputs = inputs_for(model, batch_for(name))
    plain, gradients = run(model, **inputs)
    asked, asked_gradients = run(
        model,
        **inputs,
        output_hidden_states=True,
        output_attentions=True,
        output_attention_logits=True,
    )
    assert_same_bits(plain, {k: v for k, v in asked.items() if k in plain})
    assert_same_bits(gradients, asked_gradients)


@pytest.mark.parametrize("name", BASES.values())
def test_last_hidden_state_is_the_last_of_the_hidden_states(name):
    model = tiny(name).eval()
    out = model(**batch_for(name).padded(3), output_hidden_states=[-1])
    last = np.asarray(out.last_hidden_state)
    assert np.array_equal(last, np.asarray(out.hidden_states[LAYERS]))
    assert not last[~batch_for(name).valid(3)].any()


@every_model
@pytest.mark.parametrize("mode", ["eval", "train"])
def test_packed_equals_padded_bit_for_bit(name, mode):
    model = tiny(name, EVOLVING).train(mode == "train")
    batch = batch_for(name)
    ea.manual_seed(5)
    expected, gradients = run(model, **inputs_for(model, batch))
    for extra, left in [(0, False), (7, False), (7, True)]:
        inputs = batch.padded(extra, left) | padded_targets(model, batch, extra, left)
        valid = batch.valid(extra, left)
        ea.manual_seed(5)
        found, found_gradients = run(model, **inputs)
        assert_same_bits(gradients, found_gradients)
        for key, value in found.items():
            rows = value[valid] if value.shape[:2] == valid.shape else value
            assert np.array_equal(rows, expected[key]), key
            if rows is not value:
                outside = NOWHERE if key in ("start_logits", "end_logits") else 0.0
                assert (value[~valid] == np.float32(outside)).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "attention",
    [
        ea.attention.Evolving(),
        ea.attention.Spec("multiplicative"),
        ea.attention.Spec("additive"),
        ea.attention.Spec(bias=ea.attention.RelativePositions(16, values=True)),
    ],
    ids=str,
)
def test_a_text_alone_has_the_bits_it_has_in_any_batch(attention, dtype):
    ea.manual_seed(1)
    config = ea.BertConfig(
        vocab_size=40,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=36,
        initializer_range=0.3,
        attention=attention,
    )
    model = ea.BertModel(config, dtype).eval()
    draw = np.random.default_rng(0)
    lengths = (33, 7, 64, 9, 3, 130, 2)
    if isinstance(attention, ea.attention.Spec) and attention.bias.kind == "relative":
        lengths = (33, 20, 64, 17, 19, 130, 40)  # the table's part depends on them
    rows = [draw.integers(1, 40, n) for n in lengths]
    offsets = np.cumsum([0, *map(len, rows)])
    with ea.no_grad():
        together = model(np.concatenate(rows), sequence_offsets=offsets)
        parts = np.split(np.asarray(together.last_hidden_state), offsets[1:-1])
        for row, part in zip(rows, parts, strict=True):
            alone = np.asarray(model(row[None]).last_hidden_state)[0]
            assert np.array_equal(alone, part)


# --- training -------------------------------------------------------------------------


@pytest.mark.parametrize("name", HEADED)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_training_lowers_the_loss(name, dtype):
    model = tiny(name, EVOLVING, dtype, initializer_range=0.1)
    inputs = inputs_for(model, batch_for(name))
    before = model.eval()(**inputs).loss.item()
    optimizer = ea.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(12):
        loss = model(**inputs).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert model.eval()(**inputs).loss.item() < 0.7 * before


@every_model
def test_every_parameter_gets_a_gradient(name):
    model = tiny(name, EVOLVING)
    _, gradients = run(model, **inputs_for(model, batch_for(name)))
    # A base model's pooler gets one only through pooler_output, which run() uses.
    silent = [n for n, _ in model.named_parameters() if n not in gradients]
    assert silent == []
    # A softmax is invariant to a shift of all its terms.
    shifts = ("key.bias", "qa_outputs.bias")
    if model.head == "multiple_choice":
        shifts += ("classifier.bias",)
    zero = [n for n, g in gradients.items() if not g.any() and not n.endswith(shifts)]
    assert zero == []


@every_model
def test_eval_is_deterministic_and_training_follows_the_seed(name):
    model = tiny(name, EVOLVING)
    assert model.training
    inputs = batch_for(name).packed()

    def result(seed=None):
        if seed is not None:
            ea.manual_seed(seed)
        return arrays_of(model(**inputs))

    first, second = result(1), result()
    key = next(iter(first))
    assert not np.array_equal(first[key], second[key])
    assert_same_bits(result(1), first)
    model.eval()
    assert not model.training
    assert_same_bits(result(1), result(2))
    state = ea.get_rng_state()
    result()
    assert ea.get_rng_state() == state  # eval draws no random numbers


# --- parameters and files -------------------------------------------------------------


@every_model
def test_state_dict_round_trip(name):
    first, second = (tiny(name, EVOLVING, seed=s).eval() for s in (1, 2))
    inputs = inputs_for(first, batch_for(name))
    before = arrays_of(second(**inputs))
    state = {key: value.copy() for key, value in first.state_dict().items()}
    report = second.load_state_dict(state)
    assert report.loaded == len(state)
    assert_same_bits(second.state_dict(), first.state_dict())
    after = arrays_of(second(**inputs))
    assert_same_bits(after, arrays_of(first(**inputs)))
    assert any(not np.array_equal(after[key], before[key]) for key in after)
    assert first.num_parameters() == sum(value.size for value in state.values())


@every_model
def test_state_dict_is_the_memory_of_the_parameters(name):
    model = tiny(name).eval()
    before = arrays_of(model(**batch_for(name).packed()))
    for value in model.state_dict().values():
        value *= 1.5
    after = arrays_of(model(**batch_for(name).packed()))
    assert all(not np.array_equal(after[key], before[key]) for key in after)


@every_model
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_save_and_load_keep_every_bit(name, dtype, tmp_path):
    labels = 2 if MODELS[name].head == "question_answering" else 3
    model = tiny(name, EVOLVING, dtype, num_labels=labels).eval()
    model.save_pretrained(tmp_path)
    again = MODELS[name].from_pretrained(tmp_path, dtype=dtype)
    assert not again.training
    assert again.dtype == dtype
    assert again.config.attention == EVOLVING
    assert_same_bits(again.state_dict(), model.state_dict())
    inputs = inputs_for(model, batch_for(name))
    assert_same_bits(arrays_of(again(**inputs)), arrays_of(model(**inputs)))
    rounded = MODELS[name].from_pretrained(tmp_path, dtype="bfloat16").state_dict()
    for key, value in model.state_dict().items():
        assert np.array_equal(rounded[key], value.astype(rounded[key].dtype))


@pytest.mark.parametrize("name", HEADED)
def test_a_headed_model_starts_from_a_base_checkpoint_and_back(name, tmp_path):
    base = tiny(BASES[architecture(name)], EVOLVING).eval()
    base.save_pretrained(tmp_path / "base")
    model = MODELS[name].from_pretrained(
        tmp_path / "base", strict=MODELS[name].head not in ("masked_lm", "pretraining")
    )
    prefix = f"{architecture(name)}."
    new = [*model.load_report.new, *model.load_report.missing]
    own = [n for n, _ in model.named_parameters() if not n.startswith(prefix)]
    assert sorted(new) == sorted(own)
    model.save_pretrained(tmp_path / "headed")
    again = MODELS[BASES[architecture(name)]].from_pretrained(tmp_path / "headed")
    inputs = {**batch_for(name).packed(), "output_hidden_states": True}
    found, expected = (arrays_of(m(**inputs)) for m in (again, base))
    if not again.config.add_pooling_layer:
        del expected["pooler_output"]
    assert_same_bits(found, expected)


@pytest.mark.parametrize("name", HEADED)
def test_the_auto_classes_choose_by_config(name, tmp_path):
    model = tiny(name, EVOLVING)
    model.save_pretrained(tmp_path)
    auto = {
        "sequence_classification": ea.AutoModelForSequenceClassification,
        "token_classification": ea.AutoModelForTokenClassification,
        "question_answering": ea.AutoModelForQuestionAnswering,
        "multiple_choice": ea.AutoModelForMultipleChoice,
        "masked_lm": ea.AutoModelForMaskedLM,
        "pretraining": ea.AutoModelForPreTraining,
    }[model.head]
    assert type(auto.from_pretrained(tmp_path)) is MODELS[name]
    assert type(auto.from_config(model.config)) is MODELS[name]
    base = ea.AutoModel.from_pretrained(tmp_path)
    assert type(base) is MODELS[BASES[architecture(name)]]


def test_padding_ids_are_what_the_architectures_say():
    for each, base in BASES.items():
        assert MODELS[base].config_class.defaults["pad_token_id"] == PAD[each]


@every_model
def test_pre_norm_layers_keep_the_contract(name):
    """Packed or padded, recomputed or kept: the bits are the same."""
    model = tiny(name, EVOLVING, norm_first=True, **NO_DROPOUT)
    inputs = inputs_for(model, batch_for(name))

    outputs, slopes = run(model, **inputs)
    model.gradient_checkpointing_enable()
    again, again_slopes = run(model, **inputs)
    assert_same_bits({**again, **again_slopes}, {**outputs, **slopes})
    model.eval()
    batch = batch_for(name)
    padded = np.asarray(
        model(**batch.padded(3), output_hidden_states=True).hidden_states[-1]
    )
    packed = np.asarray(
        model(**batch.packed(), output_hidden_states=True).hidden_states[-1]
    )
    np.testing.assert_array_equal(padded[batch.valid(3)], packed)
