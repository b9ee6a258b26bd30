"""TextModel: what models of text add to a model: their call, and their pooler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from evolving_attention import _core
from evolving_attention._core import Tensor
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.modeling.base import PreTrainedModel
from evolving_attention.modeling.config import PretrainedConfig
from evolving_attention.modeling.outputs import ModelOutput
from evolving_attention.modeling.wanted import wanted_indices

__all__ = ["TextModel"]


class TextModel(PreTrainedModel):
    """A model whose input is token ids; see :class:`PreTrainedModel`."""

    # Whether the task reads the pooled output; None: the config decides.
    pooler: ClassVar[bool | None] = False

    def _make_core(self, options: dict[str, Any]) -> Any:
        config = self.config
        if self.pooler and not config.add_pooling_layer:
            raise self._wrong_pooler(False)
        return _core.create_model(
            config.model_type, options, self.dtype, config.attention.core_slot()
        )

    def __call__(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        token_type_ids: Any = None,
        position_ids: Any = None,
        labels: Any = None,
        *,
        sequence_offsets: Any = None,
        next_sentence_label: Any = None,
        label_smoothing: float = 0.0,
        output_hidden_states: bool | list[int] = False,
        output_attentions: bool | list[int] = False,
        output_attention_logits: bool | list[int] = False,
    ) -> ModelOutput:
        """Run the model on padded or packed input.

        Args:
            input_ids: token ids [B, T]; or packed [total] with ``sequence_offsets``.
            attention_mask: [B, T], 1 for tokens, 0 for padding; all 1 by default.
                Masked tokens are left out of the computation altogether.
            token_type_ids: segments, shape of input_ids; 0 by default.
            position_ids: positions, shape of input_ids; as the architecture counts by
                default.
            labels: [B] classes or values; of language models the shape of input_ids,
                -100 where nothing is to be predicted.
            sequence_offsets: [B + 1], where each packed sequence begins; ends with
                total.
            next_sentence_label: [B], 0 if the second text follows the first.
            label_smoothing: in [0, 1).
            output_hidden_states, output_attentions, output_attention_logits: True, or
                a list of indices, to return them, padded to [B, …, T], zeros outside;
                of packed input the hidden states stay packed, [total, hidden].

        Raises:
            InputError, ShapeError, DTypeError: an input cannot be used; says which one,
                where, and what was expected.
        """
        if input_ids is None:
            raise InputError(
                "input_ids is missing; pass the output of the tokenizer: "
                'model(**tokenizer("a text", return_tensors="np"))'
            )
        self._check_arguments(labels, next_sentence_label, label_smoothing)
        layers = self.config.num_hidden_layers
        return ModelOutput(
            **self._core.forward(
                input_ids,
                attention_mask,
                token_type_ids,
                position_ids,
                sequence_offsets,
                labels,
                next_sentence_label,
                label_smoothing,
                wanted_indices(
                    "output_hidden_states", output_hidden_states, layers + 1
                ),
                wanted_indices("output_attentions", output_attentions, layers),
                wanted_indices(
                    "output_attention_logits", output_attention_logits, layers
                ),
            )
        )

    def prepare(self, **inputs: Any) -> Any:
        """A batch checked whole and made up to a shape that comes again.

        Tokens are added behind the batch's own, up to the next multiple of 64 or of an
        eighth of their number; they are sequences of their own, which no loss reads.

        Args:
            inputs: as of a call, with ``labels``.

        Raises:
            as a call, and ConfigError where the model has no task.
        """
        self._check_arguments(
            inputs.get("labels"),
            inputs.get("next_sentence_label"),
            inputs.get("label_smoothing", 0.0),
        )
        return self._core.prepare(**inputs)

    def prepared_loss(self, prepared: Any) -> Tensor:
        """The loss of a batch that :meth:`prepare` gave."""
        return self._core.forward_prepared(prepared)["loss"]

    def _check_arguments(
        self, labels: Any, next_sentence_label: Any, label_smoothing: Any
    ) -> None:
        """Refuse what this head would ignore, and what is no number."""
        name = type(self).__name__
        if labels is not None and self.head == "base":
            raise InputError(
                f"{name}: labels are given, but a model without a task has no loss; "
                "expected none; use a class with a task, such as "
                "ea.AutoModelForSequenceClassification"
            )
        if next_sentence_label is not None and self.head != "pretraining":
            raise InputError(
                f"{name}: next_sentence_label is given, expected only by models for "
                "pre-training; leave it out, or use ea.AutoModelForPreTraining"
            )
        if isinstance(label_smoothing, bool) or not isinstance(
            label_smoothing, (int, float, np.number)
        ):
            raise ConfigError(
                f"{name}: label_smoothing={label_smoothing!r}, expected a number in "
                "[0, 1)"
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
