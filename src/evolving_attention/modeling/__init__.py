"""Hugging Face's interface to the C++ models: configs, task and Auto classes."""

from evolving_attention.modeling.auto import (
    AutoConfig,
    AutoModel,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForMultipleChoice,
    AutoModelForPreTraining,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
from evolving_attention.modeling.base import PreTrainedModel
from evolving_attention.modeling.bert import (
    BertConfig,
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
)
from evolving_attention.modeling.cifar_net import (
    CifarNetConfig,
    CifarNetForImageClassification,
    CifarNetModel,
)
from evolving_attention.modeling.config import PretrainedConfig
from evolving_attention.modeling.gat import (
    GATConfig,
    GATForNodeClassification,
    GATModel,
)
from evolving_attention.modeling.generation import GenerationOutput
from evolving_attention.modeling.generation_options import GenerationOptions
from evolving_attention.modeling.images import (
    ImageClassifierOutput,
    ImageConfig,
    ImageModel,
)
from evolving_attention.modeling.names import (
    create_model,
    list_models,
    register_model,
)
from evolving_attention.modeling.outputs import (
    ModelOutput,
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    TokenClassifierOutput,
)
from evolving_attention.modeling.resnet import (
    AAResNetConfig,
    AAResNetForImageClassification,
    AAResNetModel,
    ResNetConfig,
    ResNetForImageClassification,
    ResNetModel,
)
from evolving_attention.modeling.roberta import (
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForMultipleChoice,
    RobertaForQuestionAnswering,
    RobertaForSequenceClassification,
    RobertaForTokenClassification,
    RobertaModel,
)
from evolving_attention.modeling.series import (
    EADCTransformerConfig,
    EADCTransformerForClassification,
    EADCTransformerForPretraining,
    EADCTransformerForRegression,
    EADCTransformerModel,
)
from evolving_attention.modeling.span_corruption import corrupt_spans
from evolving_attention.modeling.span_masks import mask_spans
from evolving_attention.modeling.t5 import (
    T5Config,
    T5ForConditionalGeneration,
    T5Model,
)
from evolving_attention.modeling.text import TextModel
from evolving_attention.modeling.text_net import (
    TextNetConfig,
    TextNetForSequenceClassification,
)
from evolving_attention.modeling.transformer import (
    TransformerConfig,
    TransformerForConditionalGeneration,
    TransformerModel,
)
from evolving_attention.modeling.vit import (
    ViTConfig,
    ViTForImageClassification,
    ViTModel,
)

__all__ = [
    "AAResNetConfig",
    "AAResNetForImageClassification",
    "AAResNetModel",
    "AutoConfig",
    "AutoModel",
    "AutoModelForImageClassification",
    "AutoModelForMaskedLM",
    "AutoModelForMultipleChoice",
    "AutoModelForPreTraining",
    "AutoModelForQuestionAnswering",
    "AutoModelForSeq2SeqLM",
    "AutoModelForSequenceClassification",
    "AutoModelForTokenClassification",
    "BertConfig",
    "BertForMaskedLM",
    "BertForMultipleChoice",
    "BertForPreTraining",
    "BertForQuestionAnswering",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertModel",
    "CifarNetConfig",
    "CifarNetForImageClassification",
    "CifarNetModel",
    "EADCTransformerConfig",
    "EADCTransformerForClassification",
    "EADCTransformerForPretraining",
    "EADCTransformerForRegression",
    "EADCTransformerModel",
    "GATConfig",
    "GATForNodeClassification",
    "GATModel",
    "GenerationOptions",
    "GenerationOutput",
    "ImageClassifierOutput",
    "ImageConfig",
    "ImageModel",
    "ModelOutput",
    "MultipleChoiceModelOutput",
    "PreTrainedModel",
    "PretrainedConfig",
    "QuestionAnsweringModelOutput",
    "ResNetConfig",
    "ResNetForImageClassification",
    "ResNetModel",
    "RobertaConfig",
    "RobertaForMaskedLM",
    "RobertaForMultipleChoice",
    "RobertaForQuestionAnswering",
    "RobertaForSequenceClassification",
    "RobertaForTokenClassification",
    "RobertaModel",
    "T5Config",
    "T5ForConditionalGeneration",
    "T5Model",
    "TextModel",
    "TextNetConfig",
    "TextNetForSequenceClassification",
    "TokenClassifierOutput",
    "TransformerConfig",
    "TransformerForConditionalGeneration",
    "TransformerModel",
    "ViTConfig",
    "ViTForImageClassification",
    "ViTModel",
    "corrupt_spans",
    "create_model",
    "list_models",
    "mask_spans",
    "register_model",
]
