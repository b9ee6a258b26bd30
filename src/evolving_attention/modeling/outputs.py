"""Outputs of models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from evolving_attention._core import Tensor

_ABSENT: Any = None


@dataclass
class ModelOutput:
    """Results by name; a result that was not requested or does not exist is None.

    Also usable as a mapping of the present results, ``output["logits"]``,
    ``dict(output)``, and by position in the order below: ``output[0]``,
    ``output[:2]``, ``output.to_tuple()``.

    Attributes:
        loss: 0-d, when labels were given.
        logits: [B, num_labels]; language models: [B, T, vocab], or [n, vocab] with
            ``logits_to_keep``; token classifiers: [B, T, num_labels]; multiple choice:
            [B, choices].
        start_logits, end_logits: [B, T], of models for question answering; -1e30 in
            the padding.
        seq_relationship_logits: [B, 2], of pre-training models.
        last_hidden_state: [B, T, hidden], of base models.
        pooler_output: [B, hidden], of base models with a pooler.
        hidden_states: a tuple, 0 for the embeddings, i after layer i; [B, T, hidden].
        attentions: a tuple, one for each layer: probabilities [B, heads, T, T].
        attention_logits: a tuple, one for each layer: the maps L carried to the next
            layer.
        attention_scores: a tuple, one for each layer: the maps S of this layer alone,
            before the evolving step, including relative positions.

        encoder_last_hidden_state: [B, S, hidden], of encoder-decoders.
        encoder_hidden_states, decoder_hidden_states: hidden_states of each stack.
        encoder_attentions, decoder_attentions, cross_attentions: attentions of each
            kind; the decoder's over the encoder's output are [B, heads, T, S].
        encoder_attention_logits, decoder_attention_logits, cross_attention_logits: the
            carried maps.
        encoder_attention_scores, decoder_attention_scores, cross_attention_scores: the
            maps before the evolving step.

    In the tuples, layers that were not requested are None; backward() fills ``grad`` of
    the others. The annotations omit None, so that ``output.loss.backward()`` needs no
    assertion.
    """

    loss: Tensor = _ABSENT
    logits: Tensor = _ABSENT
    start_logits: Tensor = _ABSENT
    end_logits: Tensor = _ABSENT
    seq_relationship_logits: Tensor = _ABSENT
    last_hidden_state: Tensor = _ABSENT
    pooler_output: Tensor = _ABSENT
    hidden_states: tuple[Tensor, ...] = _ABSENT
    attentions: tuple[Tensor, ...] = _ABSENT
    attention_logits: tuple[Tensor, ...] = _ABSENT
    attention_scores: tuple[Tensor, ...] = _ABSENT
    encoder_last_hidden_state: Tensor = _ABSENT
    encoder_hidden_states: tuple[Tensor, ...] = _ABSENT
    decoder_hidden_states: tuple[Tensor, ...] = _ABSENT
    encoder_attentions: tuple[Tensor, ...] = _ABSENT
    decoder_attentions: tuple[Tensor, ...] = _ABSENT
    cross_attentions: tuple[Tensor, ...] = _ABSENT
    encoder_attention_logits: tuple[Tensor, ...] = _ABSENT
    decoder_attention_logits: tuple[Tensor, ...] = _ABSENT
    cross_attention_logits: tuple[Tensor, ...] = _ABSENT
    encoder_attention_scores: tuple[Tensor, ...] = _ABSENT
    decoder_attention_scores: tuple[Tensor, ...] = _ABSENT
    cross_attention_scores: tuple[Tensor, ...] = _ABSENT

    @property
    def prediction_logits(self) -> Tensor:
        """Masked-LM logits of a pre-training model, under Hugging Face's name."""
        return self.logits

    def keys(self) -> list[str]:
        """Names of the present results."""
        return [f.name for f in fields(self) if getattr(self, f.name) is not None]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def to_tuple(self) -> tuple[Any, ...]:
        """The present results, in the order of their names."""
        return tuple(getattr(self, name) for name in self.keys())

    def values(self) -> list[Any]:
        """The present results, in the order of their names."""
        return list(self.to_tuple())

    def items(self) -> list[tuple[str, Any]]:
        """Names and values of the present results."""
        return list(zip(self.keys(), self.to_tuple(), strict=True))

    def get(self, name: str, default: Any = None) -> Any:
        """A result, or ``default`` if it is not present."""
        return self[name] if name in self.keys() else default

    def __getitem__(self, name: str | int | slice) -> Any:
        names = self.keys()
        if isinstance(name, slice):
            return self.to_tuple()[name]
        if isinstance(name, (int, np.integer)):
            if not -len(names) <= name < len(names):
                raise IndexError(
                    f"output[{name}]: expected {-len(names)} to {len(names) - 1}; this "
                    f"output has {', '.join(names)}"
                )
            name = names[name]
        if name not in names:
            raise KeyError(f"{name}: this output has {', '.join(names)}")
        return getattr(self, name)


class TokenClassifierOutput(ModelOutput):
    """Output of token classification: ``loss``, ``logits`` [B, T, num_labels]."""


class QuestionAnsweringModelOutput(ModelOutput):
    """Output of question answering: ``loss``, ``start_logits``, ``end_logits``."""


class MultipleChoiceModelOutput(ModelOutput):
    """Output of multiple choice: ``loss`` and ``logits`` [B, choices]."""
