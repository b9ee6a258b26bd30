"""From a data set to packed batches: the order of training and that of evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evolving_attention.data.features import Features, tokenize_dataset
from evolving_attention.data.loader import PackedLoader
from evolving_attention.data.series import SeriesRows
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.batches import inputs_of

__all__ = ["LoadersMixin", "eval_loader", "prepared", "train_loader"]

PREFETCH = 2  # batches made ahead: one to take, one in the making
Rows = Sequence[dict[str, Any]]
Collator = Callable[[list[dict[str, Any]]], dict[str, Any]]


def prepared(dataset: Any, role: str, processing_class: Any) -> Any:
    """The data set as rows with ``input_ids`` or as series; raw text is tokenized.

    Args:
        dataset: a sequence of dicts.
        role: ``train_dataset`` or so, for messages.
        processing_class: the tokenizer, or None.

    Raises:
        ConfigError: there is no data set, or it is text and there is no tokenizer.
        InputError: it is empty, or its rows are not usable.
    """
    if dataset is None:
        raise ConfigError(
            f"Trainer: no {role}, expected a sequence of dicts with input_ids; pass "
            f"{role}=…"
        )
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise InputError(
            f"Trainer: {role} is a {type(dataset).__name__}, expected a sequence of "
            "dicts; make a list of it"
        )
    if len(dataset) == 0:
        raise InputError(
            f"Trainer: {role} is empty, expected at least one row; check the path and "
            "the limit on samples"
        )
    first = dataset[0]
    if not hasattr(first, "keys"):
        raise InputError(
            f"Trainer: {role}[0] is a {type(first).__name__}, expected a dict with "
            "input_ids and label; convert the rows"
        )
    if isinstance(dataset, SeriesRows) or "input_ids" in first:
        return dataset
    if processing_class is None:
        raise ConfigError(
            f"Trainer: {role}[0] has {', '.join(map(str, first.keys()))}, expected "
            "input_ids, or text and a tokenizer; pass processing_class=tokenizer"
        )
    return tokenize_dataset(dataset, processing_class)


def _collate(collator: Collator | None) -> Any:
    """The loader's collate function for a caller's collator; row ids are kept."""
    if collator is None:
        return None

    def collate(rows: Rows, row_ids: Sequence[int]) -> dict[str, Any]:
        batch = dict(collator(list(rows)))
        batch.setdefault("row_ids", np.asarray(row_ids, dtype=np.int64))
        return batch

    return collate


def _is_plain(rows: Rows) -> bool:
    """Whether taking rows runs no code of the caller's, which may draw or be slow."""
    return isinstance(rows, (Features, SeriesRows)) or type(rows) in (list, tuple)


def _ahead(args: TrainingArguments, rows: Rows, collator: Collator | None) -> int:
    """How many batches to make ahead in the background."""
    if args.dataloader_prefetch_factor is not None:
        return args.dataloader_prefetch_factor
    return PREFETCH if collator is None and _is_plain(rows) else 0


def train_loader(
    args: TrainingArguments,
    rows: Rows,
    collator: Collator | None,
    epoch: int,
    start: int,
    share: tuple[int, int] = (0, 1),
) -> PackedLoader:
    """Batches of one pass over the training set, from batch ``start`` on.

    Batch i is made where i mod n = k for ``share`` = (k, n), and None elsewhere; with
    code of the caller's, which may draw random numbers, it is made everywhere.

    A collator's own randomness should come from ``numpy.random`` or ``random``, whose
    states are saved in checkpoints.
    """
    order = args.train_sampling_strategy
    loader = PackedLoader(
        rows,
        args.per_device_train_batch_size,
        seed=args.seed if args.data_seed is None else args.data_seed,
        epoch=epoch,
        shuffle=order != "sequential",
        group_by_length=order == "group_by_length",
        drop_last=args.dataloader_drop_last,
        collate=_collate(collator),
        prefetch=_ahead(args, rows, collator),
        share=share,
        make_all=collator is not None or not _is_plain(rows),
    )
    loader.skip(start)
    return loader


def eval_loader(
    args: TrainingArguments,
    rows: Rows,
    collator: Collator | None,
    share: tuple[int, int] = (0, 1),
) -> PackedLoader:
    """Batches of one pass over an evaluation set, nothing left out.

    Rows of like length go together, the longest first; those of a data set of the
    caller's own class come in its order, without a pass more to count their tokens.
    ``share`` as in :func:`train_loader`.
    """
    return PackedLoader(
        rows,
        args.per_device_eval_batch_size,
        shuffle=False,
        longest_first=_is_plain(rows),
        collate=_collate(collator),
        prefetch=_ahead(args, rows, collator),
        share=share,
        make_all=collator is not None or not _is_plain(rows),
    )


class LoadersMixin:
    """Where the Trainer's batches come from."""

    def _rows(self, dataset: Any, role: str) -> Any:
        """The data set with input_ids; tokenized once if it is text."""
        held = self._prepared.get(id(dataset))
        if held is None or held[0] is not dataset:
            rows = prepared(dataset, role, self.processing_class)
            held = self._prepared[id(dataset)] = (dataset, rows)
        return held[1]

    def _train_loader(self, rows: Any, epoch: int, start: int) -> PackedLoader:
        """The batches of an epoch; None in the place of those of other ranks."""
        share = self.team.rank, self.team.size
        collator = self.data_collator
        return train_loader(self.args, rows, collator, epoch, start, share)

    def _loss_of_some_rows(self, rows: Any) -> Any:
        """The loss of as many rows as a batch has, with the dropout of training."""
        loader = train_loader(self.args, rows, self.data_collator, 0, 0)
        count = min(len(rows), self.args.per_device_train_batch_size)
        was_training = self.model.training
        self.model.train()
        try:
            batch = loader.make_batch(np.arange(count))
            return self.compute_loss(self.model, inputs_of(batch))
        finally:
            self.model.train(was_training)
