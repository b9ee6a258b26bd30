"""Makes packed batches of a data set, in training or evaluation order."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from evolving_attention.data.class_order import numbered_as_model
from evolving_attention.data.collate import PairRows, label_of, unused_keys
from evolving_attention.data.features import LENGTH, tokenize_dataset
from evolving_attention.data.loader import PackedLoader
from evolving_attention.data.packed import Batch, PackedDataset
from evolving_attention.data.row_forms import (
    rows_of,
    sets_of,
    with_numbered_labels,
)
from evolving_attention.device_names import host_array
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.modeling.predict import limit_of
from evolving_attention.notices import say
from evolving_attention.training import batches as b
from evolving_attention.training.alone import Alone
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.fingerprint import data_fingerprint
from evolving_attention.training.row_checks import PAIRS, checked, limits_of

PREFETCH = 2  # batches prepared ahead: one ready, one in progress
Rows = Sequence[dict[str, Any]]
Collator = Callable[[list[dict[str, Any]]], dict[str, Any]]


def _first_row(dataset: Any, role: str, ours: bool) -> Any:
    """Returns the first row of a data set; None for a :class:`PackedDataset`.

    It is a dict if ``ours``, else whatever the caller's collator reads, such as the
    pairs of torchvision's ``ImageFolder``.

    Raises:
        ConfigError, InputError: see :meth:`Loaders.rows`.
    """
    if dataset is None:
        raise ConfigError(
            f"Trainer: no {role}, expected a sequence of dicts with input_ids; pass "
            f"{role}=…"
        )
    if not isinstance(dataset, PackedDataset) and not (
        hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    ):
        raise InputError(
            f"Trainer: {role} is a {type(dataset).__name__}, expected a sequence of "
            "dicts; make a list of it"
        )
    if len(dataset) == 0:
        raise InputError(
            f"Trainer: {role} is empty, expected at least one row; check the path and "
            "the limit on samples"
        )
    if isinstance(dataset, PackedDataset):
        return None
    first = dataset[0]
    if ours and not hasattr(first, "keys"):
        remedy = "convert the rows, or pass data_collator=, which makes dicts of arrays"
        if isinstance(first, str):
            remedy = "make rows [{'text': …}], or use model.predict(texts, tokenizer)"
        raise InputError(
            f"Trainer: {role}[0] is a {type(first).__name__}, expected a dict with "
            f"input_ids and label; {remedy}"
        )
    return first


def _collate(
    collator: Collator | None, only_used: bool | None, own: str = "input_ids"
) -> Any:
    """Returns the loader's collate function for a caller's collator.

    A batch has the ids of its rows if the collator made one row of each.

    ``only_used``: drop the columns that no model takes, except its ``own`` input; None:
    only for transformers' collators.
    """
    if collator is None:
        return None
    if only_used is None:
        module = getattr(collator, "__module__", None) or ""
        only_used = module.partition(".")[0] == "transformers"

    def collate(rows: Rows, row_ids: Sequence[int]) -> dict[str, Any]:
        given = list(rows)
        if only_used:
            given = [_used(row, own) for row in given]
        made = collator(given)
        if not isinstance(made, Mapping):
            raise InputError(
                f"Trainer: data_collator returned a {type(made).__name__}, expected a "
                "dict of arrays, as the model's call takes them; return {'input_ids': "
                "…, 'labels': …}"
            )
        if isinstance(made, Batch):
            batch: dict[str, Any] = copy.copy(made)
        else:
            batch = {name: _array(value) for name, value in made.items()}
        if not batch or b.row_count(batch) == len(row_ids):
            batch.setdefault("row_ids", np.asarray(row_ids, dtype=np.int64))
        return batch

    return collate


def _lacks(role: str, first: Any, own: str) -> str:
    """Returns the error text for rows of which no batches can be made."""
    remedy = f"{own}; rename the column, or pass data_collator=, which makes {own}"
    if own == "input_ids":
        remedy = f"{own}, or text and a tokenizer; pass processing_class=tokenizer"
    found = ", ".join(map(str, first.keys()))
    return f"Trainer: {role}[0] has {found}, expected {remedy}"


def _reads_ids(collator: Collator) -> bool:
    """Whether a collator is one of this package or transformers, which need tokens."""
    function = collator.func if isinstance(collator, functools.partial) else collator
    module = getattr(function, "__module__", None) or ""
    return module.partition(".")[0] in ("evolving_attention", "transformers")


def _array(value: Any) -> Any:
    """Returns an entry of a batch; a PyTorch tensor as its array."""
    of_torch = type(value).__module__.partition(".")[0] == "torch"
    return host_array(value) if of_torch else value


def _used(row: Any, own: str) -> Any:
    """Returns a row with only the columns that models and collators take."""
    if not hasattr(row, "keys"):
        return row
    left = {*unused_keys(row), "sample_weight"} - {"special_tokens_mask", own}
    return {name: row[name] for name in row if name not in left}


def _stack(own: str, rows: Rows, row_ids: Sequence[int]) -> Batch:
    """Makes a batch of rows that hold the model's own input, and perhaps a label."""
    key = label_of(rows[0])
    batch = {"row_ids": np.asarray(row_ids, dtype=np.int64)}
    for name, made in ((own, own), (key, "labels")):
        if name is None:
            continue
        values = [host_array(row.get(name)) for row in rows]
        shape = values[0].shape
        for row, value in zip(row_ids, values, strict=True):
            place = f"row {row} of the data set: {name}"
            if value.shape != shape:
                raise InputError(
                    f"{place} has the shape {value.shape}, expected {shape} as in row "
                    f"{row_ids[0]}; give all rows one shape, or pass data_collator="
                )
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                at = np.argwhere(~np.isfinite(value))[0].tolist()
                raise InputError(
                    f"{place}{at or ''} is {value[tuple(at)]}, expected finite "
                    "numbers; correct it, or leave the row out"
                )
        batch[made] = np.stack(values)
    return Batch(batch)


class _RawRows(Sequence[Any]):
    """Rows without token ids, of which a collator makes batches.

    ``own`` names the input of the model that they may hold.
    """

    def __init__(self, rows: Any, own: str) -> None:
        self.rows, self.own = rows, own

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]


def _is_plain(rows: Rows) -> bool:
    """Whether reading rows runs no user code, which may draw numbers or be slow."""
    if isinstance(rows, PairRows):
        rows = rows.rows
    return isinstance(rows, PackedDataset) or type(rows) in (list, tuple)


class Loaders:
    """Makes the batches of a run; tokenizes its text data sets once.

    A collator's own randomness should come from ``numpy.random``, ``random`` or
    PyTorch, imported before the run, whose states are saved in checkpoints; or the
    collator has ``state_dict()``, of plain values as JSON has them, and
    ``load_state_dict()``. (States of PyTorch modules are not saved; one that is not
    plain is an error before the first step.) With ``dataloader_prefetch_factor`` above
    0, the states are ahead of the steps, and a resumed run is not an exact one.

    Args:
        args: arguments of the run.
        share: (k, n): this is process k of n. It makes batch i if i mod n = k, else
            yields None. With user code, which may draw random numbers, every process
            makes every batch.
    """

    def __init__(
        self, args: TrainingArguments, share: tuple[int, int] = (0, 1)
    ) -> None:
        self.args, self.share = args, share
        # (data set, its rows and their hash, if made)
        self._kept: list[tuple[Any, list[Any]]] = []
        self._said: set[str] = set()  # notices already printed

    @contextlib.contextmanager
    def keeping(self, *datasets: Any) -> Iterator[None]:
        """Makes the rows of these data sets (or dicts of several) once until the end.

        Rows of other data sets, and all rows after the end, are made anew each time: a
        list or a DataFrame may have been edited in place.
        """
        parts = [sets_of(d, "").values() for d in datasets]
        self._kept = [(part, []) for some in parts for part in some]
        try:
            yield
        finally:
            self._kept = []

    def rows(
        self,
        dataset: Any,
        role: str,
        processing_class: Any,
        collator: Collator | None,
        model: Any = None,
        own_loss: bool = True,
    ) -> Any:
        """Returns the rows for batches; text is tokenized to at most ``LENGTH`` tokens.

        Args:
            dataset: a sequence of dicts, a DataFrame, a dict of columns, a sequence of
                what the caller's own collator reads, or a :class:`PackedDataset`, which
                is returned as it is.
            role: the argument's name in messages, such as ``train_dataset``.
            processing_class: the tokenizer, or None.
            collator: makes the batches, if it is the caller's; rows of text are only
                tokenized for collators of this package or transformers.
            model: the model; labels may be the names of its classes, and are renumbered
                if the data names them in another order. Rows that hold the input of a
                model without tokens (``pixel_values``) are stacked.
            own_loss: whether the model's own loss reads the labels; rows are checked
                by :mod:`.row_checks` unless a collator makes the batches.

        Raises:
            ConfigError: the data set is missing, or it is text without a tokenizer, or
                lacks the input of a model without tokens.
            InputError: the data set is empty, or its rows are invalid.
        """
        kept = next((rows for known, rows in self._kept if known is dataset), [])
        if kept:
            return kept[0]
        rows = rows_of(dataset, role)
        ours, collated = collator is None or _reads_ids(collator), collator is not None
        first = _first_row(rows, role, ours)
        if ours:
            rows = numbered_as_model(rows, dataset, model, role)
        if first is not None and not collated:
            rows = with_numbered_labels(rows, first, model, role)
        raw = first is not None and "input_ids" not in getattr(first, "keys", list)()
        own = getattr(model, "needed", ("input_ids",))[0]
        if ours and raw and own not in first:
            if own != "input_ids" or processing_class is None:
                raise ConfigError(_lacks(role, first, own))
            config = getattr(model, "config", None)
            rows = tokenize_dataset(
                rows,
                processing_class,
                max_length=limit_of(config, processing_class, LENGTH),
                said=self._said,
            )
            raw = False
        elif not (raw or first is None or collated) and (unused := unused_keys(first)):
            say(
                f"keys of the rows that are not used: {', '.join(unused)}; your own "
                "data_collator can use them",
                self._said,
            )
        if not collated:
            rows = checked(rows, role, limits_of(model, own_loss))
            head = getattr(model, "head", None)
            if head == PAIRS and first is not None and label_of(first):
                rows = PairRows(rows)
        kept.append(_RawRows(rows, own) if raw else rows)
        return kept[0]

    def training(
        self, rows: Any, collator: Collator | None, epoch: int = 0, start: int = 0
    ) -> PackedLoader:
        """Returns the batches of one pass over the training set, from ``start`` on."""
        if hasattr(rows, "of_epoch"):  # redraws their random parts
            rows = rows.of_epoch(epoch)
        args, order = self.args, self.args.train_sampling_strategy
        raw = isinstance(rows, _RawRows)
        if raw and args.per_device_train_batch_tokens is not None:
            raise ConfigError(
                "Trainer: per_device_train_batch_tokens with rows without input_ids, "
                "expected rows whose tokens can be counted; give the rows input_ids, "
                "or use per_device_train_batch_size"
            )
        loader = self._loader(
            rows,
            collator,
            args.per_device_train_batch_size,
            batch_tokens=args.per_device_train_batch_tokens,
            seed=args.seed if args.data_seed is None else args.data_seed,
            epoch=epoch,
            shuffle=order != "sequential",
            group_by_length=order == "group_by_length" and not raw,
            drop_last=args.dataloader_drop_last,
        )
        loader.skip(start)
        return loader

    def evaluation(self, rows: Any, collator: Collator | None) -> PackedLoader:
        """Returns the batches of one pass over an evaluation set, with every row.

        Rows of similar length go together, the longest first. A data set of the
        caller's own class keeps its order, which saves a pass to count tokens. So do
        the rows of a caller's own collator, which may make another number of them.
        """
        size = self.args.per_device_eval_batch_size
        sorts = _is_plain(rows) and (collator is None or _reads_ids(collator))
        return self._loader(rows, collator, size, shuffle=False, longest_first=sorts)

    def compare(self, team: Alone, rows: Any, prefix: str) -> None:
        """Checks that all processes evaluate the same rows, whose batches they share.

        Rows whose reading runs user code, which may draw numbers, are only counted.

        Raises:
            ConfigError: on all ranks, if one differs.
        """
        if team.size == 1:
            return
        made = next(
            (kept for _, kept in self._kept if kept and kept[0] is rows), [rows]
        )
        if len(made) == 1:  # rows that are kept are hashed once
            made.append(data_fingerprint(rows) if _is_plain(rows) else None)
        team.check_same(
            "this evaluation's",
            {
                "metric_key_prefix": prefix,
                "number of rows": len(rows),
                "row hash": made[1],
            },
            "call evaluate or predict on every rank, with the whole data set: the "
            "ranks share its batches, and each gets all results",
        )

    def _loader(
        self, rows: Any, collator: Collator | None, batch_size: int, **order: Any
    ) -> PackedLoader:
        """Returns the loader; it prepares batches ahead unless user code runs."""
        own = rows.own if isinstance(rows, _RawRows) else "input_ids"
        collate = _collate(collator, self.args.remove_unused_columns, own)
        if collator is None and own != "input_ids":
            collate = functools.partial(_stack, own)
        own_code = collator is not None or not _is_plain(rows)
        ahead = self.args.dataloader_prefetch_factor
        if ahead is None:
            ahead = 0 if own_code else PREFETCH
        return PackedLoader(
            rows,
            batch_size,
            collate=collate,
            prefetch=ahead,
            share=self.share,
            make_all=own_code,
            **order,
        )
