"""Builds ``__call__`` of a model from the inputs that its architecture declares."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from evolving_attention import _core
from evolving_attention.device_names import host_array
from evolving_attention.errors import ConfigError, InputError, suggestion
from evolving_attention.modeling.outputs import ModelOutput
from evolving_attention.modeling.wanted import wanted_indices

_OUTPUTS = (
    "output_hidden_states",
    "output_attentions",
    "output_attention_logits",
    "output_attention_scores",
)
_MASKS = ("attention_mask", "decoder_attention_mask")
_DOC = """Run the model on padded or packed input.

Args:
{inputs}
    label_smoothing: in [0, 1), where labels are classes.
    output_hidden_states, output_attentions, output_attention_logits,
        output_attention_scores: True, or a list of indices, returns them, padded like
        the input with zeros; for packed input the hidden states stay packed. After
        backward() each has its gradient, ``output.attentions[3].grad``, which
        backward() computes along with the others while the output exists.
    return_dict: False returns a tuple of the results.

Returns:
    :class:`ModelOutput`.

Raises:
    InputError, ShapeError, DTypeError: an input cannot be used; says which one, where,
        and what was expected.
"""


def _tuple_asked(name: str, return_dict: object) -> bool:
    if not (return_dict is None or isinstance(return_dict, bool)):
        raise ConfigError(
            f"{name}: return_dict={return_dict!r}, expected True (a ModelOutput) or "
            "False (a tuple)"
        )
    return return_dict is False


def call_of(model_type: str) -> Callable[..., ModelOutput | tuple[Any, ...]]:
    """Builds ``__call__`` of an architecture's models, with the declared signature."""
    declared = _core.model_inputs(model_type)
    by_position = [one["name"] for one in declared if one["by_position"]]
    names = [one["name"] for one in declared]

    def call(self: Any, *args: Any, **given: Any) -> ModelOutput | tuple[Any, ...]:
        if len(args) > len(by_position):
            raise InputError(
                f"{type(self).__name__}: {len(args)} inputs by position, expected at "
                f"most {len(by_position)}: {', '.join(by_position)}"
            )
        for name, value in zip(by_position, args, strict=False):
            if name in given:
                raise InputError(
                    f"{type(self).__name__}: {name} is given twice, by position and by "
                    "name; expected once"
                )
            given[name] = value
        settings = {
            name: given.pop(name)
            for name in ("label_smoothing", *_OUTPUTS)
            if name in given
        }
        as_tuple = _tuple_asked(type(self).__name__, given.pop("return_dict", None))
        for name in given:
            if name not in names:
                raise InputError(
                    f"{type(self).__name__}: {name!r} is no input of this model, "
                    f"expected one of {', '.join(names)}; "
                    f"{suggestion(name, names, 'leave it out')}"
                )
        output = run(self, given, **settings)
        return output.to_tuple() if as_tuple else output

    call.__name__ = "__call__"
    call.__doc__ = _DOC.format(inputs=_described(declared))
    call.__signature__ = _signature(declared)  # type: ignore[attr-defined]
    return call


def run(
    model: Any,
    inputs: Mapping[str, Any],
    label_smoothing: float = 0.0,
    **asked: bool | list[int],
) -> ModelOutput:
    """Checks what all models have in common, runs the core, and names its results.

    ``asked`` are the outputs of ``_OUTPUTS``: True, or a list of indices.
    """
    name = type(model).__name__
    first = model.needed[0]
    if inputs.get(first) is None:
        raise InputError(f"{name}: {first} is missing; {model.needed[1]}")
    if isinstance(label_smoothing, bool) or not isinstance(
        label_smoothing, (int, float, np.number)
    ):
        raise ConfigError(
            f"{name}: label_smoothing={label_smoothing!r}, expected a number in [0, 1)"
        )
    model._check_inputs(inputs)
    model._tell_of_new_head(inputs.get("labels", inputs.get("start_positions")))
    stacks = model.config.output_counts()
    wanted = [
        tuple(
            wanted_indices(option, option in asked and asked[option], count)
            for option, count in zip(_OUTPUTS, counts, strict=True)
        )
        for counts in stacks.values()
    ]
    own, decoder = _MASKS
    if own in inputs or decoder in inputs or "position_ids" in inputs:
        inputs = plain_arrays(name, inputs)
    results = model._core.forward(
        model._given(inputs), label_smoothing, *wanted[0], *wanted[1:]
    )
    for stack, counts in stacks.items():
        for option, count in zip(_OUTPUTS, counts, strict=True):
            part = option.removeprefix("output_")
            names = [f"{stack}{part}"]
            if stack == "decoder_":
                names.append(f"cross_{part}")
            for each in names:
                if each in results:
                    results[each] = tuple(results[each].get(i) for i in range(count))
    return cast(ModelOutput, model.output_class(**results))


def plain_arrays(name: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the inputs with masks of floats as bool, and positions for each row.

    Args:
        name: the caller's name, for messages.
        inputs: inputs of a call.

    Raises:
        InputError: a mask holds another number than 0 and 1.
    """
    given = dict(inputs)
    for key in _MASKS:
        mask = _array(inputs.get(key))
        if "float" in str(getattr(mask, "dtype", "")):
            mask = host_array(mask)
            given[key] = mask == 1
            wrong = mask[(mask != 1) & (mask != 0)]
            if wrong.size:
                raise InputError(
                    f"{name}: {key} holds {wrong[0]}, expected 1 for a token or 0 for "
                    "padding; the model itself hides padding"
                )
    shape: tuple[int, ...] = getattr(_array(inputs.get("input_ids")), "shape", ())
    places = _array(inputs.get("position_ids"))
    if len(shape) == 2 and getattr(places, "shape", ()) in ((1, shape[1]), shape[1:]):
        given["position_ids"] = np.broadcast_to(host_array(places), shape)
    return given


def _array(value: Any) -> Any:
    """Returns lists as an array, unless the core has to refuse their lengths."""
    try:
        return np.asarray(value) if isinstance(value, (list, tuple)) else value
    except ValueError:
        return value


def _described(declared: list[dict[str, Any]]) -> str:
    parts = [
        textwrap.fill(
            f"{one['name']}: {one['doc']}",
            width=84,
            initial_indent="    ",
            subsequent_indent="        ",
        )
        for one in declared
    ]
    return "\n".join(parts)


def _signature(declared: list[dict[str, Any]]) -> inspect.Signature:
    """Returns the declared inputs, by position or name, and options by name alone."""
    kinds = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    rows = [  # name, by position, default, annotation
        *((one["name"], one["by_position"], None, "Any") for one in declared),
        ("label_smoothing", False, 0.0, "float"),
        *((name, False, False, "bool | list[int]") for name in _OUTPUTS),
        ("return_dict", False, None, "bool | None"),
    ]
    parameters = [inspect.Parameter("self", kinds[True])]
    parameters += [
        inspect.Parameter(name, kinds[by_position], default=default, annotation=hint)
        for name, by_position, default, hint in rows
    ]
    return inspect.Signature(parameters, return_annotation="ModelOutput")
