"""Training: arguments, Trainer, checkpoints, schedules, callbacks."""

from evolving_attention.metrics.prediction import EvalPrediction
from evolving_attention.training.arguments import TrainingArguments
from evolving_attention.training.averaging import (
    average_checkpoints,
    last_checkpoints,
)
from evolving_attention.training.callbacks import EarlyStoppingCallback, TrainerCallback
from evolving_attention.training.checkpoint import check_output_dir, get_last_checkpoint
from evolving_attention.training.runtime import set_seed
from evolving_attention.training.schedules import get_scheduler
from evolving_attention.training.search import BestRun
from evolving_attention.training.state import (
    PredictionOutput,
    TrainerControl,
    TrainerState,
    TrainOutput,
)
from evolving_attention.training.trainer import Trainer

__all__ = [
    "BestRun",
    "EarlyStoppingCallback",
    "EvalPrediction",
    "PredictionOutput",
    "TrainOutput",
    "Trainer",
    "TrainerCallback",
    "TrainerControl",
    "TrainerState",
    "TrainingArguments",
    "average_checkpoints",
    "check_output_dir",
    "get_last_checkpoint",
    "get_scheduler",
    "last_checkpoints",
    "set_seed",
]
