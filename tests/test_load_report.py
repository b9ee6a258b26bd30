"""Checkpoint names are matched with model names, and everything is reported."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from helpers_models import tiny

import evolving_attention as ea
from evolving_attention.errors import CheckpointError, ConfigError
from evolving_attention.interop.bert import BERT
from evolving_attention.interop.hf import load_folder
from evolving_attention.interop.load_report import LoadReport, match
from evolving_attention.interop.roberta import ROBERTA
from evolving_attention.interop.rules import NameTable
from evolving_attention.interop.safetensors_io import save_safetensors

LAYERS, WIDTH, WORDS = 2, 4, 11
TABLES = (BERT, ROBERTA)
Shapes = dict[str, tuple[int, ...]]


def layer(number: int) -> Shapes:
    start = f"encoder.layer.{number}."
    dense = ("attention.self.query", "attention.output.dense", "output.dense")
    norms = ("attention.output.LayerNorm", "output.LayerNorm")
    shapes: Shapes = {}
    for name in dense:
        shapes[f"{start}{name}.weight"] = (WIDTH, WIDTH)
        shapes[f"{start}{name}.bias"] = (WIDTH,)
    for name in norms:
        shapes[f"{start}{name}.weight"] = (WIDTH,)
        shapes[f"{start}{name}.bias"] = (WIDTH,)
    return shapes


def base(*, pooler: bool = True, evolving: bool = False) -> Shapes:
    shapes: Shapes = {"embeddings.word_embeddings.weight": (WORDS, WIDTH)}
    shapes["embeddings.LayerNorm.weight"] = (WIDTH,)
    for number in range(LAYERS):
        shapes |= layer(number)
        if evolving and number:
            conv = f"encoder.layer.{number}.attention.self.evolving_conv."
            shapes |= {f"{conv}weight": (2, 2, 3, 3), f"{conv}bias": (2,)}
    if pooler:
        shapes |= {"pooler.dense.weight": (WIDTH, WIDTH), "pooler.dense.bias": (WIDTH,)}
    return shapes


def inside(table: NameTable, shapes: Shapes) -> Shapes:
    return {table.prefix + name: shape for name, shape in shapes.items()}


def lm_head(table: NameTable) -> Shapes:
    start = "cls.predictions." if table is BERT else "lm_head."
    inner = "transform.dense" if table is BERT else "dense"
    return {
        f"{start}bias": (WORDS,),
        f"{start}{inner}.weight": (WIDTH, WIDTH),
    }


def tied(table: NameTable) -> tuple[str, str]:
    """Returns the names of the decoder's weight and bias that only checkpoints have."""
    return table.ties[0].alias, table.ties[1].alias


def masked_lm(table: NameTable) -> Shapes:
    return inside(table, base(pooler=False)) | lm_head(table)


def classifier(table: NameTable, labels: int = 3) -> Shapes:
    head = {"classifier.weight": (labels, WIDTH), "classifier.bias": (labels,)}
    return inside(table, base()) | head


def filled(shapes: Shapes, dtype: object = np.float32) -> dict[str, np.ndarray]:
    """Returns arrays of these shapes, each with different values."""
    result, start = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        values = np.arange(start, start + size).reshape(shape)
        result[name] = (values % 97).astype(dtype)  # type: ignore[call-overload]
        start += size
    return result


def assert_all(
    assigned: dict[str, np.ndarray], report: LoadReport, names: Iterable[str]
) -> None:
    assert set(assigned) == set(names)
    assert report.loaded == len(assigned)
    assert not report.missing
    assert not report.mismatched


# --- prefixes and heads --------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.architecture)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_the_same_model(table: NameTable, dtype: object) -> None:
    shapes = classifier(table)
    assigned, report = match(shapes, filled(shapes, dtype), table=table)
    assert_all(assigned, report, shapes)
    assert report.new == report.unexpected == []


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.architecture)
def test_base_into_headed(table: NameTable) -> None:
    found = filled(base())
    assigned, report = match(classifier(table), found, table=table)
    assert_all(assigned, report, inside(table, base()))
    assert report.new == ["classifier.weight", "classifier.bias"]
    name = "encoder.layer.1.output.dense.weight"
    assert assigned[table.prefix + name] is found[name]


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.architecture)
def test_headed_into_base(table: NameTable) -> None:
    found = filled(inside(table, base()) | lm_head(table))
    for alias in tied(table):
        found[alias] = np.zeros(3, np.float32)  # not used here, so never compared
    assigned, report = match(base(), found, table=table)
    assert_all(assigned, report, base())
    assert set(report.unexpected) == {*lm_head(table), *tied(table)}


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.architecture)
def test_masked_lm_into_classifier(table: NameTable) -> None:
    found = filled(masked_lm(table))
    found[tied(table)[0]] = found[table.ties[0].target].copy()
    assigned, report = match(classifier(table), found, table=table)
    assert_all(assigned, report, inside(table, base(pooler=False)))
    assert table.prefix + "pooler.dense.weight" in report.new
    assert "classifier.bias" in report.new
    assert tied(table)[0] in report.unexpected


def test_pretraining_into_masked_lm() -> None:
    found = filled(inside(BERT, base()) | lm_head(BERT))
    found["cls.seq_relationship.weight"] = np.zeros((2, WIDTH), np.float32)
    assigned, report = match(masked_lm(BERT), found, table=BERT)
    assert_all(assigned, report, masked_lm(BERT))
    assert "cls.seq_relationship.weight" in report.unexpected
    assert "bert.pooler.dense.bias" in report.unexpected


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.architecture)
@pytest.mark.parametrize("headed", [False, True])
def test_evolving_convolutions_are_new(table: NameTable, headed: bool) -> None:
    shapes = base(evolving=True)
    if headed:
        shapes = inside(table, shapes)
    added = r".*evolving_conv\..*"  # the core names them: Model.additions()
    new = (*table.allowed_new, added)
    assigned, report = match(shapes, filled(base()), table=table, allowed_new=new)
    assert len(assigned) == len(base())
    conv = "encoder.layer.1.attention.self.evolving_conv."
    start = table.prefix if headed else ""
    assert report.new == [f"{start}{conv}weight", f"{start}{conv}bias"]


def test_an_evolving_checkpoint_is_not_quietly_made_vanilla() -> None:
    found = filled(base(evolving=True))
    with pytest.raises(CheckpointError, match=r"not used by this model.*evolving_conv"):
        match(base(), found, table=BERT)
    _, report = match(base(), found, table=BERT, strict=False)
    assert len(report.unexpected) == 2


# --- old names, buffers, ties --------------------------------------------------------


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.architecture)
def test_old_names_and_buffers(table: NameTable) -> None:
    found = filled(base())
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): array
        for name, array in found.items()
    }
    old["embeddings.position_ids"] = np.arange(8)[None]
    old[f"{table.prefix}embeddings.position_ids"] = np.arange(8)[None]
    assert old.keys() != found.keys()
    assigned, report = match(base(), old, table=table)
    assert_all(assigned, report, base())
    assert report.unexpected == []


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.architecture)
def test_ties_that_agree_are_one(table: NameTable) -> None:
    found = filled(masked_lm(table))
    for tie in table.ties:
        found[tie.alias] = found[tie.target].copy()
    assigned, report = match(masked_lm(table), found, table=table)
    assert_all(assigned, report, masked_lm(table))
    assert report.unexpected == []


@pytest.mark.parametrize("which", [0, 1], ids=["weight", "bias"])
@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.architecture)
def test_ties_that_differ_are_an_error(table: NameTable, which: int) -> None:
    found = filled(masked_lm(table))
    tie = table.ties[which]
    found[tie.alias] = found[tie.target] + 1
    with pytest.raises(CheckpointError, match="ties the two"):
        match(masked_lm(table), found, table=table)


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.architecture)
def test_a_tie_stands_for_a_missing_target(table: NameTable) -> None:
    found = filled(masked_lm(table))
    for tie in table.ties:
        found[tie.alias] = found.pop(tie.target)
    assigned, report = match(masked_lm(table), found, table=table)
    assert_all(assigned, report, masked_lm(table))
    assert assigned[table.ties[1].target] is found[table.ties[1].alias]


def test_two_tensors_for_one_parameter_are_an_error() -> None:
    found = filled(base())
    found["bert.pooler.dense.bias"] = found["pooler.dense.bias"] + 1
    with pytest.raises(CheckpointError, match=r"both .*pooler\.dense\.bias"):
        match(base(), found, table=BERT)


# --- what does not fit ---------------------------------------------------------------


@pytest.mark.parametrize("strict", [True, False])
def test_another_model_is_an_error(strict: bool) -> None:
    found = filled({f"transformer.h.{i}.weight": (4, 4) for i in range(30)})
    with pytest.raises(CheckpointError, match="another model") as caught:
        match(classifier(BERT), found, table=BERT, strict=strict, source="m.bin")
    assert "m.bin" in str(caught.value)
    assert "transformer.h.0.weight" in str(caught.value)
    with pytest.raises(CheckpointError, match="another model"):
        match(base(), {}, table=BERT, strict=strict)
    with pytest.raises(CheckpointError, match="another model"):
        match(inside(ROBERTA, base()), filled(classifier(BERT)), table=ROBERTA)


def test_a_few_names_in_common_are_not_enough() -> None:
    found = filled(base())
    few = {name: found[name] for name in list(found)[:8]}
    assert len(few) < len(base(pooler=False)) / 2
    with pytest.raises(CheckpointError, match="has 8 of the"):
        match(base(), few, table=BERT, strict=False)


@pytest.mark.parametrize("strict", [True, False])
def test_another_size_is_an_error(strict: bool) -> None:
    shapes = {name: tuple(2 * n for n in shape) for name, shape in base().items()}
    with pytest.raises(CheckpointError, match=r"another shape or type.*expected float"):
        match(shapes, filled(base()), table=BERT, strict=strict)


def test_whole_numbers_are_no_weights() -> None:
    found = filled(base())
    found["pooler.dense.bias"] = np.zeros_like(found["pooler.dense.bias"], np.int32)
    with pytest.raises(CheckpointError, match=r"or type: pooler\.dense\.bias \(int32"):
        match(base(), found, table=BERT)


def test_another_number_of_labels() -> None:
    found = filled(classifier(BERT, labels=2))
    with pytest.raises(CheckpointError, match="num_labels") as caught:
        match(classifier(BERT, labels=3), found, table=BERT)
    assert "classifier.weight" in str(caught.value)
    assigned, report = match(
        classifier(BERT, labels=3), found, table=BERT, strict=False
    )
    assert [item.name for item in report.mismatched] == [
        "classifier.weight",
        "classifier.bias",
    ]
    assert "classifier.weight" not in assigned


def test_a_missing_layer_is_an_error() -> None:
    found = filled(base())
    for name in layer(1):
        del found[name]
    with pytest.raises(CheckpointError, match=r"missing: encoder\.layer\.1"):
        match(base(), found, table=BERT)
    _, report = match(base(), found, table=BERT, strict=False)
    assert report.missing == list(layer(1))


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.architecture)
def test_a_missing_lm_head_is_new(table: NameTable) -> None:
    _, report = match(masked_lm(table), filled(base()), table=table)
    assert report.new == list(lm_head(table))
    assert not report.missing


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.architecture)
def test_a_part_of_a_head_is_no_head(table: NameTable) -> None:
    """Regression: what a damaged file lacked of a head was drawn at random."""
    for left in lm_head(table):
        found = filled(masked_lm(table))
        del found[left]
        with pytest.raises(CheckpointError, match=f"missing: {left}"):
            match(masked_lm(table), found, table=table)


def test_integers_are_no_weights() -> None:
    found = filled(base())
    found["pooler.dense.bias"] = np.zeros(WIDTH, np.int64)
    with pytest.raises(CheckpointError, match=r"pooler\.dense\.bias \(int64"):
        match(base(), found, table=BERT)


def test_what_is_allowed_can_be_chosen() -> None:
    with pytest.raises(CheckpointError, match="missing"):
        match(classifier(BERT), filled(base()), table=BERT, allowed_new=())
    found = filled(base() | {"extra.weight": (2,)})
    with pytest.raises(CheckpointError, match=r"not used.*extra\.weight"):
        match(base(), found, table=BERT)
    match(base(), found, table=BERT, allowed_unexpected=[r"extra\..+"])


# --- the report ----------------------------------------------------------------------


def test_the_report_reads_as_a_table() -> None:
    found = filled(inside(BERT, base()) | lm_head(BERT))
    _, report = match(classifier(BERT), found, table=BERT, source="m.bin")
    lines = repr(report).splitlines()
    assert lines[0] == f"m.bin: {len(base())} loaded, 2 new, 2 unexpected"
    assert len(lines) == 5
    assert any("classifier.bias" in line and "newly" in line for line in lines)
    found["<script>alert(1)</script>"] = np.zeros(1, np.float32)
    _, report = match(base(), found, table=BERT, strict=False)
    page = report._repr_html_()
    assert "<table>" in page
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_a_state_dict_initialises_nothing() -> None:
    model = tiny(attention="evolving")
    absent = ("evolving", "classifier")
    plain = {
        n: a for n, a in model.state_dict().items() if not any(map(n.count, absent))
    }
    with pytest.raises(CheckpointError, match="to keep the model's own values of what"):
        model.load_state_dict(plain)
    before = {name: array.copy() for name, array in model.state_dict().items()}
    plain = {name: array + 1 for name, array in plain.items()}
    report = model.load_state_dict(plain, strict=False)
    left = before.keys() - plain.keys()
    kept = {name for _, name, note in report.rows() if note == "keeps its value"}
    assert kept == {"classifier.weight", "classifier.bias"}
    assert left == kept | {*report.missing}
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, before[name] + (name not in left))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("source", ["state_dict", "named_parameters"])
def test_the_tensors_of_torch_are_loaded(dtype: str, source: str) -> None:
    torch = pytest.importorskip("torch")
    model = tiny(dtype="bfloat16")
    theirs = torch.nn.Module()
    for name, array in tiny(dtype="float32").state_dict().items():
        values = torch.tensor(array).to(getattr(torch, dtype))
        theirs.register_parameter(name.replace(".", "-"), torch.nn.Parameter(values))
    state = dict(getattr(theirs, source)())
    state = {name.replace("-", "."): value for name, value in state.items()}
    model.load_state_dict(state)
    for name, parameter in model.named_parameters():
        back = torch.from_dlpack(parameter)
        assert torch.equal(back, state[name].detach().bfloat16()), name


@pytest.mark.parametrize(
    ("value", "wide", "narrow"),
    [(-1e40, "float64", "float32"), (3.4e38, "float32", "bfloat16")],
)
def test_values_that_the_element_type_cannot_hold(
    value: float, wide: str, narrow: str, tmp_path: Path
) -> None:
    model = tiny(dtype=wide)
    state = {name: array.copy() for name, array in model.state_dict().items()}
    state["classifier.bias"][1] = value
    model.load_state_dict(state)
    model.save_pretrained(tmp_path)
    told = rf"classifier\.bias holds a number .* more than {narrow} holds, expected at"
    cls = type(model)
    assert cls.from_pretrained(tmp_path, dtype=wide).dtype == wide
    with pytest.raises(CheckpointError, match=rf"{tmp_path}: {told}"):
        cls.from_pretrained(tmp_path, dtype=narrow)
    other = tiny(dtype=narrow)
    before = other.state_dict()["classifier.bias"].copy()
    with pytest.raises(CheckpointError, match=told):
        other.load_state_dict(state)
    np.testing.assert_array_equal(other.state_dict()["classifier.bias"], before)
    with pytest.raises(ConfigError, match=told):
        model.to(narrow)
    assert model.dtype == wide


def test_the_largest_number_of_a_type_is_kept() -> None:
    model, largest = tiny(dtype="float32"), float(ml_dtypes.finfo("bfloat16").max)
    model.state_dict()["classifier.bias"][:] = [largest, -largest]
    kept = model.to("bfloat16").state_dict()["classifier.bias"].astype(np.float32)
    assert kept.tolist() == [largest, -largest]


def test_flags_are_not_named_as_sizes(tmp_path: Path) -> None:
    sizes = {"vocab_size": 9, "d_model": 16, "d_kv": 6, "d_ff": 8, "num_layers": 1}
    ea.T5Model(ea.T5Config(**sizes, num_heads=3)).save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "num_heads": 1}))
    with pytest.raises(CheckpointError, match=r"\(num_heads=1 in the config\)"):
        ea.T5Model.from_pretrained(tmp_path)


def test_rxnfp_matches_itself_and_its_base(rxnfp: Path) -> None:
    found = load_folder(rxnfp).tensors
    alias, target = BERT.ties[0].alias, BERT.ties[0].target
    shapes = {name: a.shape for name, a in found.items() if name != alias}
    assigned, report = match(shapes, found, table=BERT)
    assert_all(assigned, report, shapes)
    assert report.unexpected == report.new == []
    plain = {
        name.removeprefix("bert."): shape
        for name, shape in shapes.items()
        if name.startswith("bert.")
    }
    assigned, report = match(plain, found, table=BERT)
    assert_all(assigned, report, plain)
    np.testing.assert_array_equal(assigned[target.removeprefix("bert.")], found[alias])


# --- parity with transformers --------------------------------------------------------


@pytest.mark.parity
@pytest.mark.parametrize(
    "kind", ["Model", "ForSequenceClassification", "ForMaskedLM", "ForPreTraining"]
)
@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.architecture)
def test_folders_go_to_transformers_and_back(
    table: NameTable, kind: str, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers", reason="parity needs it")
    torch = pytest.importorskip("torch", reason="parity needs torch")
    family = "Bert" if table is BERT else "Roberta"
    if family == "Roberta" and kind == "ForPreTraining":
        kind = "ForCausalLM"  # the same names as its masked LM
    config = getattr(transformers, f"{family}Config")(
        vocab_size=30,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=20,
        is_decoder=kind == "ForCausalLM",
    )
    model = getattr(transformers, f"{family}{kind}")(config)
    model.save_pretrained(tmp_path / "theirs")
    found = load_folder(tmp_path / "theirs")
    assert found.model_type == table.architecture
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    assigned, report = match(shapes, found.tensors, table=table)
    assert_all(assigned, report, shapes)
    for name, value in model.named_parameters():
        np.testing.assert_array_equal(assigned[name], value.detach().numpy())

    (tmp_path / "ours").mkdir()
    save_safetensors(tmp_path / "ours", assigned)
    model.config.save_pretrained(tmp_path / "ours")
    again, info = type(model).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not info["unexpected_keys"]
    assert not info["missing_keys"]
    for name, value in again.named_parameters():
        assert torch.equal(value, dict(model.named_parameters())[name])
