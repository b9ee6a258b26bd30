"""Public names: present, working, and cheap to import."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_watch import watching

import evolving_attention as ea

NAMES = """
AutoConfig AutoModel AutoModelForSequenceClassification AutoModelForMaskedLM
AutoModelForPreTraining AutoModelForQuestionAnswering
AutoModelForTokenClassification AutoModelForMultipleChoice
AutoModelForImageClassification AutoTokenizer BertConfig BertForMaskedLM BertModel
DataCollatorForMultipleChoice ViTConfig ViTForImageClassification
ViTModel metrics.confusion_matrix metrics.top_k
BertForPreTraining BertForSequenceClassification RobertaConfig RobertaModel
RobertaForMaskedLM RobertaForSequenceClassification Tensor from_dlpack no_grad
ResNetConfig ResNetModel ResNetForImageClassification
AAResNetConfig AAResNetModel AAResNetForImageClassification
TextNetConfig TextNetForSequenceClassification
CifarNetConfig CifarNetModel CifarNetForImageClassification
EADCTransformerConfig EADCTransformerModel EADCTransformerForClassification
EADCTransformerForRegression EADCTransformerForPretraining mask_spans
manual_seed set_num_threads get_num_threads set_memory_limit doctor pipeline
Trainer TrainingArguments EarlyStoppingCallback TrainerCallback EvalPrediction
optim.AdamW optim.RAdam optim.SGD optim.create
glue.load glue.metrics glue.TASKS squad.load squad.best_answers
pretraining.PretrainingDataset pretraining.DataCollatorForLanguageModeling
metrics.squad_scores metrics.squad_v2_scores metrics.entity_scores
attention.Vanilla attention.Evolving
attention.Residual attention.Predictive attention.CustomEvolve attention.register
functional.evolving_attention functional.linear functional.map_conv functional.conv1d
functional.weight_norm functional.batch_norm functional.conv2d functional.max_pool2d
functional.avg_pool2d functional.adaptive_avg_pool2d functional.adaptive_max_pool2d
callbacks.TensorBoard
Error ConfigError InputError ShapeError DTypeError DataError CheckpointError
ConfigFileError UnsafeCheckpointError BackendUnavailable MissingExtraError
KernelNotFound OutOfMemory NonFiniteError Interrupted
""".split()  # noqa: SIM905
SIZES = {
    "vocab_size": 40,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 36,
    "max_position_embeddings": 40,
}
IDS = np.array([[1, 2, 3], [4, 5, 6]])
MASK = np.array([[1, 1, 1], [1, 1, 0]])
ATTENTION = {
    "vanilla": ea.attention.Vanilla(),
    "evolving": ea.attention.Evolving(0.1, 0.2, kernel_size=3, conv_init="identity"),
    "residual": ea.attention.Residual(running_mean=True),
    "predictive": ea.attention.Predictive(alpha=0.1, num_layers=1),
}


def find(name: str) -> Any:
    value: Any = ea
    for part in name.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("name", NAMES)
def test_the_name_is_there(name: str) -> None:
    assert find(name) is not None
    assert name.split(".")[0] in dir(ea)


def test_everything_listed_is_there() -> None:
    for name in ea.__all__:
        try:
            assert find(name) is not None, name
        except ea.MissingExtraError as error:  # base install, without extras
            library = str(error).split()[0]
            assert importlib.util.find_spec(library) is None, name
    with pytest.raises(AttributeError, match="no attribute 'nothing_of_the_kind'"):
        find("nothing_of_the_kind")


# --- the names work -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ATTENTION)
@pytest.mark.parametrize("family", ["Bert", "Roberta"])
def test_a_classifier_from_config_to_step(family: str, kind: str) -> None:
    config = getattr(ea, f"{family}Config")(
        **SIZES, num_labels=2, attention=ATTENTION[kind]
    )
    model = getattr(ea, f"{family}ForSequenceClassification")(config, dtype="float32")
    optimizer = ea.optim.AdamW(model.parameters(), lr=1e-3)
    ea.manual_seed(1)
    before = {name: value.copy() for name, value in model.state_dict().items()}
    out = model.train()(IDS, attention_mask=MASK, labels=[0, 1])
    out.loss.backward()
    optimizer.step()
    assert out.logits.shape == (2, 2)
    assert {name for name, _ in model.named_parameters()} == set(before)
    moved = [n for n, v in model.state_dict().items() if (v != before[n]).any()]
    assert "classifier.weight" in moved or "classifier.out_proj.weight" in moved
    model.load_state_dict(before)
    assert not model.eval().training


def test_what_can_be_asked_for() -> None:
    attention = ATTENTION["evolving"]
    model = ea.BertModel(ea.BertConfig(**SIZES, attention=attention)).eval()
    out = model(
        IDS,
        MASK,
        output_hidden_states=True,
        output_attentions=[1],
        output_attention_logits=True,
    )
    assert out.last_hidden_state.shape == (2, 3, 24)
    assert out.pooler_output.shape == (2, 24)
    assert [x is not None for x in out.hidden_states] == [True, True, True]
    assert [x is not None for x in out.attentions] == [False, True]
    assert out.attentions[-1] is out.attentions[1]
    assert [x is not None for x in out.attention_logits] == [True, True]
    maps = np.asarray(out.attentions[1])
    assert maps.shape == (2, 3, 3, 3)
    assert not maps[1, :, :, 2].any()
    assert not maps[1, :, 2].any()


INPUTS = {
    "arrays": np.asarray,
    "lists": lambda array: array.tolist(),
    "tensors": ea.Tensor,
    "int32": lambda array: array.astype(np.int32),
}


@pytest.mark.parametrize("form", INPUTS)
def test_inputs_of_every_form(form: str) -> None:
    ea.manual_seed(3)
    model = ea.BertModel(ea.BertConfig(**SIZES)).eval()
    wanted = np.asarray(model(IDS, MASK).last_hidden_state)
    convert = INPUTS[form]
    found = np.asarray(model(convert(IDS), convert(MASK)).last_hidden_state)
    np.testing.assert_array_equal(found, wanted)


def test_inputs_from_torch() -> None:
    torch = pytest.importorskip("torch")
    model = ea.BertModel(ea.BertConfig(**SIZES)).eval()
    found = model(torch.from_numpy(IDS)).last_hidden_state
    np.testing.assert_array_equal(found, model(IDS).last_hidden_state)
    x = torch.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(
        ea.functional.relu(x - 2).numpy(), torch.relu(x - 2).numpy()
    )


@pytest.mark.parametrize("form", [np.asarray, list, ea.Tensor])
def test_functions_take_arrays(form: Any) -> None:
    x = form(np.array([-1.0, 2.0], np.float32))
    assert np.asarray(ea.functional.relu(x)).tolist() == [0.0, 2.0]
    assert np.asarray(ea.functional.add(x, [1.0, 1.0])).tolist() == [0.0, 3.0]
    assert np.asarray(ea.functional.concat([x, x], 0)).shape == (4,)
    leaf = ea.Tensor([1.0, 2.0], requires_grad=True)
    (leaf * 2).backward(x)
    assert np.asarray(leaf.grad).tolist() == [-2.0, 4.0]
    leaf.grad = x
    assert np.asarray(leaf.grad).tolist() == [-1.0, 2.0]


def test_functions_keep_their_names() -> None:
    for name in ea.functional.__all__:
        assert getattr(ea.functional, name).__name__ == name


def test_doctor_is_a_function_even_after_its_module() -> None:
    import evolving_attention.diagnosis  # noqa: F401

    report = ea.doctor(run_self_test=False)
    # Not report["ok"]: other tests may have loaded torch's OpenMP too.
    checks = {check["name"]: check["ok"] for check in report["checks"]}
    assert checks["the compiled core loads"]
    assert report["core"]["num_threads"] == ea.get_num_threads()


def test_the_errors_are_what_callers_expect() -> None:
    bases = {
        ea.ConfigError: ValueError,
        ea.InputError: ValueError,
        ea.ShapeError: ea.InputError,
        ea.DTypeError: TypeError,
        ea.DataError: ea.InputError,
        ea.CheckpointError: OSError,
        ea.ConfigFileError: ea.ConfigError,
        ea.UnsafeCheckpointError: ea.CheckpointError,
        ea.BackendUnavailable: ImportError,
        ea.MissingExtraError: ImportError,
        ea.KernelNotFound: LookupError,
        ea.OutOfMemory: MemoryError,
        ea.NonFiniteError: ArithmeticError,
        ea.Interrupted: KeyboardInterrupt,
    }
    for error, base in bases.items():
        assert issubclass(error, base)
        assert issubclass(error, ea.Error)


# --- cost and dependencies of the import ----------------------------------------------


def python(code: str, **variables: str) -> str:
    """Returns the output of a fresh interpreter that imports the package under test."""
    paths = [str(Path(ea.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


COST = """
import json, resource, sys, time
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
seconds, cpu = time.perf_counter(), time.process_time()
import evolving_attention as ea
seconds, cpu = time.perf_counter() - seconds, time.process_time() - cpu
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([cpu, (after - before) / 1024, sorted(sys.modules)]))
"""
HEAVY = """torch transformers sklearn scipy matplotlib tokenizers typer rich safetensors
huggingface_hub datasets IPython aeon numba pandas""".split()  # noqa: SIM905


def test_import_is_cheap() -> None:
    # CPU time, minimum of three runs: other load on the machine does not count.
    runs = [json.loads(python(COST)) for _ in range(3)]
    assert min(cpu for cpu, _, _ in runs) <= 0.35
    assert min(mebibytes for _, mebibytes, _ in runs) <= 60
    assert not set(HEAVY) & set(runs[0][2])


def test_the_core_is_cheap_too() -> None:
    code = COST.replace(
        "import evolving_attention as ea",
        "import evolving_attention as ea; ea.Tensor, ea.BertConfig",
    )
    runs = [json.loads(python(code)) for _ in range(3)]
    assert min(cpu for cpu, _, _ in runs) <= 0.35
    assert min(mebibytes for _, mebibytes, _ in runs) <= 60


WATCH = """
import sys
sys.path.insert(0, TESTS)
from audit_watch import WATCHED, writes
CODE = {"exec", "compile", "import", "code.__new__", "function.__new__",
        "marshal.loads", "ctypes.dlopen"}
seen = []
def hook(event, arguments):
    if event in set(WATCHED) - CODE or writes(event, arguments) or (
        event.split(".")[0] in ("socket", "subprocess", "shutil")
    ):
        seen.append((event, str(arguments)))
JOBLIB = ("GraphNodeClassifier", "ImageClassifier", "TimeSeriesClassifier",
          "TimeSeriesRegressor")
import numpy  # sets variables of OpenBLAS and removes them
sys.addaudithook(hook)
import evolving_attention as ea
for name in ea.__all__:
    if name not in JOBLIB:  # those import scikit-learn's joblib, which tries a file
        getattr(ea, name)
print(seen)
"""


def test_import_touches_nothing() -> None:
    pytest.importorskip("matplotlib")  # without it ea.plots cannot be imported
    code = WATCH.replace("TESTS", repr(str(Path(__file__).parent)))
    assert python(code, PYTHONDONTWRITEBYTECODE="1").strip() == "[]"


def test_the_watchers_see_every_way_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    ways: list[Callable[[], Any]] = [
        lambda: file.write_text("x"),
        lambda: os.close(os.open(file, os.O_WRONLY | os.O_CREAT)),
        lambda: os.close(os.open(file, os.O_RDWR)),
        lambda: os.truncate(file, 0),
        lambda: file.rename(tmp_path / "other"),
        lambda: (tmp_path / "folder").mkdir(),
        lambda: monkeypatch.setenv("EA_WATCHED", "1"),
    ]
    for way in ways:
        with watching() as events:
            way()
        assert events
    with watching() as events:
        (tmp_path / "other").read_text()
        os.close(os.open(tmp_path / "other", os.O_RDONLY | os.O_NOFOLLOW))
    assert not events


STEP = """
import numpy as np
config = ea.BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1,
    num_attention_heads=2, intermediate_size=8, max_position_embeddings=8)
model = ea.BertForSequenceClassification(config)
model([[1, 2, 3]], labels=[1]).loss.backward()
"""
COMPANY = {
    "torch": "import torch; (torch.ones(64, 64) @ torch.ones(64, 64)).sum().item()",
    "sklearn": "from sklearn.cluster import KMeans; KMeans(2, n_init=1).fit("
    "__import__('numpy').random.rand(300, 2))",
}


@pytest.mark.parametrize("first", [True, False], ids=["we first", "we last"])
@pytest.mark.parametrize("other", COMPANY)
def test_import_order(other: str, first: bool) -> None:
    if importlib.util.find_spec(other) is None:
        pytest.skip(f"no {other}")
    ours = "import evolving_attention as ea\nea.Tensor\n"
    theirs = f"{COMPANY[other]}\n"
    code = (ours + theirs if first else theirs + ours) + STEP + theirs + STEP
    assert python(code + "print('fine')").strip() == "fine"


def test_the_stubs_do_not_hide_the_extension() -> None:
    from evolving_attention import _core

    assert Path(str(_core.__file__)).suffix == ".so"
    assert _core.__spec__ is not None
    assert _core.__spec__.submodule_search_locations is None
