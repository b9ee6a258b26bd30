"""Auto classes, which choose the architecture by config.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from evolving_attention.errors import CheckpointError, ConfigError
from evolving_attention.interop.evolving_mark import base_type
from evolving_attention.interop.loading_options import without_loading
from evolving_attention.modeling.base import MODELS, PreTrainedModel
from evolving_attention.modeling.config import CONFIGS, PretrainedConfig

if TYPE_CHECKING:
    from evolving_attention.modeling.generation import GenerativeModel


class AutoConfig:
    """Reads a config.json into the config class of its ``model_type``."""

    @staticmethod
    def from_pretrained(
        name: str | Path, *, local_files_only: bool = False, **overrides: Any
    ) -> PretrainedConfig:
        """Reads it; raises CheckpointError if missing, ConfigError if invalid."""
        from evolving_attention.interop.hf import load_config
        from evolving_attention.interop.resolve import resolve

        overrides = without_loading("AutoConfig.from_pretrained", overrides)
        folder = resolve(name, local_files_only=local_files_only)
        values = load_config(folder)
        kind = _type_of(values)
        if kind not in CONFIGS:
            raise ConfigError(_unknown(str(folder), kind, CONFIGS))
        return CONFIGS[kind]._from_file(values, folder, **overrides)


class AutoBase:
    """Common base of the Auto classes; they differ in ``task``."""

    task: ClassVar[str]

    def __init__(self) -> None:
        raise ConfigError(
            f"{type(self).__name__} is made by from_pretrained(name) or "
            "from_config(config)"
        )

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | Path, **kwargs: Any
    ) -> PreTrainedModel:
        """Loads a checkpoint; arguments as in :meth:`PreTrainedModel.from_pretrained`.

        Raises:
            CheckpointError, UnsafeCheckpointError, ConfigError: see there.
        """
        from evolving_attention.interop.hf import load_config
        from evolving_attention.interop.resolve import resolve

        kwargs = without_loading(f"{cls.__name__}.from_pretrained", kwargs)
        local = bool(kwargs.get("local_files_only", False))
        folder = resolve(name_or_path, local_files_only=local)
        values = load_config(folder)
        kind = _type_of(values)
        classes = MODELS[cls.task]
        if "model_type" not in values and isinstance(values.get("architecture"), str):
            raise CheckpointError(
                f"{folder}: is a folder of timm ({values['architecture']}), which "
                f"{cls.__name__} does not read; load it with ea.ViTModel or "
                "ea.ViTForImageClassification"
            )
        if kind not in classes:
            others = " (ea.ViTModel reads dinov2)" if kind == "dinov2" else ""
            raise CheckpointError(_unknown(str(folder), kind, classes) + others)
        return classes[kind].from_pretrained(folder, **kwargs)

    @classmethod
    def from_config(
        cls,
        config: PretrainedConfig,
        dtype: Any = "float32",
        *,
        device: str = "cpu",
    ) -> PreTrainedModel:
        """Creates a model with random weights."""
        if not isinstance(config, PretrainedConfig):
            raise ConfigError(
                f"{cls.__name__}.from_config: expected a config such as "
                f"ea.BertConfig(...), got a {type(config).__name__}"
            )
        classes = MODELS[cls.task]
        if config.model_type not in classes:
            raise ConfigError(_unknown("config", config.model_type, classes))
        return classes[config.model_type](config, dtype, device=device)


def _type_of(values: Mapping[str, Any]) -> Any:
    """Returns the architecture in a config.json, without the evolving prefix.

    Configs from before 2020 have no model_type: they are taken for BERT's, unless the
    tensors' names, read later, contradict it.
    """
    return base_type({"model_type": "bert", **values})


def _unknown(place: str, kind: object, known: Any) -> str:
    return (
        f"{place}: model_type {kind!r} is not supported here; expected one of "
        f"{', '.join(sorted(known))}"
    )


class AutoModel(AutoBase):
    """The base model: hidden states."""

    task = "base"


class AutoModelForSequenceClassification(AutoBase):
    """Classification, or regression with ``num_labels=1``."""

    task = "sequence_classification"


class AutoModelForTokenClassification(AutoBase):
    """Predicts a class for each token: entities, parts of speech."""

    task = "token_classification"


class AutoModelForQuestionAnswering(AutoBase):
    """Finds the span of a text that answers a question about it."""

    task = "question_answering"


class AutoModelForMultipleChoice(AutoBase):
    """Chooses one of several texts for each question."""

    task = "multiple_choice"


class AutoModelForMaskedLM(AutoBase):
    """Predicts masked tokens."""

    task = "masked_lm"


class AutoModelForPreTraining(AutoBase):
    """Pre-training: BERT's masked LM with next sentence, RoBERTa's masked LM, …"""

    task = "pretraining"


class AutoModelForImageClassification(AutoBase):
    """Classifies images."""

    task = "image_classification"


class AutoModelForSeq2SeqLM(AutoBase):
    """Generates target sequences from source sequences, such as translations."""

    task = "seq2seq_lm"

    if TYPE_CHECKING:  # these models generate

        @classmethod
        def from_pretrained(
            cls, name_or_path: str | Path, **kwargs: Any
        ) -> GenerativeModel:
            raise NotImplementedError

        @classmethod
        def from_config(
            cls, config: PretrainedConfig, dtype: Any = "float32", *, device: str = ""
        ) -> GenerativeModel:
            raise NotImplementedError
