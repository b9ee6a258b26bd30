"""Inference on texts in one call: ``ea.pipeline`` and ``ea.Translator``."""

from evolving_attention.pipelines.texts import (
    QuestionAnsweringPipeline,
    TextClassificationPipeline,
    pipeline,
)
from evolving_attention.pipelines.translator import Translator

__all__ = [
    "QuestionAnsweringPipeline",
    "TextClassificationPipeline",
    "Translator",
    "pipeline",
]
