"""``translate``: the settings of the paper's table, and two systems compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers_commands import runner
from helpers_translation import SIZES, sentences, write_files

import evolving_attention as ea
from evolving_attention.cli import translate
from evolving_attention.metrics.translation import paired_bootstrap


@pytest.fixture
def run(capfd: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command; returns (exit code, stdout, stderr)."""
    return runner(capfd, monkeypatch)


# Wang et al., ICML 2021, Table 10: accumulation, learning rate, dropout, α, β
TABLE_10 = {
    ("lite", "de-en"): (1, 1e-3, 0.2, 0.1, 0.1),
    ("lite", "en-de"): (16, 1e-3, 0.3, 0.1, 0.1),
    ("lite", "en-fr"): (16, 1e-3, 0.1, 0.1, 0.1),
    ("base", "de-en"): (1, 1e-3, 0.2, 0.5, 0.1),
    ("base", "en-de"): (16, 1e-3, 0.3, 0.5, 0.1),
    ("base", "en-fr"): (16, 1e-3, 0.1, 0.5, 0.1),
}


@pytest.mark.parametrize(("size", "direction"), TABLE_10)
def test_the_settings_of_the_paper(
    run: Any, tmp_path: Path, size: str, direction: str
) -> None:
    out, row = tmp_path / "out", TABLE_10[size, direction]
    source, target = write_files(tmp_path, "train", sentences(60))
    words = [
        *("--model", f"ea_transformer_{size}", "--model_options", json.dumps(SIZES)),
        *("--vocab_size", 290, "--max_steps", 1, "--paper_settings", direction),
        *("--output_dir", out, "--save_strategy", "steps", "--save_steps", 1),
    ]
    files = ["--source_file", source, "--target_file", target]
    code, _, told = run("translate", "train", *files, *words)
    assert code == 0, told
    args = json.loads((out / "checkpoint-1" / "training_args.json").read_text())
    config = json.loads((out / "config.json").read_text())
    found = (
        args["gradient_accumulation_steps"],
        args["learning_rate"],
        config["dropout"],
        config["attention"]["alpha"],
        config["attention"]["beta"],
    )
    assert found == row
    assert config["cross_attention"]["beta"] == row[4]


def test_given_options_take_precedence_over_the_papers() -> None:
    given = {"paper_settings": "En-De", "learning_rate": 5e-4, "model_options": SIZES}
    found = translate._with_paper_settings(given)
    assert found == {**given, "dropout": 0.3, "gradient_accumulation_steps": 16}
    plain = {**given, "dropout": 0.0, "model": "transformer_base"}
    assert translate._with_paper_settings(plain)["dropout"] == 0.0
    other = {**given, "model_options": '{"dropout": 0.4}'}
    assert "dropout" not in translate._with_paper_settings(other)
    for more, message in (
        ({"paper_settings": "de-fr"}, "de-fr: expected one of de-en, en-de, en-fr"),
        ({"model": "pa_transformer_lite"}, "pa_transformer_lite: expected ea_transfor"),
    ):
        with pytest.raises(ea.ConfigError, match=message):
            translate._settled({**given, **more})


def test_a_comparison_with_another_system(run: Any, tmp_path: Path):
    pytest.importorskip("sacrebleu", reason="no sacrebleu (extra seq2seq)")
    right = sentences(40).target
    worse = [line if i % 2 else f"{line} {line}" for i, line in enumerate(right)]
    for name, lines in (("right", right), ("worse", worse), ("few", worse[:9])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    words = ["translate", "score", "--json", "--target_file", tmp_path / "right"]
    words += ["--hypothesis_file", tmp_path / "right", "--baseline_file"]
    code, shown, told = run(*words, tmp_path / "worse")
    assert code == 0, told
    found = json.loads(shown)
    expected = paired_bootstrap(right, worse, right)
    for name, one in expected.items():
        assert found[f"baseline_{name}"] == one.baseline < found[name] == one.score
        assert found[f"{name}_p_value"] == one.p_value < 0.05
        assert "bs:1000" in found[f"{name}_signature"]
    code, shown, _ = run(*words, tmp_path / "right")
    assert (code, json.loads(shown)["bleu_p_value"]) == (0, 1.0)
    code, _, told = run(*words, tmp_path / "few")
    assert code == 3, told
    assert "few" in told
