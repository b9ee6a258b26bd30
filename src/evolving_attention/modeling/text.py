"""TextModel: the call and the pooler that text models add to a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from evolving_attention.data.collate import IGNORED
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.modeling.base import PreTrainedModel
from evolving_attention.modeling.config import PretrainedConfig
from evolving_attention.modeling.labels import check_labels
from evolving_attention.modeling.outputs import (
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    TokenClassifierOutput,
)

_LANGUAGE = ("masked_lm", "pretraining")  # heads that predict masked tokens
_SPAN = ("start_positions", "end_positions")
_OTHER_HEADS = ("token_classification", "question_answering", "multiple_choice")


class TextModel(PreTrainedModel):
    """A model whose input is token ids; see :class:`PreTrainedModel`."""

    # Whether the task reads the pooled output; None: the config decides.
    pooler: ClassVar[bool | None] = False

    needed = (
        "input_ids",
        "pass the output of the tokenizer: "
        'model(**tokenizer("a text", return_tensors="np"))',
    )

    def predict(
        self,
        texts: Any,
        tokenizer: Any,
        *,
        top_k: int | Literal["best"] | None = "best",
        batch_size: int = 32,
        max_length: int | None = None,
        progress: bool = True,
    ) -> Any:
        """Predicts labels and probabilities; each batch has texts of similar length.

        Args:
            texts: a text; or a list (or any iterable, of any length) of texts, of
                pairs ``(first, second)``, or of ``{"text": …, "text_pair": …}``.
            tokenizer: the model's own, or one of transformers.
            top_k: return a list of the k best labels for each text, best first; None:
                all labels; ``"best"``: the best one, without a list.
            batch_size: texts in one batch.
            max_length: tokens to read of a text; default: as many as the model can.
            progress: show a progress bar if it takes longer than a second.

        Returns:
            As transformers' pipelines: a list with ``{"label": …, "score": …}`` for
            each text, in input order; with ``top_k``, a list of such dicts for each. A
            single text gives a list with one dict, or its list of ``top_k``. The score
            is the label's probability; for regression it is the predicted value.

        Raises:
            InputError: an item is not a text, or the model does not classify sequences.
            NonFiniteError: a prediction is NaN or infinite.

        Example::

            model.predict(["A good film.", "A bad one."], tokenizer)
            # [{"label": "positive", "score": 0.97}, {"label": "negative", …}]
        """
        if self.head != "sequence_classification":
            raise InputError(
                f"{type(self).__name__}.predict: this model has no classes, expected "
                "one for sequence classification; load it by "
                "ea.AutoModelForSequenceClassification"
            )
        from evolving_attention.modeling.predict import predict

        return predict(
            *(self, texts, tokenizer),
            top_k=top_k,
            batch_size=batch_size,
            max_length=max_length,
            progress=progress,
        )

    def at_labels(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns inputs that give the same loss while fewer logits are computed.

        Masked language models predict about 15 % of the tokens. On packed input, the
        head and the last layer after its attention then compute only these rows:
        ``logits_to_keep`` [n] are their indices and ``labels`` [n] their tokens. Inputs
        of other heads, padded inputs and inputs without a label are returned unchanged.

        Args:
            inputs: inputs of the model's call.

        Example::

            out = model(**model.at_labels(batch))  # out.logits is [n, vocab_size]
        """
        given = dict(inputs)
        labels = given.get("labels")
        if labels is None or self.head not in _LANGUAGE:
            return given
        if "sequence_offsets" not in given or "logits_to_keep" in given:
            return given
        places = np.flatnonzero(np.asarray(labels) != IGNORED)
        if len(places) and np.shape(labels) == np.shape(given["input_ids"]):
            given["labels"] = np.asarray(labels)[places]
            given["logits_to_keep"] = places
        return given

    def _check_config(self, config: PretrainedConfig) -> None:
        if self.pooler and not config.add_pooling_layer:
            raise self._wrong_pooler(False)
        width = getattr(config, "classifier_hidden_size", None)
        if width is not None and self.head in _OTHER_HEADS:
            raise ConfigError(
                f"{type(self).__name__}: classifier_hidden_size = {width}, expected "
                "None: only classifiers of sequences have that layer; leave it out, or "
                "pass classifier_hidden_size=None"
            )

    def _check_inputs(self, inputs: Mapping[str, Any]) -> None:
        """Rejects inputs that this head would ignore."""
        name, labels = type(self).__name__, inputs.get("labels")
        if labels is not None and self.head in ("base", "sequence_classification"):
            check_labels(self, labels, "text")
        next_label = inputs.get("next_sentence_label")
        if next_label is not None and self.head != "pretraining":
            raise InputError(
                f"{name}: next_sentence_label is given, expected only by models for "
                "pre-training; leave it out, or use ea.AutoModelForPreTraining"
            )
        kept = inputs.get("logits_to_keep")
        if kept is not None and self.head not in _LANGUAGE:
            raise InputError(
                f"{name}: logits_to_keep is given, expected only by masked language "
                "models; leave it out, or use ea.AutoModelForMaskedLM"
            )
        span = next((one for one in _SPAN if inputs.get(one) is not None), None)
        if span is not None and self.head != "question_answering":
            raise InputError(
                f"{name}: {span} is given, expected only by models for question "
                "answering; leave it out, or use ea.AutoModelForQuestionAnswering"
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
        """Sets the pooler: a base model as its checkpoint, others as their task."""
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


class TokenClassificationModel(TextModel):
    """A text model with a class for each token; labels of -100 are ignored.

    The loss is the mean cross entropy over the other tokens.
    """

    output_class = TokenClassifierOutput


class QuestionAnsweringModel(TextModel):
    """A text model that marks the span of an answer in each sequence.

    Takes ``start_positions`` and ``end_positions`` [B] instead of labels. The loss is
    the mean of two cross entropies over the tokens of a sequence, for the start and
    for the end; a position outside the sequence is ignored. Unlike in transformers,
    the loss excludes padding and padding has logits of -1e30, so the amount of padding
    affects neither.
    """

    output_class = QuestionAnsweringModelOutput

    def _check_config(self, config: PretrainedConfig) -> None:
        super()._check_config(config)
        if config.num_labels != 2:
            raise ConfigError(
                f"{type(self).__name__}: num_labels = {config.num_labels}, expected 2: "
                "the logits of the start and of the end; pass num_labels=2"
            )

    def _check_inputs(self, inputs: Mapping[str, Any]) -> None:
        super()._check_inputs(inputs)
        if inputs.get("labels") is not None:
            raise InputError(
                f"{type(self).__name__}: labels are given, expected start_positions "
                "and end_positions, the places of the answers' first and last tokens; "
                "pass these"
            )


class MultipleChoiceModel(TextModel):
    """A text model that chooses one of C texts for each of B questions.

    ``input_ids`` and its companion arrays are [B, C, T], and ``labels`` [B] hold the
    indices of the right choices. Arrays [C, T], or packed ones, are the choices of one
    question. The loss is the cross entropy over the choices.
    """

    output_class = MultipleChoiceModelOutput
