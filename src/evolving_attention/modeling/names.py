"""Models by name, as users of timm know them: ``ea.create_model("ea_bert_base")``."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable
from typing import Any, TypeVar

from evolving_attention import attention
from evolving_attention.errors import ConfigError
from evolving_attention.modeling.auto import (
    AutoBase,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
)
from evolving_attention.modeling.base import PreTrainedModel
from evolving_attention.modeling.bert import BertConfig
from evolving_attention.modeling.config import PretrainedConfig
from evolving_attention.modeling.roberta import RobertaConfig

__all__ = ["create_model", "list_models", "register_model"]

_Maker = TypeVar("_Maker", bound=Callable[..., PreTrainedModel])
_MAKERS: dict[str, Callable[..., PreTrainedModel]] = {}
_TASKS: dict[str, type[AutoBase]] = {
    "base": AutoModel,
    "masked_lm": AutoModelForMaskedLM,
    "pretraining": AutoModelForPreTraining,
    "sequence_classification": AutoModelForSequenceClassification,
}


def register_model(maker: _Maker) -> _Maker:
    """Decorator: make a function that returns a model known by its own name.

    The function takes the settings of :func:`create_model` as keywords.

    Raises:
        ConfigError: another function has the name.

    Example:
        >>> import evolving_attention as ea
        >>> @ea.register_model
        ... def bert_thin(**settings):
        ...     return ea.create_model("bert_base", hidden_size=192, **settings)
    """
    name = maker.__name__
    held = _MAKERS.get(name)
    if held is not None and held.__qualname__ != maker.__qualname__:
        raise ConfigError(
            f"model name '{name}' is already {held.__module__}.{held.__qualname__}; "
            "register the function under another name"
        )
    _MAKERS[name] = maker
    return maker


def list_models(pattern: str = "*") -> list[str]:
    """The names that :func:`create_model` knows, in order.

    Args:
        pattern: shell-style, such as ``"ea_*"``.
    """
    return sorted(fnmatch.filter(_MAKERS, pattern))


def create_model(name: str, **settings: Any) -> PreTrainedModel:
    """A new model with random weights, by name.

    Args:
        name: one of :func:`list_models`.
        settings: ``task`` (``"base"``, ``"sequence_classification"``, ``"masked_lm"``
            or ``"pretraining"``), ``dtype``, ``device``, and options of the config
            (``hidden_size``, ``num_labels``, ``attention``, …) in place of the name's.

    Raises:
        ConfigError: the name or the task is not known, or a setting cannot be used.

    Example:
        >>> import evolving_attention as ea
        >>> model = ea.create_model(
        ...     "ea_bert_base", task="sequence_classification", num_labels=2
        ... )
    """
    if name not in _MAKERS:
        near = difflib.get_close_matches(str(name), _MAKERS, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ConfigError(
            f"model name {name!r} is not known{hint}; ea.list_models() lists the names"
        )
    return _MAKERS[name](**settings)


def _family(name: str, config: type[PretrainedConfig], **sizes: Any) -> None:
    """Make a name known: this config with these sizes."""

    def make(
        task: str = "base", dtype: str = "float32", device: str = "cpu", **options: Any
    ) -> PreTrainedModel:
        if task not in _TASKS:
            raise ConfigError(
                f"{name}: task={task!r}, expected one of {', '.join(_TASKS)}"
            )
        made = config(**{**sizes, **options})
        return _TASKS[task].from_config(made, dtype, device=device)

    make.__name__ = make.__qualname__ = name
    register_model(make)


_LARGE = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
_KINDS: dict[str, dict[str, Any]] = {
    "": {},
    "ea_": {"attention": attention.Evolving(alpha=0.1, beta=0.1)},
    "pa_": {"attention": attention.Predictive(alpha=0.1)},
}
_REALFORMER = {  # He et al., 2021, Section 3.1: layers, width, heads
    "small": (4, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
    "xlarge": (36, 1536, 24),
}
for _prefix, _kind in _KINDS.items():
    _family(f"{_prefix}bert_base", BertConfig, **_kind)
    _family(f"{_prefix}bert_large", BertConfig, **_LARGE, **_kind)
    _family(f"{_prefix}roberta_base", RobertaConfig, **_kind)
    _family(f"{_prefix}roberta_large", RobertaConfig, **_LARGE, **_kind)
for _size, (_layers, _width, _heads) in _REALFORMER.items():
    _family(
        f"realformer_{_size}",
        BertConfig,
        num_hidden_layers=_layers,
        hidden_size=_width,
        num_attention_heads=_heads,
        intermediate_size=4 * _width,
        attention=attention.Residual(),
    )
