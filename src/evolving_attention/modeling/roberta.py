"""RoBERTa: config and task classes (Liu et al., 2019)."""

from __future__ import annotations

from typing import Any, ClassVar

from evolving_attention.interop.roberta import ROBERTA
from evolving_attention.modeling.bert import BertConfig
from evolving_attention.modeling.config import PretrainedConfig
from evolving_attention.modeling.names import register_sizes
from evolving_attention.modeling.text import (
    MultipleChoiceModel,
    QuestionAnsweringModel,
    TextModel,
    TokenClassificationModel,
)


class RobertaConfig(PretrainedConfig):
    """Sizes of RoBERTa, by default RoBERTa-Base; see :class:`PretrainedConfig`.

    Positions are counted from ``pad_token_id + 1``, so 514 positions serve 512 tokens.
    ``classifier_hidden_size`` is the width of the layer before the sequence
    classifier, by default ``hidden_size``; Wang et al., ICML 2021, A.2, use 4096.
    """

    model_type = "roberta"
    marks_evolving = True
    defaults: ClassVar[dict[str, Any]] = {
        **BertConfig.defaults,
        "vocab_size": 50265,
        "max_position_embeddings": 514,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
        "pad_token_id": 1,
    }


class _Roberta(TextModel):
    config_class = RobertaConfig
    table = ROBERTA


class RobertaModel(_Roberta):
    """The encoder: ``last_hidden_state`` and ``pooler_output``."""

    head = "base"
    pooler = None


class RobertaForSequenceClassification(_Roberta):
    """A two-layer classifier (or regressor, ``num_labels=1``) on the first token."""

    head = "sequence_classification"


class RobertaForTokenClassification(TokenClassificationModel, _Roberta):
    """A linear classifier of each token: entities, parts of speech."""

    head = "token_classification"


class RobertaForQuestionAnswering(QuestionAnsweringModel, _Roberta):
    """Predicts where the answer begins and ends in each sequence."""

    head = "question_answering"


class RobertaForMultipleChoice(MultipleChoiceModel, _Roberta):
    """Chooses one of several second texts; each gets a score from its pooled output."""

    head = "multiple_choice"
    pooler = True


class RobertaForMaskedLM(_Roberta):
    """Predicts masked tokens; the output matrix is tied to the word embedding."""

    head = "masked_lm"
    tasks = ("masked_lm", "pretraining")


register_sizes("roberta_base", RobertaConfig)
register_sizes(
    "roberta_large",
    RobertaConfig,
    hidden_size=1024,
    num_hidden_layers=24,
    num_attention_heads=16,
    intermediate_size=4096,
)
