"""Checkpoints of a run: contents, saving, finding and loading.

``checkpoint-N/`` holds ``config.json`` and the weights (written by the model), the
tokenizer's files, ``optimizer.safetensors`` (moments and master weights),
``trainer_state.json`` (counters, position, schedule, random generators, fingerprint),
``training_args.json`` and ``manifest.json``, whose presence makes it a checkpoint.
Nothing is pickled. :mod:`evolving_attention.durable` commits it atomically.
"""

from __future__ import annotations

import copy
import json
import os
import pathlib
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from evolving_attention import durable
from evolving_attention.device_names import host_array
from evolving_attention.durable.files import reported, usable_values
from evolving_attention.errors import CheckpointError, ConfigError
from evolving_attention.interop.hf import load_folder
from evolving_attention.interop.paths import open_inside, present
from evolving_attention.interop.safetensors_io import read_safetensors
from evolving_attention.training import fingerprint, numerics, results, runtime
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.state import (
    STATE,
    TrainerState,
    read_values,
)

__all__ = [
    "STATE",
    "RunParts",
    "alone",
    "check_output_dir",
    "check_writable",
    "clear_others",
    "find",
    "get_last_checkpoint",
    "load_model",
    "newest",
    "recover",
    "refuse_others",
    "restore",
    "save",
    "usable",
]

OPTIMIZER = "optimizer.safetensors"
# How the core draws random numbers; a run can only resume with the same way
# (docs/numerics.md).
RANDOM_STREAMS = "by name"
ARGUMENTS = "training_args.json"
# Files of a run that ended before its first save; they are not user data.
LOGS = {"log.jsonl", "nonfinite-report.json", "runs"}


@dataclass
class RunParts:
    """The parts of a checkpoint besides the counters in the state."""

    model: Any
    optimizer: Any
    schedule: Any
    args: TrainingArguments
    save_model: Callable[..., Any]  # (output_dir, _internal_call)
    data_collator: Any
    fingerprint: dict[str, Any]


def folder_of(args: TrainingArguments, step: int) -> pathlib.Path:
    """Returns the folder of the checkpoint after optimizer step ``step``."""
    return pathlib.Path(args.output_dir) / f"checkpoint-{step}"


def get_last_checkpoint(folder: str | pathlib.Path) -> str | None:
    """Returns the newest valid checkpoint in ``folder``, or None.

    Newer invalid checkpoints are skipped with a warning that names them. Nothing in the
    folder is changed: a run may be saving there.
    """
    found = durable.newest_verified(folder)
    return None if found is None else str(found)


def newest(folder: str | pathlib.Path) -> str | None:
    """Returns the checkpoint to go on from, or None where there is no checkpoint.

    Raises:
        CheckpointError: there are some, and none is valid: a fresh run would remove
            what a fault of the disk may only have made unreadable for now.
    """
    last, there = get_last_checkpoint(folder), durable.list_checkpoints(folder)
    if last is None and there:
        raise CheckpointError(
            f"{folder} holds {there[0].name}, expected a checkpoint that can be read "
            "(the warnings say why none can); check the disk and try again, or choose "
            "another output_dir"
        )
    return last


@contextmanager
def alone(args: TrainingArguments) -> Iterator[None]:
    """Keeps other runs out of output_dir, by its lock, as long as the block lasts.

    Leftovers of runs that ended are removed first.

    Raises:
        ConfigError: another run is in its block.
    """
    other = ConfigError(
        f"output_dir={args.output_dir!r}: another run trains into this folder now, "
        "expected none: each would overwrite the other's checkpoints; wait for its "
        "end, or choose another output_dir"
    )
    with durable.locked(args.output_dir, other) as is_locked:
        with reported(f"cannot clean {args.output_dir}", "no checkpoint is removed"):
            durable.clean_stale(args.output_dir, alone=is_locked)
        yield


def recover(folder: pathlib.Path) -> None:
    """Restores a checkpoint whose replacement was interrupted, unless a run is there.

    Call it where a run is about to begin or to go on, before a look for checkpoints.
    """
    with (
        suppress(_Busy),
        durable.locked(folder, _Busy()) as is_locked,
        reported(f"cannot clean {folder}", "no checkpoint is removed"),
    ):
        durable.clean_stale(folder, alone=is_locked)


class _Busy(Exception):
    """A run holds the lock of a folder."""


def check_output_dir(args: TrainingArguments) -> str | None:
    """Returns the checkpoint in ``output_dir`` to resume from, or None for a new run.

    Raises:
        ConfigError: the folder has files but no checkpoint, and overwrite_output_dir is
            not set: the files may be user data.
        CheckpointError: it has checkpoints, and none can be read.
    """
    folder = pathlib.Path(args.output_dir)
    if args.overwrite_output_dir or not folder.exists():
        return None
    if not folder.is_dir():
        raise ConfigError(
            f"output_dir={args.output_dir!r} is a file, expected a folder; choose "
            "another name"
        )
    recover(folder)
    last = newest(folder)
    names = {path.name for path in folder.iterdir()} - LOGS
    if last is None and not all(map(durable.is_leftover, names)):
        raise ConfigError(
            f"output_dir={args.output_dir!r} is not empty and has no checkpoint to go "
            "on from; choose another folder or pass --overwrite_output_dir"
        )
    return last


def check_writable(
    args: TrainingArguments, model: Any = None, collator: Any = None
) -> None:
    """Rejects before any work what could not be saved after it.

    Raises:
        ConfigError: the folder, or the one to create it in, is a file or read-only; or
            there will be checkpoints, and they cannot hold the model's config or the
            state of the collator.
    """
    path = pathlib.Path(args.output_dir).resolve()
    there = next(p for p in (path, *path.parents) if p.exists())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        raise ConfigError(
            f"output_dir={args.output_dir!r}: {there} is "
            f"{'read-only' if there.is_dir() else 'a file'}, expected a folder to "
            "write checkpoints and results to; choose another one"
        )
    config: Any = getattr(model, "config", None)
    if args.save_strategy != "no" and hasattr(config, "to_saved"):
        config.to_saved()
    if args.save_strategy != "no":
        _plain_state(collator)


def _is_in_output(args: TrainingArguments, path: pathlib.Path | None) -> bool:
    """Whether a checkpoint is in the run's own folder."""
    folder = pathlib.Path(args.output_dir).resolve()
    return path is not None and path.resolve().parent == folder


def refuse_others(args: TrainingArguments, path: pathlib.Path | None) -> None:
    """Rejects another run's checkpoints in output_dir.

    Args:
        args: the arguments.
        path: the checkpoint to resume from; a run goes on in its folder.

    Raises:
        ConfigError: there are some, and overwrite_output_dir is not set.
    """
    present = durable.list_checkpoints(args.output_dir)
    if present and not args.overwrite_output_dir and not _is_in_output(args, path):
        raise ConfigError(
            f"output_dir={args.output_dir!r} holds {present[0].name} of another run, "
            "expected none at a fresh start; pass resume_from_checkpoint=True to go "
            "on, overwrite_output_dir=True to remove it, or choose another folder"
        )


def clear_others(args: TrainingArguments, path: pathlib.Path | None) -> None:
    """With overwrite_output_dir, removes another run's checkpoints, log and results.

    Call it after all checks, so that a refused run leaves the folder as it was.
    """
    if not args.overwrite_output_dir or _is_in_output(args, path):
        return
    for path in durable.list_checkpoints(args.output_dir):
        shutil.rmtree(path)
    folder = pathlib.Path(args.output_dir)
    log = folder / "log.jsonl"
    if log.is_file():
        os.truncate(log, 0)  # an evaluation before the run may have it open
    for name in results.FILES:
        (folder / name).unlink(missing_ok=True)


def find(args: TrainingArguments, wanted: bool | str | None) -> pathlib.Path | None:
    """Returns the checkpoint ``resume_from_checkpoint`` selects; None for a new run.

    Args:
        args: ``output_dir`` is the folder of the run's checkpoints.
        wanted: None or False: a new run; True: the newest, which must exist;
            "auto": the newest, if any; anything else: a checkpoint folder.

    Raises:
        CheckpointError: the checkpoint does not exist or is damaged.
        ConfigError: ``wanted`` is none of these.
    """
    if wanted is None or wanted is False:
        return None
    if wanted is not True and not isinstance(wanted, (str, os.PathLike)):
        raise ConfigError(
            f"resume_from_checkpoint={wanted!r:.60}, expected True, 'auto' or the path "
            "of a checkpoint; set the length of a run by num_train_epochs or max_steps"
        )
    if wanted is True or wanted == "auto":
        look = get_last_checkpoint if args.overwrite_output_dir else newest
        last = look(args.output_dir)
        if last is None and wanted is True:
            raise CheckpointError(
                f"resume_from_checkpoint=True, expected a checkpoint-N in "
                f"{args.output_dir!r}, found none that is complete; pass 'auto' to "
                "start afresh in that case, or the path of a checkpoint"
            )
        return None if last is None else pathlib.Path(last)
    path = pathlib.Path(wanted)
    if not path.is_dir():
        raise CheckpointError(
            f"resume_from_checkpoint={str(wanted)!r}: no such folder, expected a "
            "checkpoint-N folder; look into output_dir for those that exist"
        )
    durable.verify_directory(path)
    return path


def save(
    parts: RunParts, state: TrainerState, weights_only: bool = False
) -> pathlib.Path:
    """Commits the run's state as ``checkpoint-<global_step>`` and rotates older ones.

    Args:
        parts, state: parts and state of the run.
        weights_only: omit the optimizer; a run cannot resume from such a checkpoint.

    Raises:
        NonFiniteError: a weight or moment is not finite; nothing is written.
        CheckpointError: the disk is full or not writable, or an overridden save_model
            wrote nothing; older ones are intact.
    """
    args = parts.args
    optimizer = None if weights_only else parts.optimizer
    final = folder_of(args, state.global_step)
    numerics.check_finite(parts.model, optimizer, f"saving {final.name}")
    tensors = _optimizer_arrays(optimizer)
    need = sum(array.nbytes for array in tensors.values())
    need += sum(host_array(p).nbytes for _, p in parts.model.named_parameters())

    def write(folder: pathlib.Path) -> None:
        import safetensors.numpy

        parts.save_model(output_dir=str(folder), _internal_call=True)
        if not os.listdir(folder):  # an override; resume and best model need these
            raise CheckpointError(
                f"{final}: save_model wrote no file into output_dir, expected the "
                "model; call super().save_model(output_dir, _internal_call) in it, or "
                "set save_strategy='no'"
            )
        if optimizer is not None:
            durable.write_bytes(folder / OPTIMIZER, safetensors.numpy.save(tensors))
        durable.write_json(
            folder / STATE, {**state.to_dict(), "resume": _resume_facts(parts)}
        )

    best = state.best_model_checkpoint
    return durable.commit_directory(
        final,
        write,
        step=state.global_step,
        keep=args.save_total_limit,
        protect=[best] if best else [],
        bytes_needed=need,
    )


def usable(path: pathlib.Path) -> AbstractContextManager[None]:
    """Turns errors about the values of a saved state into a CheckpointError."""
    return usable_values(
        path / STATE,
        "what a Trainer with the same callbacks wrote; choose another checkpoint",
    )


def restore(parts: RunParts, path: pathlib.Path) -> TrainerState:
    """Restores model, optimizer, schedule and random generators; returns the state.

    Raises:
        CheckpointError: the run cannot resume from it: it was saved without an
            optimizer or from another model, or data or batching changed.
    """
    values = read_values(path)
    facts = values.pop("resume", None)
    if not isinstance(facts, dict):
        raise CheckpointError(
            f"{path / STATE}: has no facts for a resume, expected the state of a "
            "Trainer of this package; choose another checkpoint"
        )
    if facts.get("random_streams") != RANDOM_STREAMS:
        raise CheckpointError(
            f"{path}: was saved in the middle of training by evolving-attention 0.1, "
            "which drew its random streams in sequence, expected streams by name "
            "(0.2 and later): the run would not go on as it began; resume it with "
            "evolving-attention 0.1, or load its weights with from_pretrained and "
            "train afresh"
        )
    state = TrainerState.from_dict(values, source=str(path / STATE))
    if not present(path, OPTIMIZER):
        raise CheckpointError(
            f"{path}: has no {OPTIMIZER} (saved with save_only_model), expected one to "
            "resume from; load it with from_pretrained and train afresh"
        )
    fingerprint.compare(
        facts["fingerprint"], parts.fingerprint, str(path), parts.args.force_resume
    )
    load_model(parts.model, path)
    _load_optimizer(parts.optimizer, path, facts["optimizer_step"])
    schedule, rate = facts["schedule"], parts.args.learning_rate
    if facts["fingerprint"].get("learning_rate", rate) != rate:
        schedule = {**schedule, "base_lrs": parts.schedule.base_lrs}  # forced
    parts.schedule.load_state_dict(schedule)
    runtime.set_random_state(facts["random"])
    if facts.get("collator") is not None and _has_state(parts.data_collator):
        parts.data_collator.load_state_dict(facts["collator"])
    state.best_model_checkpoint = _best_beside(path, state, parts.args)
    return state


def _best_beside(
    path: pathlib.Path, state: TrainerState, args: TrainingArguments
) -> str | None:
    """Returns the run's best checkpoint as a sibling folder of ``path``, or None.

    The state file may come from a stranger, so only a name is taken from it, never a
    path. (This also finds the best checkpoint of a run whose folder has moved.)

    Raises:
        CheckpointError: it is missing, and the end of the run would need it.
    """
    if state.best_model_checkpoint is None:
        return None
    name = os.path.basename(str(state.best_model_checkpoint))
    found = path.parent / name
    named = re.fullmatch(r"checkpoint-[0-9]+", name)
    if named and found.is_dir() and not found.is_symlink():
        return str(found)
    if args.load_best_model_at_end:
        raise CheckpointError(
            f"{path / STATE}: best_model_checkpoint is "
            f"{state.best_model_checkpoint!r:.200}, expected the name of a checkpoint "
            f"folder in {path.parent}; copy it there, or resume with "
            "load_best_model_at_end=False"
        )
    return None


@contextmanager
def kept_collator(collator: Any) -> Iterator[None]:
    """Restores the state of a collator after the block, if it has one."""
    stateful = _has_state(collator)
    before = copy.deepcopy(collator.state_dict()) if stateful else None
    try:
        yield
    finally:
        if stateful:
            collator.load_state_dict(before)


def _has_state(collator: Any) -> bool:
    """Whether a collator has both methods; those of a PyTorch module are for weights.

    So a PyTorch module begins a resumed run as the caller made it.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(collator, torch.nn.Module):
        return False
    names = ("state_dict", "load_state_dict")
    return all(callable(getattr(collator, name, None)) for name in names)


def _plain_state(collator: Any) -> Any:
    """Returns a copy of ``collator.state_dict()``; None if a collator has no state.

    Raises:
        ConfigError: JSON would not give the state back as it is.
    """
    if not _has_state(collator):
        return None
    state = collator.state_dict()
    try:
        saved = json.loads(json.dumps(state, sort_keys=True, allow_nan=False))
        reason = "" if saved == state else "JSON changes tuples and keys"
    except (TypeError, ValueError) as error:
        reason = f"JSON says: {error}"
    if reason:
        raise ConfigError(
            f"data_collator.state_dict() returned {state!r:.120}, expected plain "
            "values for checkpoints (dicts with text as keys, lists, text, finite "
            f"numbers, True, False or None); {reason}. Convert arrays and tuples to "
            "lists"
        )
    return saved


def _state_to_save(collator: Any) -> Any:
    """Returns the state of a collator; None, with a warning, if JSON cannot hold it.

    The state was plain before the first step: work since then must not be lost.
    """
    try:
        return _plain_state(collator)
    except ConfigError as error:
        warnings.warn(
            f"{error}. The checkpoint is saved without it: a resumed run would not "
            "draw the same batches",
            stacklevel=2,
        )
        return None


def load_model(model: Any, path: pathlib.Path) -> None:
    """Loads the weights of a checkpoint into an existing model of the same shape."""
    model.load_state_dict(load_folder(path).tensors)


def _resume_facts(parts: RunParts) -> dict[str, Any]:
    """Returns the data that a resume needs besides counters and tensors."""
    return {
        "schedule": parts.schedule.state_dict(),
        "optimizer_step": int(parts.optimizer.state_dict()["step"]),
        "random": runtime.get_random_state(),
        "collator": _state_to_save(parts.data_collator),
        "random_streams": RANDOM_STREAMS,
        "fingerprint": parts.fingerprint,
    }


def _optimizer_arrays(optimizer: Any | None) -> dict[str, np.ndarray]:
    """Returns the optimizer's tensors as arrays; the step goes into the JSON."""
    if optimizer is None:
        return {}
    return {
        name: np.ascontiguousarray(host_array(value))
        for name, value in optimizer.state_dict().items()
        if name != "step"
    }


def _load_optimizer(optimizer: Any, path: pathlib.Path, step: int) -> None:
    """Loads moments and master weights; names must match this optimizer's."""
    with open_inside(path, OPTIMIZER) as file:
        arrays = read_safetensors(file)
    optimizer.load_state_dict({"step": step, **arrays})
