"""Labels and probabilities of texts: ``model.predict`` and ``ea.pipeline``."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention import progress_bar
from evolving_attention.errors import ConfigError, InputError, NonFiniteError
from evolving_attention.metrics import probabilities
from evolving_attention.modeling import predict

WORDS = ["a", "good", "bad", "film", "picture", "very", "rather", "!"]
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
NAMES = {0: "bad", 1: "so so", 2: "good"}


def texts(count: int, longest: int = 12) -> list[str]:
    random = np.random.default_rng(0)
    return [" ".join(random.choice(WORDS, 1 + i % longest)) for i in range(count)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Returns a function that writes a tiny trained model with its tokenizer."""

    def make(**options: Any) -> Path:
        folder = tmp_path_factory.mktemp("model")
        config = ea.BertConfig(
            vocab_size=len(VOCAB),
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=24,
            max_position_embeddings=16,
            initializer_range=0.5,
            **options,
        )
        ea.manual_seed(3)
        ea.BertForSequenceClassification(config).save_pretrained(folder)
        (folder / "vocab.txt").write_text("\n".join(VOCAB))
        return folder

    return make


@pytest.fixture(scope="module")
def classify(folders: Any) -> Any:
    return ea.pipeline("text-classification", folders(id2label=NAMES))


def by_hand(classify: Any, *given: Any) -> np.ndarray:
    """Computes softmax of the logits, one text at a time."""
    rows = []
    for pair in zip(*given, strict=True):
        inputs = classify.tokenizer(*[[one] for one in pair], return_tensors="np")
        with ea.no_grad():
            logits = np.asarray(classify.model(**inputs).logits, np.float64)[0]
        powers = np.exp(logits)
        rows.append(powers / powers.sum())
    return np.array(rows)


def scores(found: list[Any]) -> np.ndarray:
    """Returns scores [N, 3] in the order of the class ids."""
    order = list(NAMES.values())
    return np.array(
        [[one["score"] for one in sorted(row, key=lambda x: order.index(x["label"]))]
         for row in found]
    )  # fmt: skip


def test_labels_and_probabilities_in_the_order_of_the_texts(
    classify: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = texts(50)
    expected = by_hand(classify, given)
    monkeypatch.setattr(predict, "CHUNK", 20)  # 50 texts are two and a half chunks
    found = classify(given, batch_size=7)
    np.testing.assert_allclose(
        [one["score"] for one in found], expected.max(1), rtol=1e-5
    )
    assert [one["label"] for one in found] == [NAMES[i] for i in expected.argmax(1)]
    assert len({one["label"] for one in found}) > 1
    every = classify(iter(given), top_k=None)
    np.testing.assert_allclose(scores(every), expected, rtol=1e-5)
    assert all([x["score"] for x in row] == sorted(
        (x["score"] for x in row), reverse=True) for row in every)  # fmt: skip
    assert classify(given, top_k=2) == [row[:2] for row in every]


def test_it_returns_what_transformers_pipelines_return(classify: Any) -> None:
    (one,) = classify(["good film"])
    assert one.keys() == {"label", "score"}
    assert type(one["score"]) is float
    assert classify("good film") == [one]
    assert classify("good film", top_k=1) == [one]
    assert classify(["good film"], top_k=1) == [[one]]
    assert classify({"text": "good film"}) == one
    assert classify([]) == []
    assert classify.model.predict(["good film"], classify.tokenizer) == [one]


FORMS = [tuple, list, lambda pair: {"text": pair[0], "text_pair": pair[1]}]


@pytest.mark.parametrize("form", FORMS)
def test_pairs(classify: Any, form: Any) -> None:
    pairs = list(zip(texts(9, 5), reversed(texts(9, 5)), strict=True))
    found = classify([form(pair) for pair in pairs], top_k=None)
    expected = by_hand(classify, *zip(*pairs, strict=True))
    np.testing.assert_allclose(scores(found), expected, rtol=1e-5)


def test_regression_gives_the_value(folders: Any) -> None:
    rate = ea.pipeline(model=folders(num_labels=1))
    inputs = rate.tokenizer(["a good film"], return_tensors="np")
    with ea.no_grad():
        value = rate.model(**inputs).logits.item()
    assert rate("a good film") == [{"label": "LABEL_0", "score": pytest.approx(value)}]


def test_mode_and_long_texts(classify: Any, caplog: pytest.LogCaptureFixture) -> None:
    classify.model.train()
    long = " ".join(["film"] * 40)
    try:
        assert classify([long, "a"]) == classify([long, "a"])  # thus without dropout
        assert classify.model.training
    finally:
        classify.model.eval()
    assert "predict: 1 of 2 texts were truncated to 16 tokens" in caplog.text
    assert classify([long]) == classify([" ".join(["film"] * 14)])
    assert classify([long], max_length=5) == classify(["film film film"])


def test_a_model_a_folder_and_a_tokenizer(folders: Any, classify: Any) -> None:
    folder = folders(id2label=NAMES)
    expected = classify(texts(4))
    tokenizer = ea.AutoTokenizer.from_pretrained(folder)
    model = ea.AutoModelForSequenceClassification.from_pretrained(folder)
    for given in (
        {"model": str(folder)},
        {"model": model, "tokenizer": folder},
        {"model": model, "tokenizer": tokenizer},
    ):
        assert ea.pipeline("sentiment-analysis", **given)(texts(4)) == expected


def test_tokenizers_of_transformers(classify: Any, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB))
    theirs = transformers.BertTokenizerFast(str(tmp_path / "vocab.txt"))
    given = [*texts(4), "film " * 40]
    assert classify.model.predict(given, theirs) == classify(given)


def test_weights_that_diverged(folders: Any) -> None:
    spoiled = ea.pipeline(model=folders())
    dict(spoiled.model.named_parameters())["classifier.bias"].copy_([np.nan, 0])
    with pytest.raises(NonFiniteError, match="predictions of 2 rows are not finite"):
        spoiled(["a", "good"])


MISTAKES: dict[str, tuple[Any, type[Exception], str]] = {
    "a bare pair": (("a", "film"), InputError, r"tuple of two texts, .*\[\(first, sec"),
    "a mixture": (
        ["a", ("a", "film")],
        InputError,
        r"texts\[1\] is a pair of texts, exp",
    ),
    "no text": (["a", None], InputError, r"texts\[1\] is 'None', a NoneType, expected"),
    "three": (
        [("a", "b", "c")],
        InputError,
        r"texts\[0\] is .* a tuple, expected a te",
    ),
    "a misspelled key": (
        {"text": "a", "textpair": "film"},
        InputError,
        r"texts\[0\] has the key 'textpair', expected .* did you mean 'text_pair'",
    ),
    "a number": (3, InputError, "texts is a int, expected a text or a list"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(classify: Any, name: str) -> None:
    given, error, says = MISTAKES[name]
    with pytest.raises(error, match=says):
        classify(given)


@pytest.mark.parametrize("tokenizer", [None, "folder"])
def test_predict_needs_a_tokenizer(classify: Any, tokenizer: Any) -> None:
    kind = type(tokenizer).__name__
    with pytest.raises(ConfigError, match=f"tokenizer is a {kind}, expected the model"):
        classify.model.predict(["a"], tokenizer)


def test_a_table_is_no_list_of_texts(classify: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"words": texts(4)})
    with pytest.raises(
        InputError, match=r"is a DataFrame, .* such as texts\['words'\]"
    ):
        classify(frame)
    assert classify(frame["words"]) == classify(texts(4))


def test_probabilities_of_huge_logits() -> None:
    np.testing.assert_allclose(probabilities([[1e4, 0.0], [0.0, 0.0]])[:, 0], [1, 0.5])
    found = probabilities([[-1e4, 0.0, 1e4, 2.0]], "multi_label_classification")
    np.testing.assert_allclose(found, [[0, 0.5, 1, 1 / (1 + np.exp(-2.0))]])


# ------------------------------------------------------------------- progress bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("shown", [True, False])
def test_long_work_shows_a_bar(
    classify: Any, monkeypatch: pytest.MonkeyPatch, shown: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    classify(texts(4))
    assert terminal.getvalue() == ""  # too quick to show a bar
    monkeypatch.setattr(progress_bar, "SHOWN_AFTER", 0.0)
    monkeypatch.setattr(progress_bar, "REFRESH_SECONDS", 0.0)
    classify(texts(8), batch_size=4, progress=shown)
    lines = terminal.getvalue().split("\r\x1b[K")[1:]
    assert [line.split(",")[0] for line in lines] == (
        ["predict 4/8", "predict 8/8", "predict 8/8"] if shown else []
    )
    assert terminal.getvalue().endswith("\n" if shown else "")


def test_nothing_is_shown_where_nobody_looks(
    classify: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_bar, "SHOWN_AFTER", 0.0)
    classify(texts(8))
    assert capsys.readouterr() == ("", "")


def test_keys_of_labels_are_not_read(classify: Any) -> None:
    assert classify([{"text": "good", "label": 1, "idx": 3}]) == classify(["good"])


def test_a_mistyped_option_is_told(classify: Any) -> None:
    with pytest.raises(ConfigError, match=r"'topk' is not known, .* mean 'top_k'"):
        classify("a film", topk=2)


def test_what_a_pipeline_refuses(classify: Any) -> None:
    for given, says in (
        ({"task": "fill-mask"}, "task 'fill-mask' is not there, expected text-cl"),
        ({}, "model is missing, expected a trained folder"),
        ({"model": classify.model}, "expected its tokenizer with it"),
        (
            {"model": ea.BertModel(classify.model.config), "tokenizer": "x"},
            "the model is a BertModel, expected one for sequence classification",
        ),
    ):
        with pytest.raises(ConfigError, match=says):
            ea.pipeline(**given)
