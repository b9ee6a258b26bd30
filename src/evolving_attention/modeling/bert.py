"""BERT: config and task classes (Devlin et al., NAACL 2019)."""

from __future__ import annotations

from typing import Any, ClassVar

from evolving_attention.attention import Residual
from evolving_attention.interop.bert import BERT
from evolving_attention.modeling.config import PretrainedConfig
from evolving_attention.modeling.names import register_sizes
from evolving_attention.modeling.text import (
    MultipleChoiceModel,
    QuestionAnsweringModel,
    TextModel,
    TokenClassificationModel,
)


class BertConfig(PretrainedConfig):
    """Sizes of BERT, by default BERT-Base uncased; see :class:`PretrainedConfig`.

    ``norm_first`` puts the layer norms before attention and feed-forward (pre-norm:
    Xiong et al., ICML 2020) and one after the last layer, with the parameter names of
    transformers' RoBERTa-PreLayerNorm. ``classifier_hidden_size`` replaces the pooler
    of the sequence classifier by a fully connected layer with tanh of that width, with
    the parameter names of RoBERTa's classifier: "the final fully-connected layer before
    softmax" of Wang et al., ICML 2021, A.2, of width 2000.
    """

    model_type = "bert"
    marks_evolving = True
    defaults: ClassVar[dict[str, Any]] = {
        "vocab_size": 30522,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "add_pooling_layer": True,
        "norm_first": False,
        "classifier_hidden_size": None,
    }


class _Bert(TextModel):
    config_class = BertConfig
    table = BERT


class BertModel(_Bert):
    """The encoder with its pooler: ``last_hidden_state`` and ``pooler_output``."""

    head = "base"
    pooler = None


class BertForSequenceClassification(_Bert):
    """A linear classifier (or regressor, ``num_labels=1``) on the pooled output."""

    head = "sequence_classification"
    pooler = True


class BertForTokenClassification(TokenClassificationModel, _Bert):
    """A linear classifier of each token: entities, parts of speech."""

    head = "token_classification"


class BertForQuestionAnswering(QuestionAnsweringModel, _Bert):
    """Predicts where the answer begins and ends (Section 4.2 of the paper)."""

    head = "question_answering"


class BertForMultipleChoice(MultipleChoiceModel, _Bert):
    """Chooses one of several second texts; each gets a score from its pooled output."""

    head = "multiple_choice"
    pooler = True


class BertForMaskedLM(_Bert):
    """Predicts masked tokens; the output matrix is tied to the word embedding."""

    head = "masked_lm"


class BertForPreTraining(_Bert):
    """Masked language modelling and next-sentence prediction."""

    head = "pretraining"
    pooler = True


register_sizes(
    "bert_small",
    BertConfig,
    hidden_size=512,
    num_hidden_layers=4,
    num_attention_heads=8,
    intermediate_size=2048,
)
register_sizes("bert_base", BertConfig)
register_sizes(
    "bert_large",
    BertConfig,
    hidden_size=1024,
    num_hidden_layers=24,
    num_attention_heads=16,
    intermediate_size=4096,
)
_REALFORMER = {  # He et al., 2021, Section 3.1: layers, width, heads
    "small": (4, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
    "xlarge": (36, 1536, 24),
}
for _size, (_layers, _width, _heads) in _REALFORMER.items():
    register_sizes(
        f"realformer_{_size}",
        BertConfig,
        prefixes=("",),
        num_hidden_layers=_layers,
        hidden_size=_width,
        num_attention_heads=_heads,
        intermediate_size=4 * _width,
        attention=Residual(),
    )
