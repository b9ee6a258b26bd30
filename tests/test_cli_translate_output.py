"""``translate generate`` keeps existing files until it can replace them."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from helpers_commands import runner
from helpers_translation import model, sentences, tokenizer, write_files

import evolving_attention as ea
from evolving_attention.cli import translate_generate


@pytest.fixture
def run(capfd: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command; returns (exit code, stdout, stderr)."""
    return runner(capfd, monkeypatch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an untrained model."""
    root, words = tmp_path_factory.mktemp("untrained"), tokenizer()
    model(len(words)).save_pretrained(root)
    words.save_pretrained(root)
    return root


@pytest.fixture
def words(folder: Path, tmp_path: Path) -> list[Any]:
    """A command that translates the nine lines of in.en."""
    write_files(tmp_path, "in", sentences(9))
    short = ["--beam", 2, "--max_new_tokens", 4]
    where = ["--model_dir", folder, "--input_file", tmp_path / "in.en"]
    return ["translate", "generate", *where, *short]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--beam", 0], "num_beams = 0, expected 1 to 279"),
        (["--top_k", 5], "--top_k 5 has no effect alone"),
        (["--num_return_sequences", 3], "expected 1 to 2"),
        (["--batch_size", 0], "--batch_size 0, expected a whole number, 1"),
    ],
)
def test_a_wrong_option_leaves_the_output(
    run: Any, words: list[Any], tmp_path: Path, wrong: list[Any], message: str
):
    out = tmp_path / "out.de"
    code, _, told = run(*words, "--output_file", out, *wrong)
    assert (code, message in told) == (2, True), told
    assert not out.exists()
    out.write_text("old\n")
    code, _, told = run(*words, "--output_file", out, "--overwrite", *wrong)
    assert (code, message in told) == (2, True), told
    assert out.read_text() == "old\n"
    assert run(*words, "--output_file", out, "--overwrite")[0] == 0
    assert len(out.read_text().splitlines()) == 9
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        *("in.de", "in.en", "out.de"),
    ]


def test_an_option_is_checked_before_stdin_is_read(
    run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    class Terminal:
        @property
        def buffer(self) -> Any:
            def lines() -> Any:
                raise AssertionError("stdin is read")
                yield b""

            return lines()

    monkeypatch.setattr("sys.stdin", Terminal())
    code, _, told = run("translate", "generate", "--model_dir", folder, "--beam", 0)
    assert (code, "num_beams = 0" in told) == (2, True), told


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
@pytest.mark.parametrize("flag", ["--overwrite", "--resume"])
def test_the_output_is_not_the_input(
    run: Any, words: list[Any], tmp_path: Path, link: Any, flag: str
):
    source = out = tmp_path / "in.en"
    text = source.read_bytes()
    if link is not None:
        out = tmp_path / "out.de"
        link(source, out)
    code, _, told = run(*words, "--output_file", out, flag)
    expected = f"--output_file {out}: expected another file than --input_file"
    assert (code, expected in told) == (2, True), told
    assert source.read_bytes() == text
    more = ["--prefix_file", tmp_path / "in.de", "--output_file", tmp_path / "in.de"]
    code, _, told = run(*words, *more, flag)
    assert (code, "expected another file than --prefix_file" in told) == (2, True)


@pytest.mark.parametrize("place", ["none/out.de", "folder", "in.en/out.de"])
def test_an_output_that_cannot_be_written(
    run: Any, words: list[Any], tmp_path: Path, place: str
):
    (tmp_path / "folder").mkdir()
    code, _, told = run(*words, "--output_file", tmp_path / place)
    assert (code, "cannot be written, expected a file in a" in told) == (2, True), told


def test_an_empty_input_gives_an_empty_output(run: Any, folder: Path, tmp_path: Path):
    out = tmp_path / "out"
    read, written = os.pipe()
    os.close(written)
    with open(read) as empty, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", empty)
        words = ["--model_dir", folder, "--output_file", out]
        code, _, told = run("translate", "generate", *words)
    assert code == 0, told
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
    assert out.read_bytes() == b""


def interrupt(patch: pytest.MonkeyPatch, at: int) -> None:
    """Raises SIGINT before chunk ``at``, each of two lines."""
    work, calls = ea.Translator.translate, []

    def interrupted(self: Any, texts: Any, **options: Any) -> Any:
        calls.append(len(texts))
        if len(calls) == at:
            signal.raise_signal(signal.SIGINT)
        return work(self, texts, **options)

    patch.setattr(ea.Translator, "translate", interrupted)
    patch.setattr(translate_generate, "CHUNK", 2)


def test_a_full_disk_names_the_output_and_the_way_on(
    run: Any, words: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Full(io.FileIO):
        def write(self, data: Any, /) -> int:
            if self.tell():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data)

    def opened(path: Path, *mode: Any, real: Any = Path.open, **options: Any) -> Any:
        if path != tmp_path / "out":
            return real(path, *mode, **options)
        return io.BufferedWriter(Full(path, "w"))

    words += ["--output_file", tmp_path / "out"]
    with monkeypatch.context() as patch:
        patch.setattr(translate_generate, "CHUNK", 2)
        patch.setattr(Path, "open", opened)
        code, _, told = run(*words)
    assert code == 4
    assert f"cannot write {tmp_path / 'out'}: [Errno 28] No space" in told
    assert "--resume continues after them. To go on, free disk space" in told
    assert len((tmp_path / "out").read_bytes().splitlines()) == 2
    assert run(*words, "--resume")[0] == 0
    assert len((tmp_path / "out").read_bytes().splitlines()) == 9


def test_a_first_part_goes_on_with_its_own_options_alone(
    run: Any, words: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert run(*words, "--output_file", whole)[0] == 0
    words += ["--output_file", out]
    with monkeypatch.context() as patch:
        interrupt(patch, 3)
        assert run(*words)[0] == 130
    part, record = out.read_bytes(), tmp_path / "out.resume.json"
    assert part == b"".join(whole.read_bytes().splitlines(keepends=True)[:4])
    for more, told_of in (
        (["--num_return_sequences", 2], "--num_return_sequences 1"),
        (["--scores"], "--scores False"),
        (["--max_new_tokens", 5], "--max_new_tokens 4"),
    ):
        code, _, told = run(*words, *more, "--resume")
        expected = f"{out} was begun with {told_of}, expected the same options"
        assert (code, expected in told) == (2, True), told
        assert out.read_bytes() == part
    out.write_bytes(part + b"half a li")  # as a kill leaves it
    code, _, told = run(*words, "--resume", "--batch_size", 3)
    assert code == 0, told
    assert out.read_bytes() == whole.read_bytes()
    assert not record.exists()
    assert run(*words, "--resume")[0] == 0  # complete: there is nothing to do
    assert out.read_bytes() == whole.read_bytes()
    code, _, told = run(*words, "--num_return_sequences", 2, "--resume")
    assert (code, "has no out.resume.json next to it" in told) == (2, True), told
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("option", ["input_file", "prefix_file", "model_dir"])
def test_other_content_does_not_resume(
    run: Any,
    words: list[Any],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
):
    home, out = tmp_path / "model", tmp_path / "out"
    shutil.copytree(folder, home)
    words[words.index(folder)] = home
    words += ["--prefix_file", tmp_path / "in.de", "--output_file", out]
    with monkeypatch.context() as patch:
        interrupt(patch, 3)
        assert run(*words)[0] == 130
    part, record = out.read_bytes(), tmp_path / "out.resume.json"
    (home / "eval_results.json").write_text("{}")  # decides no translation
    file = {"input_file": tmp_path / "in.en", "prefix_file": tmp_path / "in.de"}.get(
        option, home / "model.safetensors"
    )
    before = file.read_bytes()
    if option == "model_dir":
        model(len(tokenizer()), seed=5).save_pretrained(home)
    else:
        file.write_bytes(b"The house.\n" + before.split(b"\n", 1)[1])
    code, _, told = run(*words, "--resume")
    expected = f"{out} was begun with other content of --{option}, expected the same"
    assert (code, expected in told) == (2, True), told
    assert out.read_bytes() == part
    file.write_bytes(before)  # with another time
    if option == "model_dir":  # earlier versions did not record the contents
        saved = json.loads(record.read_text())
        del saved["content"]
        record.write_text(json.dumps(saved))
        model(len(tokenizer()), seed=5).save_pretrained(home)
    code, _, told = run(*words, "--resume")
    assert code == 0, told
    assert len(out.read_bytes().splitlines()) == 9


def test_ctrl_c_before_the_first_lines(
    run: Any, words: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out = tmp_path / "out"
    out.write_text("old\n")
    interrupt(monkeypatch, 1)
    code, _, told = run(*words, "--output_file", out, "--overwrite")
    assert (code, "nothing is written; the same command begins" in told) == (130, True)
    assert out.read_text() == "old\n"
