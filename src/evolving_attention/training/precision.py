"""The element type of a run: checked against the model, or chosen by timing both.

``precision="auto"`` times a few optimizer steps in each type on the run's first
batches, with temporary models and optimizers. Apart from the type, this does not
change the run: weights, generators and data order are as in a run that names the type.
The training state keeps the choice for resumed runs.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import itertools
import math
import pathlib
import time
from collections.abc import Callable, Iterable
from typing import Any

from evolving_attention import optim
from evolving_attention.errors import (
    CheckpointError,
    ConfigError,
    NonFiniteError,
    OutOfMemory,
)
from evolving_attention.interop.hf import CONFIG_NAME
from evolving_attention.interop.json_file import read_object
from evolving_attention.interop.limits import MAX_CONFIG_BYTES
from evolving_attention.notices import say
from evolving_attention.training import batches as b
from evolving_attention.training import runtime
from evolving_attention.training.alone import Alone
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.state import TrainerState, read_values
from evolving_attention.training.step import StepRunner

CHOICES = ("float32", "bfloat16")
STEPS = 3  # timed, after an untimed one that builds kernels and fills the allocator
_clock = time.perf_counter


def check(model: Any, args: TrainingArguments, own_optimizer: bool) -> None:
    """Rejects a model whose element type does not fit the arguments.

    A float32 model is converted to bfloat16 on request, with a notice.

    Raises:
        ConfigError: it has another type, or precision="auto" cannot convert it.
    """
    wanted, has = args.dtype, str(getattr(model, "dtype", None))
    if args.precision != "auto":
        if wanted is None or has in ("None", wanted):
            return
        if (wanted, has) == ("bfloat16", "float32") and hasattr(model, "to"):
            if own_optimizer:
                raise ConfigError(
                    "Trainer: the model is float32 and the optimizer is made of its "
                    "tensors, expected bfloat16; call model.to('bfloat16') before you "
                    "make the optimizer"
                )
            model.to("bfloat16")
            say(
                "the model is turned into bfloat16, with float32 master weights in the "
                "optimizer; leave bf16 out (precision='float32') to train it as it was"
            )
        else:
            raise ConfigError(
                f"Trainer: the model is {has}, expected {wanted} (bf16="
                f"{args.bf16}, precision={args.precision!r}); load it with "
                f"from_pretrained(..., dtype={wanted!r})"
            )
    elif has not in CHOICES or not hasattr(model, "to"):
        raise ConfigError(
            f"Trainer: precision='auto' with a {type(model).__name__} of "
            f"{has}, expected a model of this package in float32 or bfloat16; "
            "load it so, or leave precision out"
        )
    elif own_optimizer:
        raise ConfigError(
            "Trainer: precision='auto' with your own optimizer, expected none, "
            "since it holds tensors of one element type; name the precision, or "
            "leave optimizers out"
        )


def settle(
    model: Any,
    args: TrainingArguments,
    checkpoint: pathlib.Path | None,
    *,
    team: Alone,
    batches: Callable[[], Iterable[b.Batch | None]],
    compute_loss: Callable[..., Any],
) -> dict[str, Any] | None:
    """Converts the model to the type of this run; None if the type was named.

    Args:
        model, args, team: those of the run.
        checkpoint: the checkpoint to resume from, whose type is kept.
        batches: makes the batches of the first epoch.
        compute_loss: maps (model, inputs) to the loss.
    """
    if args.precision != "auto":
        return None

    def seconds_of(dtype: str) -> float:
        every = args.gradient_accumulation_steps
        with contextlib.closing(b.groups_of(batches(), every)) as steps:
            groups = list(itertools.islice(steps, STEPS))
        model_of_its_own = model.copy(dtype).train()
        return seconds_of_steps(model_of_its_own, args, groups, compute_loss)

    with runtime.kept_random_state():
        if checkpoint is not None:
            choice = _saved_choice(checkpoint)
        else:
            device = str(getattr(model, "device", "cpu"))
            choice = choose(str(model.dtype), seconds_of, device)
            choice = team.first(choice)
        model.to(choice["chosen"])
    return choice


def seconds_of_steps(
    model: Any,
    args: Any,
    groups: list[list[b.Batch | None]],
    compute_loss: Callable[..., Any],
) -> float:
    """Measures the seconds of ``STEPS`` optimizer steps, after an untimed one.

    Args:
        model: a temporary model; it is trained.
        args: arguments of the run; a non-finite value stops the steps.
        groups: batches of each step; repeated if there are too few.
        compute_loss: maps (model, inputs) to the loss.
    """
    args = copy.copy(args)
    args.on_nonfinite = "stop"
    parameters = model.named_parameters()
    runner = StepRunner(
        model,
        optim.create(args.optim, parameters, **args.optimizer_settings()),
        args,
        loss_of=lambda batch: compute_loss(model, b.inputs_of(batch)),
        event=lambda name: None,
        on_report=lambda report: None,
    )
    state, seconds = TrainerState(), 0.0
    runner.run(groups[0], state)
    for _, group in zip(range(STEPS), itertools.cycle(groups), strict=False):
        begin = _clock()
        runner.run(group, state)
        seconds += _clock() - begin
    return seconds


def choose(
    own: str, seconds_of: Callable[[str], float], device: str = "cpu"
) -> dict[str, Any]:
    """Returns the element type to train in, and the reason, for the training state.

    Args:
        own: the model's type, kept if neither type could be timed.
        seconds_of: times one type; may raise NonFiniteError or OutOfMemory.
        device: the device of the run.

    Returns:
        ``chosen``, ``reason``, and, if they were timed, ``float32_seconds`` and
        ``bfloat16_seconds``.
    """
    if not runtime.has_fast_bfloat16(device):
        return {
            "chosen": "float32",
            "reason": "this CPU has no bfloat16 instructions in use; nothing was timed",
        }
    found: dict[str, float] = {}
    failed: dict[str, str] = {}
    for dtype in CHOICES:
        try:
            found[dtype] = float(seconds_of(dtype))
        except (NonFiniteError, OutOfMemory) as error:
            failed[dtype] = f"{type(error).__name__} in {dtype}"
        gc.collect()
        runtime.release_cached_memory()
    plain, short = (found.get(dtype, math.inf) for dtype in CHOICES)
    if not found:
        chosen, reason = own, "the model's own type: no step could be timed"
    elif failed:
        chosen, reason = next(iter(found)), "the other type could not be timed"
    elif short < plain:
        chosen, reason = "bfloat16", f"{plain / short:.2f} times as fast as float32"
    else:
        chosen, reason = "float32", f"{short / plain:.2f} times as fast as bfloat16"
    if failed:
        reason += f" ({', '.join(failed.values())})"
    elif found:
        reason += f" over {STEPS} steps"
    return {
        "chosen": chosen,
        "reason": reason,
        **{f"{dtype}_seconds": round(value, 6) for dtype, value in found.items()},
    }


def _saved_choice(path: pathlib.Path) -> dict[str, Any]:
    """Returns the choice in a checkpoint, or the type of its run if it has none.

    Raises:
        CheckpointError: the checkpoint is unreadable, or has another type.
    """
    try:
        state = read_values(path)
        config = read_object(path, CONFIG_NAME, MAX_CONFIG_BYTES)
        choice = state.get("precision") or {
            "chosen": config["dtype"],
            "reason": "as the checkpoint was trained; nothing was timed",
        }
        chosen = choice["chosen"]
    except (KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(
            f"{path}: the element type of the run cannot be read ({error!r}), expected "
            "the checkpoint of a Trainer of this package; choose another checkpoint"
        ) from error
    if chosen not in CHOICES:
        raise CheckpointError(
            f"{path}: the run was in {chosen!r}, expected {' or '.join(CHOICES)} with "
            "precision='auto'; leave precision out to continue in that type"
        )
    return dict(choice)
