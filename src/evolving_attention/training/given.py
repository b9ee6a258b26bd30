"""Checks the arguments of a Trainer, in several spellings, and converts them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evolving_attention._core import Tensor
from evolving_attention.data.labels import class_names, name_classes, numbered
from evolving_attention.errors import ConfigError
from evolving_attention.training.arguments import TrainingArguments


def arguments(given: Any, tokenizer: None = None) -> TrainingArguments:
    """Returns the options of a run: as given, from a dict, or the defaults.

    Raises:
        ConfigError: it is something else, the dict has an unknown option, or the
            tokenizer is passed under its older name.
    """
    if tokenizer is not None:
        raise ConfigError(
            "Trainer: tokenizer= was renamed, expected processing_class; pass "
            "processing_class=tokenizer"
        )
    if given is None:
        return TrainingArguments()
    if isinstance(given, Mapping):
        return TrainingArguments(**given)
    if not isinstance(given, TrainingArguments):
        kind = type(given)
        raise ConfigError(
            f"Trainer: args is a {kind.__module__}.{kind.__qualname__}, expected "
            "evolving_attention.TrainingArguments; pass TrainingArguments('out', …), "
            "or a dict of its options"
        )
    return given


def model_of(model: Any, model_init: Callable[..., Any] | None, optimizer: Any) -> Any:
    """Returns the model, made by ``model_init`` if there is one.

    Raises:
        ConfigError: neither or both are given; a class, a name or another library's
            model is given instead of a model; ``model_init`` makes none or needs
            several arguments, or the optimizer holds another model's tensors.
    """
    if (model is None) == (model_init is None):
        both = "none of the two" if model is None else "both"
        raise ConfigError(
            f"Trainer: {both} of model and model_init is given, expected one; pass the "
            "model to train, or a function that makes it afresh for each train()"
        )
    if model_init is not None:
        if optimizer is not None:
            raise ConfigError(
                "Trainer: model_init with optimizers, expected one of the two: an "
                "optimizer holds the tensors of one model; leave optimizers out, or "
                "override create_optimizer()"
            )
        model = model_init(None) if takes_trial(model_init) else model_init()
    if model is None or isinstance(model, type):
        what = "None" if model is None else f"the class {model.__name__}"
        where = "model" if model_init is None else "the result of model_init"
        raise ConfigError(
            f"Trainer: {where} is {what}, expected a model; make one by "
            "from_pretrained or from a config"
        )
    _check_model(model)
    return model


def takes_trial(make: Callable[..., Any]) -> bool:
    """Whether ``make`` is a ``model_init(trial)``, not a ``model_init()``.

    The trial is the first positional parameter, if that has no default or None.

    Raises:
        ConfigError: it needs further arguments.
    """
    kind = inspect.Parameter
    found = list(inspect.signature(make).parameters.values())
    by_name = (kind.KEYWORD_ONLY, kind.VAR_KEYWORD)
    first = next((p for p in found if p.kind not in by_name), None)
    stars = (kind.VAR_POSITIONAL, kind.VAR_KEYWORD)
    needed = [p for p in found if p.default is kind.empty and p.kind not in stars]
    others = " and ".join(p.name for p in needed if p is not first)
    if others:
        raise ConfigError(
            f"Trainer: model_init needs {', '.join(p.name for p in needed)}, expected "
            "at most one argument, the trial of a search; give a default to "
            f"{others}, or bind it by functools.partial"
        )
    return first is not None and first.default in (kind.empty, None)


def _check_model(model: Any) -> None:
    """Rejects a name instead of a model, and models of PyTorch."""
    remedy = (
        "load it by AutoModelForSequenceClassification.from_pretrained, for example"
    )
    if isinstance(model, (str, Path)):
        raise ConfigError(
            f"Trainer: model is the name {str(model)!r}, expected a model; {remedy}"
        )
    named = getattr(model, "named_parameters", None)
    first = next(iter(named()), None) if callable(named) else None
    if first is None or not isinstance(first[1], Tensor):
        kind = type(model)
        raise ConfigError(
            f"Trainer: model is a {kind.__module__}.{kind.__qualname__}, expected a "
            f"model of evolving_attention; {remedy}"
        )


def name_data(model: Any, dataset: Any, rows: Any) -> None:
    """Gives the model's config the names of its training data.

    Classes get the data set's names if they have none yet. ``text_columns`` are the
    columns of the texts, or None: commands that read the trained model choose them.

    Args:
        model: the model.
        dataset: the training set as the caller gave it.
        rows: its rows, from which batches are made.
    """
    config: Any = getattr(model, "config", None)
    names = class_names(dataset)
    if hasattr(config, "text_columns"):
        texts = getattr(rows, "text_columns", None)
        config.text_columns = None if texts is None else list(texts)
    known = getattr(config, "id2label", None)
    if config is None or not known or not names or len(names) != len(known):
        return
    if numbered(list(known.values())):
        name_classes(config, names)


def check_names(ignore_keys: Any, prefix: Any) -> None:
    """Checks the arguments of ``evaluate`` and ``predict`` besides the data set.

    Raises:
        ConfigError: one has another type, such as the prefix in the place of
            ``ignore_keys``.
    """
    if not isinstance(ignore_keys, (list, tuple, type(None))):
        raise ConfigError(
            f"Trainer: ignore_keys={ignore_keys!r:.40}, expected None or a list of "
            "names of outputs, as in transformers; pass a prefix by its name, such as "
            f"metric_key_prefix={ignore_keys!r:.40}"
        )
    if not isinstance(prefix, str):
        raise ConfigError(
            f"Trainer: metric_key_prefix={prefix!r:.40}, expected a str, with which "
            "the names of metrics begin; pass metric_key_prefix='test'"
        )


def check_trainable(model: Any) -> None:
    """Rejects a model without a parameter to train.

    Raises:
        ConfigError: every parameter is frozen.
    """
    every = [p for _, p in model.named_parameters()]
    if not any(getattr(p, "requires_grad", True) for p in every):
        raise ConfigError(
            f"Trainer: all {len(every)} parameters of the model are frozen "
            "(requires_grad = False), expected at least one to train; set "
            "requires_grad = True for those"
        )


def check_optimizers(pair: Any) -> tuple[Any, Any]:
    """Returns optimizer and schedule, None for those that the Trainer makes.

    Raises:
        ConfigError: it is not a pair, a schedule has no optimizer, or one of the two
            is of PyTorch or a class.
    """
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ConfigError(
            f"Trainer: optimizers is a {type(pair).__name__}, expected a pair; pass "
            "optimizers=(optimizer, schedule), or (optimizer, None)"
        )
    for role, held in zip(("optimizer", "schedule"), pair, strict=True):
        kind = held if isinstance(held, type) else type(held)
        if kind.__module__.partition(".")[0] == "torch":
            remedy = {
                "optimizer": (
                    f"which updates tensors of PyTorch and not this model; use "
                    f"ea.optim.{_OURS.get(kind.__name__, 'AdamW')}(model.parameters(), "
                    "lr=…), or leave it out and name optim and learning_rate in "
                    "TrainingArguments"
                ),
                "schedule": (
                    "which sets the rates of PyTorch's optimizers; leave it out and "
                    "name lr_scheduler_type in TrainingArguments"
                ),
            }
            raise ConfigError(
                f"Trainer: the {role} is {kind.__module__}.{kind.__name__}, "
                f"{remedy[role]}"
            )
        if isinstance(held, type):
            raise ConfigError(
                f"Trainer: the {role} is the class {kind.__name__}, expected an "
                f"instance; pass {kind.__name__}(…)"
            )
    optimizer, schedule = pair
    if optimizer is None and schedule is not None:
        raise ConfigError(
            "Trainer: optimizers has a schedule without its optimizer, expected "
            "both or none; pass optimizers=(optimizer, schedule)"
        )
    return optimizer, schedule


def check_callbacks(callbacks: Any) -> list[Any]:
    """Returns the caller's callbacks as a list; empty for None.

    Raises:
        ConfigError: it is not a list.
    """
    if not isinstance(callbacks, (list, tuple, type(None))):
        kind = callbacks if isinstance(callbacks, type) else type(callbacks)
        raise ConfigError(
            f"Trainer: callbacks is a {kind.__name__}, expected a list of callbacks; "
            "pass callbacks=[…]"
        )
    return [*(callbacks or ())]


_ORDER = "train_sampling_strategy, or the order of the data set"
_SAVED = "on_save of a callback"
# Methods of transformers' Trainer that this one does not have, by what replaces them.
_REPLACED = {
    "get_train_dataloader": "data_collator",
    "get_eval_dataloader": "data_collator",
    "get_test_dataloader": "data_collator",
    "training_step": "compute_loss",
    "prediction_step": "compute_loss",
    "evaluation_loop": "evaluate",
    "prediction_loop": "predict",
    "get_decay_parameter_names": "create_optimizer",
    "get_optimizer_cls_and_kwargs": "create_optimizer",
    "get_batch_samples": "data_collator",
    "_prepare_inputs": "data_collator",
    "_get_train_sampler": _ORDER,
    "_get_eval_sampler": "the order of the data set",
    "_save": _SAVED,
    "_save_checkpoint": _SAVED,
    "_load_best_model": "on_train_end of a callback",
    "_maybe_log_save_evaluate": "a callback",
    "_inner_training_loop": "train",
}
_CALLED = {  # methods that this Trainer calls by keywords, as transformers' does
    "create_optimizer_and_scheduler": ("num_training_steps",),
    "create_scheduler": ("num_training_steps", "optimizer"),
    "save_model": ("output_dir", "_internal_call"),
}


def check_methods(kind: type) -> None:
    """Rejects a subclass of Trainer with a method that only transformers' calls.

    Raises:
        ConfigError: there is one, of its own or of another base class; or a method
            cannot be called as in transformers.
    """
    for name, replacement in _REPLACED.items():
        if hasattr(kind, name):
            raise ConfigError(
                f"{kind.__name__}.{name}: this Trainer calls no such method, expected "
                f"one that it calls; use {replacement}"
            )
    for name, keywords in _CALLED.items():
        try:
            inspect.signature(getattr(kind, name)).bind(None, **dict.fromkeys(keywords))
        except TypeError as error:
            raise ConfigError(
                f"{kind.__name__}.{name} cannot be called ({error}), expected "
                f"{name}(self, {', '.join(keywords)}); give it these parameters"
            ) from error


_OURS = {"SGD": "SGD", "RAdam": "RAdam"}  # by PyTorch's names; all others: AdamW


def check_loss_func(function: Any, args: TrainingArguments) -> None:
    """Rejects a ``compute_loss_func`` that cannot be called as in Hugging Face.

    Raises:
        ConfigError: it does not take the arguments, or labels are smoothed too.
    """
    if function is None:
        return
    try:
        inspect.signature(function).bind(None, None, num_items_in_batch=1)
    except TypeError as error:
        raise ConfigError(
            "Trainer: compute_loss_func cannot be called ("
            f"{error}), expected compute_loss_func(outputs, labels, "
            "num_items_in_batch=None); give it these parameters"
        ) from error
    except ValueError:  # a C function without a signature
        pass
    if args.label_smoothing_factor:
        raise ConfigError(
            f"Trainer: label_smoothing_factor={args.label_smoothing_factor} with "
            "compute_loss_func, expected one of the two; smooth the labels in the "
            "function"
        )
