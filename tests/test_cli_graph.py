"""``evolving-attention graph``: train, evaluate and predict, from files to files."""

from __future__ import annotations

import csv
import json
import os
import signal
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_commands import runner

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention.data.graph_files import load_npz
from evolving_attention.estimators import graph_fitting

NODES = 40
QUICK = ("--hidden_size", 8, "--num_heads", 2, "--n_epochs", 5)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def run(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs ``graph``; returns (exit code, stdout, stderr)."""
    return runner(capsys, monkeypatch, "graph")


def arrays() -> dict[str, Any]:
    """Returns a graph of two groups, its features as compressed rows, and a split."""
    rng = np.random.default_rng(0)
    y = np.arange(NODES) % 2
    pairs = rng.integers(0, NODES, (300, 2))
    columns = 2 * rng.integers(0, 3, 2 * NODES) + np.repeat(y, 2)
    return {
        "edges": pairs[y[pairs[:, 0]] == y[pairs[:, 1]]],
        "x_data": np.ones(2 * NODES, np.float32),
        "x_indices": columns,
        "x_indptr": np.arange(0, 2 * NODES + 1, 2),
        "x_shape": np.array([NODES, 6]),
        "y": y,
        "train_idx": np.arange(10),
        "val_idx": np.arange(10, 20),
        "test_mask": np.arange(NODES) >= 20,
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "graph.npz"
    np.savez(path, **arrays())
    return path


def test_train_evaluate_and_predict(run: Any, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("--data_file", file, "--undirected")
    code, shown, told = run(
        *("train", *words, *QUICK, "--num_layers", 3, "--attention", "evolving"),
        *("--output_dir", out, "--json"),
    )
    assert code == 0, told
    results = json.loads(shown)
    assert results["epochs"] == 5
    assert 0 <= results["test_accuracy"] <= 1
    config = ea.GATConfig.from_pretrained(out)
    assert config.attention == ea.attention.Evolving(0.1, 0.1, kernel_size=1)

    code, shown, told = run("evaluate", *words, "--model_dir", out, "--json")
    assert code == 0, told
    scores = json.loads(shown)
    assert scores["accuracy"] == results["test_accuracy"]
    assert (scores["top5"], scores["classes"]) == (1.0, ["0", "1"])
    matrix = np.array(scores["confusion"])
    assert matrix.sum(axis=1).tolist() == [10, 10]  # the test part's nodes by class
    assert matrix.trace() == 20 * scores["accuracy"]
    code, shown, told = run("evaluate", *words, "--model_dir", out)
    assert f"accuracy = {scores['accuracy']:.4f}\ntop5 = 1.0000\n" in shown
    wrong = {f"{a} taken for {1 - a}": matrix[a, 1 - a] for a in (0, 1)}
    assert all(f"{pair} = {n}\n" in shown for pair, n in wrong.items() if n)

    table = tmp_path / "new" / "classes.csv"
    code, shown, told = run(
        "predict", *words, "--model_dir", out, "--output_file", table
    )
    assert code == 0, told
    assert f"nodes = {NODES}" in shown
    rows = list(csv.DictReader(table.read_text().splitlines()))
    classifier = ea.GraphNodeClassifier.load(out)
    data = load_npz(file, undirected=True)
    odds = classifier.predict_proba(data.x, data.graph)
    assert [int(row["prediction"]) for row in rows] == odds.argmax(1).tolist()
    assert np.allclose([[float(row[c]) for c in "01"] for row in rows], odds, atol=1e-6)


def test_forms_of_files_are_alike(tmp_path: Path) -> None:
    from scipy import sparse

    given = arrays()
    compressed = [given.pop(f"x_{n}") for n in ("data", "indices", "indptr", "shape")]
    x = sparse.csr_array(tuple(compressed[:3]), shape=tuple(compressed[3]))
    np.savez(tmp_path / "a.npz", **arrays())
    np.savez(
        tmp_path / "b.npz",
        x=x.toarray(),
        edge_index=given["edges"].T,
        **{k: v for k, v in given.items() if k != "edges"},
    )
    first, second = (load_npz(tmp_path / f"{n}.npz") for n in "ab")
    assert np.allclose(first.x.toarray(), second.x)
    assert np.allclose(second.x.sum(1), 1)
    assert np.array_equal(first.graph.edge_index, second.graph.edge_index)
    both = load_npz(tmp_path / "a.npz", undirected=True).graph
    assert both is not None
    ea.Graph.of(both, symmetric=True)
    plain = load_npz(tmp_path / "b.npz", normalize=False)
    assert np.array_equal(plain.x, x.toarray())


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("value", "dtype"), [(100, np.float16), (-128, np.int8), (True, np.bool_)]
)
def test_features_of_small_types_are_normalized(
    tmp_path: Path, value: Any, dtype: Any, compressed: bool
) -> None:
    from scipy import sparse

    x, given = np.full((NODES, 1000), value, dtype), arrays()
    held = {"x": x}
    if compressed:
        rows = sparse.csr_array(x.astype(float))
        held = {"x_data": rows.data.astype(dtype), "x_indices": rows.indices}
        held |= {"x_indptr": rows.indptr, "x_shape": np.array(rows.shape)}
    np.savez(tmp_path / "a.npz", edges=given["edges"], **held)
    found = load_npz(tmp_path / "a.npz").x
    found = found.toarray() if compressed else found
    expected = np.full(x.shape, np.sign(int(value)) / 1000, np.float32)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("change", "words", "code", "message"),
    [
        ({"edges": np.array([[0, 99]])}, (), 3, "99: the node does not exist"),
        ({"edges": None}, (), 3, "expected edge_index"),
        ({"y": None}, (), 3, "has no array y"),
        (
            {"train_idx": None, "train_mask": np.arange(10)},
            (),
            3,
            "numbers of nodes belong into train_idx",
        ),
        (
            {"train_mask": np.arange(NODES) < 8},
            (),
            3,
            "graph.npz: train_idx and train_mask give the train nodes, expected one",
        ),
        (
            {"train_idx": np.arange(15), "test_mask": None},
            (),
            3,
            "graph.npz: the validation part and the train part share 5 node(s)",
        ),
        ({"y": np.arange(NODES) // 15}, (), 3, "y[30] = 2: a label unseen in training"),
        (
            {"train_idx": np.arange(8, 22), "val_idx": None},
            (),
            3,
            "graph.npz: the test part and the train part share 2 node(s), the first is "
            "20; expected none",
        ),
        (
            {"val_idx": np.arange(15, 21)},
            (),
            3,
            "the test part and the validation part share 1 node(s)",
        ),
        (
            {"train_idx": None, "val_idx": np.arange(20)},
            (),
            3,
            "all 40 nodes are in the test or validation part, expected some to learn",
        ),
        ({"x_data": None}, (), 3, "expected an array x"),
        ({"x": np.full((NODES, 6), "a")}, (), 3, "x: dtype <U1, expected real numbers"),
        ({"x_data": np.full(2 * NODES, "a")}, (), 3, "x: dtype <U1, expected"),
        ({"x_indices": np.full(2 * NODES, 6)}, (), 3, "x_data, x_indices, x_indptr"),
        ({"x_indices": np.full(2 * NODES, -1)}, (), 3, "x_data, x_indices, x_indptr"),
        ({}, ("--num_heads", 3), 2, "expected a multiple of num_attention_heads"),
        ({}, ("--attention", "evolving", "--kernel_size", 3), 2, "kernel of size 3"),
        ({}, ("--patience", "never"), 2, "never"),
    ],
)
def test_mistakes(
    run: Any, tmp_path: Path, change: Any, words: Any, code: int, message: str
) -> None:
    given = {k: v for k, v in {**arrays(), **change}.items() if v is not None}
    np.savez(tmp_path / "graph.npz", **given)
    found, _, told = run(
        *("train", "--data_file", tmp_path / "graph.npz", *QUICK, *words),
        *("--output_dir", tmp_path / "out"),
    )
    assert found == code
    assert message in told


@pytest.mark.parametrize("validation", [np.arange(10, 20), None])
def test_without_train_nodes_the_test_nodes_are_not_learnt(
    run: Any, tmp_path: Path, validation: Any
) -> None:
    given = {**arrays(), "val_idx": validation}
    given = {name: value for name, value in given.items() if value is not None}
    rest = given.pop("train_idx") if validation is not None else np.arange(20)
    told = []
    for name, more in (("without", {}), ("with", {"train_idx": rest})):
        file, out = tmp_path / f"{name}.npz", tmp_path / name
        np.savez(file, **{k: v for k, v in given.items() if k != "train_idx"}, **more)
        code, _, err = run("train", "--data_file", file, *QUICK, "--output_dir", out)
        assert code == 0, err
        told.append(json.loads((out / "estimator.json").read_text())["history"])
    assert told[0] == told[1]


def test_masks_of_old_files_are_booleans(tmp_path: Path) -> None:
    mask = (np.arange(NODES) < 10).astype(np.uint8)
    given = {k: v for k, v in arrays().items() if k != "train_idx"}
    np.savez(tmp_path / "old.npz", **given, train_mask=mask)
    found = load_npz(tmp_path / "old.npz").parts["train"]
    assert found.dtype == bool
    assert np.array_equal(found, mask == 1)


@pytest.mark.parametrize("name", ["val", "valid", "validation"])
def test_names_of_the_validation_part(tmp_path: Path, name: str) -> None:
    given = {f"{name}_idx" if k == "val_idx" else k: v for k, v in arrays().items()}
    np.savez(tmp_path / "graph.npz", **given)
    found = load_npz(tmp_path / "graph.npz").parts["validation"]
    assert np.array_equal(found, np.arange(10, 20))


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ([[0, 0, 1, 1], [1, 1, 0, 0]], [[0, 0, 1, 1], [1, 1, 0, 0]]),
        ([[0, 0], [1, 1]], [[0, 0, 1, 1], [1, 1, 0, 0]]),
        ([[0, 0, 1], [1, 1, 0]], [[0, 0, 1, 1], [1, 1, 0, 0]]),
        ([[2, 2, 0], [2, 2, 2]], [[2, 2, 0, 2], [2, 2, 2, 0]]),
        ([[2, 0, 1], [1, 1, 0]], [[2, 0, 1, 1], [1, 1, 0, 2]]),
        (np.zeros((2, 0), np.int64), np.zeros((2, 0), np.int64)),
    ],
    ids=["undirected", "parallel", "one back", "loops", "order", "none"],
)
def test_reverse_edges_are_added_one_by_one(
    tmp_path: Path, edges: Any, expected: Any
) -> None:
    np.savez(tmp_path / "graph.npz", x=np.eye(3), edge_index=edges)
    found = load_npz(tmp_path / "graph.npz", undirected=True).graph
    assert np.array_equal(found.edge_index, ea.Graph(*np.array(expected), 3).edge_index)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("form", ["dense", "compressed"])
def test_features_that_are_no_numbers_are_named(
    tmp_path: Path, value: float, form: str
) -> None:
    x = np.ones((NODES, 6))
    x[3, 2] = value
    given = {"x": x}
    if form == "compressed":
        rows = pytest.importorskip("scipy.sparse").csr_array(x)
        given = {"x_data": rows.data, "x_indices": rows.indices}
        given |= {"x_indptr": rows.indptr, "x_shape": np.array(x.shape)}
    np.savez(tmp_path / "graph.npz", edges=[[0, 1]], **given)
    with pytest.raises(ea.DataError, match=rf"graph\.npz: x\[3, 2\] is {value}, exp"):
        load_npz(tmp_path / "graph.npz")


def test_a_shape_that_is_no_number_is_a_data_error(file: Path) -> None:
    np.savez(file, **{**arrays(), "x_shape": np.array([NODES, np.inf])})
    with pytest.raises(ea.DataError, match=r"graph\.npz: x_data, .* infinity"):
        load_npz(file)


def test_errors_of_fitted_classifiers_name_the_file(
    run: Any, file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code, _, told = run("train", "--data_file", file, *QUICK, "--output_dir", out)
    assert code == 0, told
    words = ("--model_dir", out, "--data_file", tmp_path / "other.npz")
    for change, message in (
        ({"x_shape": np.array([NODES, 12])}, "features has 12 columns"),
        ({"y": np.full(NODES, 7)}, "y[20] = 7: a label unseen in training"),
    ):
        np.savez(tmp_path / "other.npz", **{**arrays(), **change})
        code, _, told = run("evaluate", *words)
        assert (code, message in told, "other.npz: " in told) == (3, True, True), told


def test_evaluate_and_predict_read_the_graph_as_train_did(
    run: Any, file: Path, tmp_path: Path
) -> None:
    out, table = tmp_path / "out", tmp_path / "classes.csv"
    words = ("--data_file", file, "--undirected", "--no_normalize")
    code, shown, told = run("train", *words, *QUICK, "--output_dir", out, "--json")
    assert code == 0, told
    model = ("--data_file", file, "--model", out)
    code, again, told = run("evaluate", *model, "--json")
    assert code == 0, told
    assert json.loads(again)["accuracy"] == json.loads(shown)["test_accuracy"]
    assert run("predict", *model, "--output_file", table)[0] == 0
    data = load_npz(file, undirected=True, normalize=False)
    odds = ea.GraphNodeClassifier.load(out).predict_proba(data.x, data.graph)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert np.allclose([[float(row[c]) for c in "01"] for row in rows], odds, atol=1e-6)
    for other, trained in (
        ("--no_undirected", "--undirected"),
        ("--normalize", "--no_normalize"),
    ):
        code, _, told = run("evaluate", *model, other)
        assert (code, f"was trained with {trained}" in told) == (2, True), told
    (out / "reading.json").unlink()  # earlier versions had none: options count as given
    code, again, told = run("evaluate", *model, *words[2:], "--json")
    assert code == 0, told
    assert json.loads(again)["accuracy"] == json.loads(shown)["test_accuracy"]


def test_missing_parts_and_files(run: Any, file: Path, tmp_path: Path) -> None:
    for words, code, message in (
        (("train", "--data_file", file), 2, "--output_dir is missing"),
        (("train", "--output_dir", tmp_path), 2, "--data_file is missing"),
        (
            ("train", "--data_file", tmp_path / "no.npz", "--output_dir", tmp_path),
            3,
            "no.npz",
        ),
        (("evaluate", "--data_file", file), 2, "--model_dir is missing"),
        (("evaluate", "--data_file", file, "--model", tmp_path), 4, "estimator.json"),
        (("predict", "--data_file", file, "--model", "a"), 2, "--output_file"),
    ):
        found, _, told = run(*words)
        assert found == code, told
        assert message in told


def test_the_earlier_name_of_the_model_dir(
    run: Any, file: Path, tmp_path: Path
) -> None:
    """--model still works, alone; the help text shows --model_dir."""
    words = ("evaluate", "--data_file", file, "--model", tmp_path)
    for more, code, message in (
        ((), 4, "estimator.json"),
        (("--model_dir", tmp_path), 4, "estimator.json"),
        (("--model_dir", "b"), 2, "expected no --model_dir with it"),
    ):
        found, _, told = run(*words, *more)
        assert (found, message in told) == (code, True), told
    for command in ("evaluate", "predict"):
        shown = run(command, "--help")[1].split()
        assert "--model_dir" in shown
        assert "--model" not in shown


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_the_output_is_not_the_graph(
    run: Any, file: Path, tmp_path: Path, link: Any
) -> None:
    out, data = tmp_path / "classes.csv", file.read_bytes()
    if link is None:
        out = file
    else:
        link(file, out)
    words = ("--data_file", file, "--model_dir", "x", "--output_file", out)
    code, _, told = run("predict", *words)
    expected = f"--output_file {out}: expected another file than --data_file"
    assert (code, expected in told) == (2, True), told
    assert file.read_bytes() == data


def test_another_run_in_the_same_folder(run: Any, file: Path, tmp_path: Path) -> None:
    """A finished classifier stays, unless the command or the user says otherwise."""
    out = tmp_path / "out"
    words = ["train", "--data_file", file, *QUICK, "--output_dir", out]
    assert run(*words, "--num_heads", 3)[0] == 2  # a mistake does not claim the folder
    assert run(*words)[0] == 0
    weights = (out / "model.safetensors").read_bytes()
    assert run(*words)[0] == 0
    assert (out / "model.safetensors").read_bytes() == weights
    code, _, told = run(*words, "--seed", 1, "--num_layers", 3)
    assert code == 2
    assert "runs with other options (--num_layers, seed), expected the same" in told
    assert "or add --overwrite_output_dir" in told
    np.savez(file, **{**arrays(), "train_idx": np.arange(8)})
    code, _, told = run(*words)
    assert (code, "(content of --data_file), expected the same" in told) == (2, True)
    assert (out / "model.safetensors").read_bytes() == weights
    more = ("--seed", 1, "--overwrite_output_dir")
    assert run(*words, *more)[0] == 0
    assert (out / "model.safetensors").read_bytes() != weights
    assert run(*words, *more[:2])[0] == 0
    (out / "settings.json").unlink()  # earlier versions had none
    code, _, told = run(*words, *more[:2])
    assert (code, "whose options are not recorded, expected" in told) == (2, True)
    code, _, told = run(*words, "--seeds", 1, 2)
    assert (code, "whose options are not recorded, expected" in told) == (2, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_saves_what_it_has(
    run: Any,
    file: Path,
    tmp_path: Path,
    monkeypatch: Any,
    recwarn: Any,
    number: signal.Signals,
) -> None:
    out, step, steps = tmp_path / "out", graph_fitting.step, []

    def interrupted(*given: Any) -> float:
        steps.append(step(*given))
        if len(steps) == 2:
            signal.raise_signal(number)
        return steps[-1]

    words = ("train", "--data_file", file, *QUICK, "--output_dir", out)
    out.mkdir()
    (out / "results.json").write_text("{}")  # of the model that is replaced
    with monkeypatch.context() as patch:
        patch.setattr(graph_fitting, "step", interrupted)
        code, _, told = run(*words, "--overwrite_output_dir")
    assert code == 128 + number
    assert not (out / "results.json").exists()
    assert f"{number.name} after 2 of 5 epochs: the best so far, epoch" in told
    assert [one for one in recwarn if "SIG" in str(one.message)] == []
    assert run("evaluate", "--data_file", file, "--model_dir", out)[0] == 0
    code, shown, told = run(*words, "--json")
    assert (code, json.loads(shown)["epochs"]) == (0, 5), told


@pytest.mark.parametrize(("terminal", "shown"), [(True, 2), (False, 0)])
def test_epochs_are_shown_on_a_terminal(
    run: Any, file: Path, tmp_path: Path, monkeypatch: Any, terminal: bool, shown: int
) -> None:
    words = ("train", "--data_file", file, *QUICK, "--n_epochs", 100, "--json")
    words += ("--patience", 100, "--output_dir", tmp_path / "out")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    code, out, told = run(*words)
    assert code == 0, told
    assert told.count("epoch ") == shown
    assert json.loads(out)["model"] == str(tmp_path / "out")


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"\x93NUMPY", b""])
def test_a_file_that_is_no_archive(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "graph.csv").write_bytes(content)
    with pytest.raises(ea.DataError, match=r"csv: is no \.npz file, expected a \.npz"):
        load_npz(tmp_path / "graph.csv")


def test_a_damaged_file(tmp_path: Path) -> None:
    file = tmp_path / "graph.npz"
    np.savez_compressed(file, edges=np.arange(2000).reshape(-1, 2) * 7 % 999)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF  # inside the compressed numbers: zlib.error
    file.write_bytes(data)
    with pytest.raises(ea.DataError, match=r"graph\.npz: cannot be read .*expected a"):
        load_npz(file)


def test_arrays_that_do_not_fit_are_refused_and_others_not_read(tmp_path: Path) -> None:
    file, given = tmp_path / "graph.npz", arrays()
    header = {"descr": "<f4", "fortran_order": False, "shape": (1 << 25,)}
    for name, fits in (("notes", True), ("y", False)):
        np.savez(file, **{n: a for n, a in given.items() if n != name})
        with (
            zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive,
            archive.open(f"{name}.npy", "w") as member,
        ):
            np.lib.format.write_array_header_1_0(member, header)
            for _ in range(8):
                member.write(bytes(1 << 24))
        before = _core.memory_limit()
        ea.set_memory_limit(ea.memory.current() + (1 << 26))
        try:
            if fits:
                assert load_npz(file).graph.num_nodes == NODES
                continue
            with pytest.raises(
                ea.DataError, match=r"y.* need 128\.\d MiB .*MiB .*that are left"
            ):
                load_npz(file)
        finally:
            ea.set_memory_limit(before)


def test_the_folder_of_several_seeds(run: Any, file: Path, tmp_path: Path) -> None:
    out, data = tmp_path / "out", ("--data_file", file)
    words = ("train", *data, *QUICK, "--output_dir", out)
    assert run(*words, "--seeds", 1, 2)[0] == 0
    code, _, told = run("evaluate", *data, "--model_dir", out)
    assert code == 4
    assert f"in it that have one: {out / 'seed-1'}, {out / 'seed-2'}" in told
