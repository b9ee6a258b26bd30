"""Models by name, as in timm: ``ea.create_model("ea_bert_base")``."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar, overload

from evolving_attention import attention
from evolving_attention.errors import ConfigError, suggestion
from evolving_attention.modeling.base import MODELS, PreTrainedModel
from evolving_attention.modeling.config import PretrainedConfig
from evolving_attention.modeling.generation import GenerativeModel

_Maker = TypeVar("_Maker", bound=Callable[..., PreTrainedModel])
_MAKERS: dict[str, Callable[..., PreTrainedModel]] = {}
_SIZES: dict[str, tuple[type[PretrainedConfig], dict[str, Any]]] = {}
_ATTENTION: dict[str, dict[str, Any]] = {  # prefix of a name: its attention
    "": {},
    "ea_": {"attention": attention.Evolving(alpha=0.1, beta=0.1)},
    "pa_": {"attention": attention.Predictive(alpha=0.1)},
}


def register_model(
    maker: _Maker = None,  # type: ignore[assignment]  # @ea.register_model() is refused
) -> _Maker:
    """Decorator: registers a function that returns a model under its own name.

    The function receives the settings of :func:`create_model` as keywords.

    Raises:
        ConfigError: another function already has the name, or it has none.

    Example:
        >>> import evolving_attention as ea
        >>> @ea.register_model
        ... def bert_thin(**settings):
        ...     return ea.create_model("bert_base", hidden_size=192, **settings)
    """
    name = getattr(maker, "__name__", None)
    if name is None or not callable(maker):
        raise ConfigError(
            f"register_model: {maker!r}, expected a function, whose name is the "
            "model's; write @ea.register_model, without arguments, above it"
        )
    held = _MAKERS.get(name)
    if held is not None and _path_of(held) != _path_of(maker):
        raise ConfigError(
            f"model name '{name}' is already {_path_of(held)}; "
            "register the function under another name"
        )
    _MAKERS[name] = maker
    return maker


def _path_of(maker: Callable[..., Any]) -> str:
    """Returns module and name: a cell of a notebook that runs again keeps them."""
    return f"{maker.__module__}.{getattr(maker, '__qualname__', maker.__name__)}"


def list_models(pattern: str | Iterable[str] | None = "*") -> list[str]:
    """Returns the names that :func:`create_model` knows, sorted.

    Args:
        pattern: shell-style pattern, such as ``"ea_*"``; a list of them for the names
            that fit any; None for all names.
    """
    if pattern is None:
        pattern = "*"
    patterns = [pattern] if isinstance(pattern, str) else pattern
    return sorted({name for one in patterns for name in fnmatch.filter(_MAKERS, one)})


def sizes_of(name: str) -> tuple[type[PretrainedConfig], dict[str, Any]] | None:
    """Returns the config class and the options that a name stands for.

    Returns None if the name is unknown, or if :func:`register_model` made it.
    """
    return _SIZES.get(name)


@overload
def create_model(
    name: str, *, task: Literal["seq2seq_lm"], **settings: Any
) -> GenerativeModel: ...
@overload
def create_model(name: str, **settings: Any) -> PreTrainedModel: ...
def create_model(name: str, **settings: Any) -> PreTrainedModel:
    """Creates a model with random weights, by name.

    Args:
        name: one of :func:`list_models`.
        settings: ``task`` (one of the family's: ``"base"``, ``"masked_lm"``,
            ``"pretraining"``, ``"sequence_classification"``, …; by default ``"base"``,
            for image models ``"image_classification"``), ``dtype``, ``device``, and
            options of the config (``hidden_size``, ``num_labels``, ``attention``, …)
            that replace those of the name.

    Raises:
        ConfigError: the name or the task is unknown, a setting is invalid, or a
            function of :func:`register_model` returned no model.

    Example:
        >>> import evolving_attention as ea
        >>> model = ea.create_model(
        ...     "ea_bert_base", task="sequence_classification", num_labels=2
        ... )
    """
    if not isinstance(name, str) or name not in _MAKERS:
        hint = suggestion(name, _MAKERS, "choose one of them")
        raise ConfigError(
            f"model name {name!r} is not known, expected one of ea.list_models(); "
            f"{hint}"
        )
    model = _MAKERS[name](**settings)
    if not isinstance(model, PreTrainedModel):
        raise ConfigError(
            f"create_model({name!r}): {_path_of(_MAKERS[name])} returned {model!r}, "
            "expected a model; end the function with `return model`"
        )
    return model


def register_sizes(
    name: str,
    config: type[PretrainedConfig],
    prefixes: tuple[str, ...] = tuple(_ATTENTION),
    task: str = "base",
    **sizes: Any,
) -> None:
    """Registers models under the name of their size.

    Args:
        name: name of the size, such as ``"bert_base"``.
        config: the config class of the architecture.
        prefixes: prefixes of the registered names: ``""``, ``"ea_"`` (evolving
            attention) and ``"pa_"`` (predictive attention), by default all three.
        task: default task of the models.
        sizes: options of the config.
    """
    for prefix in prefixes:
        _register(f"{prefix}{name}", config, task, {**_ATTENTION[prefix], **sizes})


def _register(
    name: str,
    config: type[PretrainedConfig],
    usual_task: str,
    defaults: dict[str, Any],
) -> None:
    def make(
        task: str = usual_task,
        dtype: Any = "float32",
        device: str = "cpu",
        **options: Any,
    ) -> PreTrainedModel:
        classes = {
            task: of_task[config.model_type]
            for task, of_task in sorted(MODELS.items())
            if config.model_type in of_task
        }
        if not isinstance(task, str) or task not in classes:
            raise ConfigError(
                f"{name}: task={task!r}, expected one of {', '.join(classes)}"
            )
        return classes[task](config(**{**defaults, **options}), dtype, device=device)

    make.__name__ = make.__qualname__ = name
    register_model(make)
    _SIZES[name] = config, defaults
