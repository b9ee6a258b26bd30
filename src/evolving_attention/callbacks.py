"""Public interface of the callbacks: ``ea.callbacks.TensorBoard()`` and the others."""

from evolving_attention.training.callbacks import EarlyStoppingCallback, TrainerCallback
from evolving_attention.training.logging import ConsoleCallback as Console
from evolving_attention.training.logging import JsonLinesCallback as JsonLines
from evolving_attention.training.logging import TensorBoardCallback as TensorBoard
from evolving_attention.training.progress import NotebookProgress, TerminalProgress

EarlyStopping = EarlyStoppingCallback

__all__ = [
    "Console",
    "EarlyStopping",
    "EarlyStoppingCallback",
    "JsonLines",
    "NotebookProgress",
    "TensorBoard",
    "TerminalProgress",
    "TrainerCallback",
]
