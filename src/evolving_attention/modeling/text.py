"""TextModel: what models of text add to a model: their call, and their pooler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from evolving_attention.errors import ConfigError, InputError
from evolving_attention.modeling.base import PreTrainedModel
from evolving_attention.modeling.config import PretrainedConfig

__all__ = ["TextModel"]


class TextModel(PreTrainedModel):
    """A model whose input is token ids; see :class:`PreTrainedModel`."""

    # Whether the task reads the pooled output; None: the config decides.
    pooler: ClassVar[bool | None] = False

    needed = (
        "input_ids",
        "pass the output of the tokenizer: "
        'model(**tokenizer("a text", return_tensors="np"))',
    )

    def _check_config(self, config: PretrainedConfig) -> None:
        if self.pooler and not config.add_pooling_layer:
            raise self._wrong_pooler(False)

    def _check_inputs(self, inputs: Mapping[str, Any]) -> None:
        """Refuse what this head would ignore."""
        name = type(self).__name__
        if inputs.get("labels") is not None and self.head == "base":
            raise InputError(
                f"{name}: labels are given, but a model without a task has no loss; "
                "expected none; use a class with a task, such as "
                "ea.AutoModelForSequenceClassification"
            )
        next_label = inputs.get("next_sentence_label")
        if next_label is not None and self.head != "pretraining":
            raise InputError(
                f"{name}: next_sentence_label is given, expected only by models for "
                "pre-training; leave it out, or use ea.AutoModelForPreTraining"
            )

    @classmethod
    def _check_overrides(cls, overrides: Mapping[str, Any]) -> None:
        given = overrides.get("add_pooling_layer")
        if None not in (given, cls.pooler) and given != cls.pooler:
            raise cls._wrong_pooler(given)

    @classmethod
    def _adapt(
        cls, config: PretrainedConfig, tensors: Mapping[str, np.ndarray]
    ) -> PretrainedConfig:
        """A base model has a pooler as its checkpoint, others as their task."""
        if cls.head == "base" and not any("pooler." in name for name in tensors):
            config.add_pooling_layer = False
        elif cls.pooler:
            config.add_pooling_layer = True
        return config

    @classmethod
    def _wrong_pooler(cls, given: Any) -> ConfigError:
        needs = "needs its" if cls.pooler else "has no"
        return ConfigError(
            f"{cls.__name__}: add_pooling_layer = {given!r}, expected {cls.pooler}: "
            f"this task {needs} pooler; leave the option out"
        )
