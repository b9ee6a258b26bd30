"""One process of the runs that test_distributed.py starts; a program, not a test.

    python distributed_run.py FOLDER JOB…

Every JOB is a JSON object: options of the TrainingArguments, and what is done (below).
Each rank writes what came out into FOLDER/result-<job>-<rank>.json.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from helpers_models import tiny

import evolving_attention as ea
from evolving_attention import _core, distributed
from evolving_attention.device_names import host_array
from evolving_attention.distributed.gradients import GradientSum
from evolving_attention.training import TrainerCallback

ROWS, EVAL_ROWS = 41, 11
SENT: list[list[int]] = []  # per turn: buckets sent while backward ran, and all


def note_what_is_sent() -> None:
    """Write into SENT how far each turn is when its backward ends."""
    close = GradientSum.close

    def noted(self: GradientSum) -> None:
        SENT.append([self._next, len(self.buckets)])
        close(self)

    GradientSum.close = noted  # type: ignore[method-assign]


def make_rows(count: int, seed: int, labels: str) -> list[dict[str, Any]]:
    """Rows of 3 to 20 tokens, the same in every process."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        ids = rng.integers(2, 40, rng.integers(3, 21))
        label = (
            int(rng.integers(0, 2))
            if labels == "row"
            else np.where(rng.random(len(ids)) < 0.4, ids, -100)
        )
        rows.append({"input_ids": ids, "labels": label})
    return rows


def tested_rows(labels: str, other: str | None, rank: int) -> list[dict[str, Any]]:
    """Rows of two batches: none for rank 2."""
    rows = make_rows(3, 2, labels)
    if other == "test labels":
        rows[0]["labels"] = rank
    return rows[rank:] if other == "test data" else rows


class Event(TrainerCallback):
    """Does something to one rank at one step."""

    def __init__(self, what: str, rank: int, step: int) -> None:
        self.what, self.rank, self.step = what, rank, step

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """Die, fail, be told to end or spoil a weight, in the middle of a step."""
        mine = distributed.world().rank == self.rank
        if not mine or state.global_step + 1 != self.step:
            return
        if self.what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.what == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
        if self.what == "spoil":
            bias = dict(kwargs["model"].named_parameters())["classifier.bias"]
            bias.copy_(np.full(bias.shape, np.nan, np.float32))
        if self.what == "fail":
            raise RuntimeError("the disk of this rank is on fire")


class Early(Event):
    """The same before anything of a step is on its way."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Before the step's first batch."""
        super().on_pre_optimizer_step(args, state, control)

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        """It is done."""


class Scoring(Event):
    """The same in the evaluation before a step."""

    def on_prediction_step(
        self, args: Any, state: Any, control: Any, **kwargs: Any
    ) -> None:
        """After each batch."""
        super().on_pre_optimizer_step(args, state, control)

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        """It was done."""


class Stops(TrainerCallback):
    """Ends the run at the first event of some name, as decided by rank 0 alone."""

    def __init__(self, event: str) -> None:
        setattr(self, event, self._stop)

    def _stop(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            control.should_training_stop = np.float32(1) > 0  # NumPy's, not bool


class Final(TrainerCallback):
    """Evaluates when training has ended, also by an error."""

    trainer: ea.Trainer

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """All ranks share the batches."""
        self.trainer.evaluate()
        print("evaluated at the end", flush=True)


class Waits(TrainerCallback):
    """How often the host has waited for a device when each step begins."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Once a step."""
        self.seen.append(_core.host_waits())


class Own(ea.Trainer):
    """A loss that is not finite for one row, or that one rank takes long for."""

    bad_row = -1
    slow = (-1, 0)  # the rank and the step

    def compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        if self.slow == (self.team.rank, self.state.global_step + 1):
            time.sleep(12)
        loss = super().compute_loss(model, inputs)
        first = np.asarray(inputs["input_ids"])[0]
        if (
            self.bad_row >= 0
            and first == self.train_dataset[self.bad_row]["input_ids"][0]
        ):
            return loss * float("nan")
        return loss


def accuracy(pair: Any) -> dict[str, float]:
    """Share of rows whose largest logit is the label's."""
    found = np.asarray(pair.predictions).argmax(axis=-1)
    return {"accuracy": float((found == np.asarray(pair.label_ids)).mean())}


def digest(arrays: Any) -> str:
    """A name for the bits of some arrays."""
    state = hashlib.sha256()
    for array in arrays:
        state.update(np.ascontiguousarray(host_array(array)).view(np.uint8).tobytes())
    return state.hexdigest()


def train(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """One training run and what came out of it."""
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("RANK", "0")))
    model_options = job.pop("model", {})
    labels = "token" if "MaskedLM" in model_options.get("name", "") else "row"
    event, resume = job.pop("event", None), job.pop("resume", None)
    stop, final = job.pop("stop", None), job.pop("final", False)
    slow = tuple(job.pop("slow", Own.slow))
    other, bad = job.pop("differs", None), job.pop("bad_row", -1)
    count, frozen = job.pop("rows", ROWS), job.pop("frozen", [])
    unlabelled = job.pop("unlabelled", 0)  # number of rows, the first ones
    options = {
        "per_device_train_batch_size": 4,
        "per_device_eval_batch_size": 2,
        "num_train_epochs": 2,
        "learning_rate": 3e-3,
        "weight_decay": 0.01,
        "warmup_steps": 2,
        "max_grad_norm": 0.5,
        "logging_steps": 1,
        "save_steps": 2,
        "eval_strategy": "epoch",
        "disable_tqdm": True,
        "ddp_bucket_cap_mb": 0.004,
        **job,
    }
    if other == "arguments" and rank:
        options["learning_rate"] = 1.0
    rows = make_rows(count, 7 if other == "data" and rank else 0, labels)
    for row in rows[:unlabelled]:
        row["labels"] = -100
    model = tiny(seed=1 + rank, **model_options)  # rank 0's weights count
    for name, parameter in model.named_parameters():
        here = other != "frozen" or rank
        parameter.requires_grad = not (here and name.startswith(tuple(frozen)))
    waits = Waits()
    callbacks: list[Any] = [waits, Stops(stop)] if stop else [waits]
    if event:
        what, *where = event
        what, _, when = what.partition(" ")
        kind = {"": Event, "early": Early, "scoring": Scoring}[when]
        callbacks.append(kind(what, *where))
    trainer = Own(
        model,
        ea.TrainingArguments(str(folder), **options),
        train_dataset=rows,
        eval_dataset=make_rows(EVAL_ROWS, 1, labels),
        compute_metrics=accuracy if labels == "row" else None,
        callbacks=callbacks,
    )
    trainer.bad_row, trainer.slow = bad, slow
    if final:
        Final.trainer = trainer
        trainer.add_callback(Final)
    output = trainer.train(resume_from_checkpoint=resume)
    if other == "call" and not rank:
        trainer.evaluate()
    found = trainer.predict(tested_rows(labels, other, rank))
    trainer.save_state()
    return {
        "weights": digest(p for _, p in model.named_parameters()),
        "predictions": digest([found.predictions, found.label_ids]),
        "loss": output.training_loss,
        "metrics": {
            k: v
            for k, v in found.metrics.items()
            if "runtime" not in k and "second" not in k
        },
        "steps": output.global_step,
        "rng": list(ea.get_rng_state()),
        "rank": trainer.team.rank,
        "size": trainer.team.size,
        "threads": ea.get_num_threads(),
        "sent": SENT[0] if SENT else None,
        "device": model.device,
        "waits": np.diff(waits.seen).tolist(),
        "first": trainer.is_world_process_zero(),
    }


def main() -> None:
    """Run the jobs one after another."""
    root, code = Path(sys.argv[1]), 0
    note_what_is_sent()
    for number, text in enumerate(sys.argv[2:]):
        job = json.loads(text)
        folder = root / job.pop("folder", f"run-{number}")
        try:
            result = train(folder, job)
        except ea.Interrupted as error:
            result, code = {"error": "Interrupted", "message": str(error)}, 143
        except Exception as error:
            result = {"error": type(error).__name__, "message": str(error)}
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            code = 1
        rank = os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("RANK", "0"))
        (root / f"result-{number}-{rank}.json").write_text(json.dumps(result))
        if "error" in result:
            break
    sys.exit(code)


if __name__ == "__main__":
    main()
