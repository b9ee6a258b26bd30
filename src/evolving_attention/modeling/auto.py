"""Auto classes: the architecture is chosen by config.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from evolving_attention.errors import CheckpointError, ConfigError
from evolving_attention.interop.evolving_mark import base_type
from evolving_attention.modeling import bert, roberta, series
from evolving_attention.modeling.base import PreTrainedModel
from evolving_attention.modeling.config import PretrainedConfig

__all__ = [
    "AutoConfig",
    "AutoModel",
    "AutoModelForMaskedLM",
    "AutoModelForPreTraining",
    "AutoModelForSequenceClassification",
]

_CONFIGS: dict[str, type[PretrainedConfig]] = {
    "bert": bert.BertConfig,
    "roberta": roberta.RobertaConfig,
    "ea_dc_transformer": series.EADCTransformerConfig,
}


class AutoConfig:
    """Reads a config.json into the config class of its ``model_type``."""

    @staticmethod
    def from_pretrained(name: str | Path, **overrides: Any) -> PretrainedConfig:
        """Raises CheckpointError when there is none, ConfigError when it is no good."""
        from evolving_attention.interop.hf import load_config
        from evolving_attention.interop.resolve import resolve

        folder = resolve(name)
        values = load_config(folder)
        kind = _type_of(values)
        if kind not in _CONFIGS:
            raise ConfigError(_unknown(str(folder), kind, _CONFIGS))
        return _CONFIGS[kind].from_dict(values, **overrides)


class AutoBase:
    """What the Auto classes share; they differ in ``classes``."""

    classes: ClassVar[dict[str, type[PreTrainedModel]]]

    def __init__(self) -> None:
        raise ConfigError(
            f"{type(self).__name__} is made by from_pretrained(name) or "
            "from_config(config)"
        )

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | Path, **kwargs: Any
    ) -> PreTrainedModel:
        """Load a checkpoint; arguments as :meth:`PreTrainedModel.from_pretrained`.

        Raises:
            CheckpointError, UnsafeCheckpointError, ConfigError: see there.
        """
        from evolving_attention.interop.hf import load_config
        from evolving_attention.interop.resolve import resolve

        local = bool(kwargs.get("local_files_only", False))
        folder = resolve(name_or_path, local_files_only=local)
        kind = _type_of(load_config(folder))
        if kind not in cls.classes:
            raise CheckpointError(_unknown(str(folder), kind, cls.classes))
        return cls.classes[kind].from_pretrained(folder, **kwargs)

    @classmethod
    def from_config(
        cls,
        config: PretrainedConfig,
        dtype: str = "float32",
        *,
        device: str = "cpu",
    ) -> PreTrainedModel:
        """A new model with random weights."""
        if not isinstance(config, PretrainedConfig):
            raise ConfigError(
                f"{cls.__name__}.from_config: expected a config such as "
                f"ea.BertConfig(...), got a {type(config).__name__}"
            )
        if config.model_type not in cls.classes:
            raise ConfigError(_unknown("config", config.model_type, cls.classes))
        return cls.classes[config.model_type](config, dtype, device=device)


def _type_of(values: Mapping[str, Any]) -> Any:
    """The architecture that a config.json names, without the mark of evolving ones.

    Configs from before 2020 do not say their model_type: they are BERT's, unless the
    tensors' names, read later, speak against it.
    """
    return base_type({"model_type": "bert", **values})


def _unknown(place: str, kind: object, known: Any) -> str:
    return (
        f"{place}: model_type {kind!r} is not supported here; expected one of "
        f"{', '.join(sorted(known))}"
    )


class AutoModel(AutoBase):
    """The base model: hidden states."""

    classes: ClassVar = {
        "bert": bert.BertModel,
        "roberta": roberta.RobertaModel,
        "ea_dc_transformer": series.EADCTransformerModel,
    }


class AutoModelForSequenceClassification(AutoBase):
    """Classification, or regression with ``num_labels=1``."""

    classes: ClassVar = {
        "bert": bert.BertForSequenceClassification,
        "roberta": roberta.RobertaForSequenceClassification,
    }


class AutoModelForMaskedLM(AutoBase):
    """Prediction of masked tokens."""

    classes: ClassVar = {
        "bert": bert.BertForMaskedLM,
        "roberta": roberta.RobertaForMaskedLM,
    }


class AutoModelForPreTraining(AutoBase):
    """The tasks of pre-training: BERT's masked LM with next sentence; RoBERTa's LM."""

    classes: ClassVar = {
        "bert": bert.BertForPreTraining,
        "roberta": roberta.RobertaForMaskedLM,
    }
