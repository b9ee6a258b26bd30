"""The Python in the documentation runs, top to bottom, and does what it says."""

from __future__ import annotations

import re
import sys
import types

import numpy as np
import pytest
from reference.evolving import conv_map

import evolving_attention as ea


def python_blocks(text: str) -> list[str]:
    """Returns the contents of the fenced python blocks of a markdown text."""
    return re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M)


def run_page(repo, page, blocks=None):
    """Runs the blocks of a page (the first so many), and returns the names they set."""
    text = (repo / "docs" / page).read_text(encoding="utf-8")
    names: dict = {}
    for block in python_blocks(text)[:blocks]:
        exec(compile(block, page, "exec", dont_inherit=True), names)
    return names


def test_every_page_with_code_is_run(repo):
    own = (repo / "tests" / "test_docs.py").read_text(encoding="utf-8")
    run = set(re.findall(r'run_page\(repo, "(\w+\.md)"', own))
    run |= {"attention.md", "glue.md"}  # own_kind; it needs GLUE and a trained model
    texts = {
        p.name: p.read_text(encoding="utf-8") for p in (repo / "docs").glob("*.md")
    }
    assert run == {name for name, text in texts.items() if python_blocks(text)}


@pytest.fixture(scope="module")
def own_kind(repo):
    """The names that the code of docs/attention.md defines when it runs."""
    blocks = python_blocks((repo / "docs" / "attention.md").read_text(encoding="utf-8"))
    assert len(blocks) == 6
    module = types.ModuleType("docs_attention")
    sys.modules[module.__name__] = module  # dataclasses look up their module
    code = compile("\n".join(blocks), "docs/attention.md", "exec", dont_inherit=True)
    exec(code, module.__dict__)
    return module.__dict__


def test_the_time_series_model_runs(repo):
    names = run_page(repo, "timeseries.md")
    assert names["out"].logits.shape == (8, 2)
    assert names["out"].attentions[3].shape == (8, 4, 20, 20)
    assert names["loss"].item() < 0.6
    assert 0 < names["masked"].mean() < 0.5


def test_the_heads_run(repo):
    names = run_page(repo, "question_answering.md")
    assert names["out"].start_logits.shape == names["out"].end_logits.shape == (4, 9)
    assert names["tagged"].logits.shape == (4, 9, 2)
    assert names["chosen"].logits.shape == (2, 2)
    for output in (names["out"], names["tagged"], names["chosen"]):
        assert 0 < output.loss.item() < 9
    assert names["found"]["exact"] == 50.0
    assert names["found"]["HasAns_f1"] == pytest.approx(200 / 3)


def test_the_graph_model_runs(repo):
    names = run_page(repo, "graphs.md")
    assert names["accuracy"] > 0.7
    edges = names["graph"].with_self_loops().num_edges
    assert [one.shape for one in names["maps"]] == [(edges, 2), (edges, 2), (edges, 1)]
    assert names["output"].attentions[0].shape == (edges, 8)


def test_the_encoder_decoder_runs(repo):
    names = run_page(repo, "translation.md")
    assert names["out"].logits.shape == (8, 7, 40)
    assert names["out"].cross_attentions[5].shape == (8, 4, 7, 6)
    assert names["loss"].item() < 2
    assert names["config"].cross_attention.shift == "query"
    assert names["found"].shape[0] == 8
    assert (names["found"][:, 0] == 1).all()
    assert names["best"].sequences_scores.shape == (3,)
    assert len(names["lines"]) == 2
    assert names["lines"][1] == ""
    assert names["score"].tokens == sum(len(row["labels"]) for row in names["rows"])


def test_images_run(repo):
    pytest.importorskip("sklearn", reason="needs scikit-learn (extra: image)")
    names = run_page(repo, "images.md")
    assert names["loss"].item() < 0.3
    assert names["out"].attentions[2].shape == (16, 4, 17, 17)
    assert names["larger"].config.grid == (8, 8)
    assert names["found"]["top1"] == 1.0
    assert names["found"]["pictures"] == 16


def test_text_nets_run(repo):
    names = run_page(repo, "text_nets.md", blocks=1)
    assert names["loss"].item() < 0.6
    assert names["right"] > 0.8
    assert names["out"].attentions[2].shape == (64, 4, 12, 12)
    held = dict(names["model"].named_parameters())
    words = held["text_net.embeddings.word_embeddings.weight"]
    assert np.array_equal(words, names["vectors"])


def test_t5_runs(repo):
    names = run_page(repo, "t5.md")
    assert names["loss"].item() < 1.5
    assert (names["found"][:, 0] == 0).all()
    assert len(names["data"]) == 4
    assert names["config"].cross_attention.shift == "query"


def test_the_residual_network_runs(repo):
    names = run_page(repo, "resnet.md")
    assert names["loss"].item() < 0.3
    assert [m.shape for m in names["out"].attentions] == [(8, 8, 16, 16)] * 2
    assert [s.shape[2] for s in names["out"].hidden_states] == [16, 16, 8, 4]


def test_the_time_series_estimators_run(repo):
    pytest.importorskip("aeon", reason="no aeon (extra timeseries)")
    names = run_page(repo, "timeseries_results.md")
    assert names["odds"].shape == (150, 2)
    assert np.allclose(names["odds"].sum(axis=1), 1)


def test_a_kind_of_your_own_trains(own_kind):
    first = own_kind["ea"].BertForSequenceClassification(own_kind["config"])
    ids, labels = own_kind["ids"], own_kind["labels"]
    untrained = float(np.asarray(first.eval()(input_ids=ids, labels=labels).loss))
    assert float(np.asarray(own_kind["loss"])) < 0.5 * untrained


def test_a_kind_of_your_own_follows_its_formula(own_kind):
    ea, kind = own_kind["ea"], own_kind["Change"](gamma=0.3)
    rng = np.random.default_rng(0)
    maps = rng.normal(size=(2, 2, 5, 5))  # previous, scores: two heads, five tokens
    values = kind.parameters(1, 2)
    context = ea.attention.StepContext(
        layer=1,
        num_layers=2,
        num_heads=2,
        packing=ea.functional.Packing(2, [0, 5]),
        parameters={k: ea.Tensor(v, dtype="float64") for k, v in values.items()},
        training=False,
    )
    previous, scores = (ea.Tensor(m.ravel(), dtype="float64") for m in maps)
    found = np.asarray(kind.step(scores, previous, context)).reshape(2, 5, 5)
    change = conv_map(maps[1] - maps[0], values["weight"], values["bias"])
    assert np.allclose(found, maps[1] + 0.3 * np.tanh(change), atol=1e-12)
    assert kind.step(scores, None, context) is scores


def test_a_kind_of_your_own_is_saved_and_loaded(own_kind, tmp_path):
    ea, model = own_kind["ea"], own_kind["model"]
    model.save_pretrained(tmp_path)
    again = ea.BertForSequenceClassification.from_pretrained(str(tmp_path)).eval()
    assert again.config.attention == own_kind["Change"](gamma=0.2)
    ids = own_kind["ids"]
    with ea.no_grad():
        expected = np.asarray(model.eval()(input_ids=ids).logits)
        assert np.array_equal(np.asarray(again(input_ids=ids).logits), expected)


def test_pretraining_runs(repo):
    names = run_page(repo, "pretraining.md")
    assert 0 <= names["found"]["eval_masked_accuracy"] <= 1
    assert names["found"]["eval_loss"] < 3.5


def test_the_search_runs(repo):
    pytest.importorskip("optuna", reason="no optuna (extra sweep)")
    names = run_page(repo, "search.md")
    assert names["best"].run_id in {"0", "1", "2"}
    assert 1e-4 <= names["best"].hyperparameters["learning_rate"] <= 1e-2


def test_the_table_of_spaces_is_that_of_the_command(repo):
    from evolving_attention.cli.search_spaces import SPACES, size_of

    text = (repo / "docs" / "search.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| `([\w ]+)` \|.*\| ([\d,]+) \|$", text, re.M)
    assert {(name, command, int(n.replace(",", ""))) for name, command, n in rows} == {
        (name, one.command, size_of(one.space())) for name, one in SPACES.items()
    }


def test_the_readme_stays_short(repo):
    text = (repo / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 110
    table = text.partition("<!-- benchmarks:begin -->")[2].partition("<!-- ")[0]
    rows = re.findall(r"^\| (?!ours|\|).*\d", table, re.M)
    assert 1 <= len(rows) <= 6


def test_every_command_that_trains_is_said_to_take_seeds(repo):
    from evolving_attention.cli.trainings import COMMANDS

    text = (repo / "docs" / "search.md").read_text(encoding="utf-8")
    said = re.search(r"\n\n(`glue`,[^.]*) have\s+it\.", text)
    assert said is not None
    assert set(re.findall(r"`([\w ]+)`", said[1])) == set(COMMANDS)


def test_the_kinds_of_the_page_are_exported(repo):
    text = (repo / "docs" / "attention.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\|[ \w]*\| `(\w+)\(", text, re.M))
    assert {"Dot", "Window", "RelativePositions2d"} <= named
    assert named <= set(ea.attention.__all__)


def test_messages_name_chapters_that_exist(repo):
    named = set()
    for kind in ("*.py", "*.cpp", "*.h"):
        for file in (repo / "src").rglob(kind):
            text = re.sub(r'"\s*\n\s*f?"', "", file.read_text(encoding="utf-8"))
            assert "chapter of" not in text, file
            named |= set(re.findall(r"\((docs/\w+\.md)(?:, ([\w ]+))?\)", text))
    assert ("docs/architecture.md", "CUDA") in named
    for page, chapter in named:
        text = (repo / page).read_text(encoding="utf-8")
        assert not chapter or re.search(rf"^#+ {chapter}$|^\*\*{chapter}\.", text, re.M)


def test_pages_name_only_what_exists(repo):
    """Benchmarks, links and source files; ``x`` in CONTRIBUTING.md is a placeholder."""
    if not (repo / "notebooks").is_dir():
        pytest.skip("needs notebooks, which the sdist leaves out")
    roots = (repo, repo / "src" / "cpp", repo / "src" / "evolving_attention")
    rooms = "docs|tests|tools|benchmarks|src|kernels|ops|nn|models|runtime|training"
    path = re.compile(rf"(?:{rooms})/[\w/-]*?(?!\bx\b)\w+\.(?:md|py|sh|cpp|h|cu|cuh)\b")
    missing = []
    for folder, pattern in (("", "*.md"), ("docs", "*.md"), ("notebooks", "*.ipynb")):
        for page in (repo / folder).glob(pattern):
            text = page.read_text(encoding="utf-8")
            named = {
                f"benchmarks/{module}.py"
                for module in re.findall(r"python -m benchmarks\.(\w+)", text)
            } | set(path.findall(text))
            missing += [
                f"{page.name}: {name}"
                for name in named
                if not any((root / name).exists() for root in roots)
            ]
            missing += [
                f"{page.name}: {link}"
                for link in re.findall(r"\]\(([^)#:]+)[^):]*\)", text)
                if page.suffix == ".md" and not (page.parent / link).exists()
            ]
    assert missing == []
