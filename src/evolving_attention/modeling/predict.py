"""Predicts labels and probabilities of any number of texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, Protocol

import numpy as np

from evolving_attention.autograd import evaluating
from evolving_attention.data.features import Truncation, tokenize_dataset
from evolving_attention.data.loader import PackedLoader
from evolving_attention.data.table import TableDataset
from evolving_attention.device_names import host_array
from evolving_attention.errors import ConfigError, InputError, suggestion
from evolving_attention.field_types import check_whole
from evolving_attention.interop.token_limits import token_limit
from evolving_attention.metrics.probabilities import finite_rows, probabilities
from evolving_attention.notices import say
from evolving_attention.progress_bar import ProgressBar

TopK = int | Literal["best"] | None
CHUNK = 8192  # texts tokenised and sorted by length together
_COLUMNS = ("text", "text_pair")
_BESIDE = ("label", "labels", "idx")  # keys of a data row that are ignored
_UNKNOWN_LENGTH = 1e9  # transformers' model_max_length if unknown


class _Tokenizer(Protocol):
    def __call__(self, *texts: Any, **options: Any) -> Any: ...


def predict(
    model: Any,
    texts: Any,
    tokenizer: _Tokenizer,
    *,
    top_k: TopK = "best",
    batch_size: int = 32,
    max_length: int | None = None,
    progress: bool = True,
) -> Any:
    """Implements :meth:`TextModel.predict`; see there."""
    if top_k not in ("best", None) and (type(top_k) is not int or top_k < 1):
        raise ConfigError(
            f"predict: top_k={top_k!r}, expected a number from 1, None for all labels, "
            "or 'best' for the best one without a list; leave it out for that"
        )
    check_whole("predict", batch_size=batch_size)
    if not callable(tokenizer):
        raise ConfigError(
            f"predict: tokenizer is a {type(tokenizer).__name__}, expected the model's "
            "tokenizer; load it by ea.AutoTokenizer.from_pretrained"
        )
    single = isinstance(texts, (str, Mapping))
    rows = [texts] if single else _iterable(texts)
    limit, cut = limit_of(model.config, tokenizer, max_length), Truncation()
    total = len(rows) if hasattr(rows, "__len__") else None
    logits = [np.zeros((0, model.config.num_labels))]
    bar = ProgressBar("predict", total, disabled=not progress)
    with evaluating(model), bar:
        for table in _tables(rows):
            features = tokenize_dataset(
                table, tokenizer, max_length=limit, truncation=cut
            )
            logits.append(_logits(model, features, batch_size, bar))
    found = scored(np.concatenate(logits), model.config, top_k)
    if cut.rows:
        say(
            f"predict: {cut.rows} of {len(found)} texts were truncated to {limit} "
            "tokens, the most that max_length=, tokenizer and model allow"
        )
    if not single:
        return found
    return found if isinstance(texts, str) and top_k == "best" else found[0]


def scored(logits: np.ndarray, config: Any, top_k: TopK = "best") -> list[Any]:
    """Returns ``{"label", "score"}`` for each row of logits; lists with ``top_k``.

    Args:
        logits: [N, num_labels].
        config: config of the model.
        top_k: as in :meth:`TextModel.predict`.
    """
    if config.num_labels == 1:
        label = config.id2label[0]
        values = finite_rows(logits).reshape(-1).tolist()
        scores = [{"label": label, "score": value} for value in values]
        return scores if top_k == "best" else [[score] for score in scores]
    chances = probabilities(logits, config.problem_type)
    order = np.argsort(-chances, axis=1, kind="stable")
    count = 1 if top_k == "best" else top_k
    lists = [
        [{"label": config.id2label[c], "score": float(row[c])} for c in best]
        for row, best in zip(chances, order[:, :count].tolist(), strict=True)
    ]
    return [best[0] for best in lists] if top_k == "best" else lists


def _iterable(texts: Any) -> Any:
    """Returns the texts as an iterable of rows.

    Raises:
        InputError: it is one pair, a table, or not a collection.
    """
    pair = isinstance(texts, tuple) and len(texts) == 2
    if pair and all(isinstance(part, str) for part in texts):
        raise InputError(
            "predict: texts is a tuple of two texts, expected a list; pass "
            "[(first, second)] for one pair, [first, second] for two texts"
        )
    if hasattr(texts, "columns"):
        raise InputError(
            f"predict: texts is a {type(texts).__name__}, expected texts; pass one of "
            f"its columns, such as texts[{str(next(iter(texts.columns), 'text'))!r}]"
        )
    if not isinstance(texts, Iterable):
        raise InputError(
            f"predict: texts is a {type(texts).__name__}, expected a text or a list of "
            "texts, or of pairs of texts"
        )
    return texts


def _tables(rows: Iterable[Any]) -> Iterator[TableDataset]:
    """Yields the texts in tables of at most ``CHUNK`` rows."""
    iterator, start, width = iter(rows), 0, None
    while part := list(islice(iterator, CHUNK)):
        split = [_split(row, start + i) for i, row in enumerate(part)]
        width = len(split[0]) if width is None else width
        other = next((i for i, one in enumerate(split) if len(one) != width), None)
        if other is not None:
            kinds = ("a single text", "a pair of texts")
            raise InputError(
                f"predict: texts[{start + other}] is {kinds[len(split[other]) - 1]}, "
                f"expected {kinds[width - 1]} like texts[0]; pass the two kinds in two "
                "calls"
            )
        columns = dict(zip(_COLUMNS, zip(*split, strict=True), strict=False))
        yield TableDataset(columns, text_columns=list(columns), has_labels=False)
        start += len(part)


def _split(row: Any, index: int) -> Sequence[str]:
    """Returns the one or two texts of a row.

    Raises:
        InputError: the row is neither.
    """
    parts: Any = ()
    if isinstance(row, Mapping) and (left := row.keys() - {*_COLUMNS, *_BESIDE}):
        found = min(map(str, left))
        raise InputError(
            f"predict: texts[{index}] has the key {found!r}, expected 'text' and, of "
            f"a pair, 'text_pair'; {suggestion(found, _COLUMNS, 'leave it out')}"
        )
    if isinstance(row, str):
        parts = (row,)
    elif isinstance(row, Mapping) and "text" in row:
        parts = tuple(row[name] for name in _COLUMNS if row.get(name) is not None)
    elif isinstance(row, (tuple, list)) and len(row) == 2:
        parts = row
    if not parts or not all(isinstance(part, str) for part in parts):
        raise InputError(
            f"predict: texts[{index}] is {str(row)!r:.60}, a {type(row).__name__}, "
            "expected a text, a pair (first, second), or "
            '{"text": first, "text_pair": second}; leave it out or correct it'
        )
    return tuple(parts)


def limit_of(
    config: Any,
    tokenizer: Any,
    max_length: int | None,
    name: str = "predict: max_length",
) -> int | None:
    """Returns the token limit of a text: the requested, model's or tokenizer's least.

    Args:
        config: config of the model, or its config.json; None: there is none.
        tokenizer: has ``model_max_length``, if it knows one.
        max_length: requested limit.
        name: name of ``max_length`` in messages.

    Returns:
        None if nothing limits the length.

    Raises:
        ConfigError: ``max_length`` is below 1.
    """
    most = token_limit(config)
    limits: list[int] = [] if most is None else [most]
    known = getattr(tokenizer, "model_max_length", None)
    if known is not None and known < _UNKNOWN_LENGTH:
        limits.append(int(known))
    if max_length is not None:
        if type(max_length) is not int or max_length < 1:
            raise ConfigError(f"{name}={max_length!r}, expected 1 or more")
        limits.append(max_length)
    return min(limits, default=None)


def _logits(model: Any, features: Any, batch_size: int, bar: ProgressBar) -> np.ndarray:
    """Logits of every row, float64 [N, num_labels], in row order."""
    logits = np.zeros((len(features), model.config.num_labels))
    loader = PackedLoader(features, batch_size, shuffle=False, longest_first=True)
    for batch in loader:
        inputs: dict[str, Any] = dict(batch or {})
        rows = inputs.pop("row_ids")
        logits[rows] = host_array(model(**inputs).logits)
        bar.advance(len(rows))
    return logits
