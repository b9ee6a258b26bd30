"""Model configuration: Hugging Face's names, validated, stored in config.json."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from evolving_attention import attention as attention_room
from evolving_attention.attention import Edges, Evolve, Spec, Vanilla, spec
from evolving_attention.errors import MISSPELT, ConfigError, suggestion
from evolving_attention.field_types import plain_scalar
from evolving_attention.interop.config_rules import Rules, check_config, check_rules
from evolving_attention.interop.evolving_mark import EVOLVING, is_marked
from evolving_attention.interop.loading_options import without_loading

CONFIGS: dict[
    str, type[PretrainedConfig]
] = {}  # by model_type; defining a class registers it

_Self = TypeVar("_Self", bound="PretrainedConfig")

_COMMON: dict[str, Any] = {
    "num_labels": None,
    "id2label": None,
    "label2id": None,
    "problem_type": None,
    "text_columns": None,
    "classifier_dropout": None,
}
_NAMES = ("id2label", "label2id")
_CHANGEABLE = (*_NAMES, "text_columns")  # of a built model; they are names only
_NO_MISTAKES = ("bos_token_id",)  # transformers' names near that of an option here
_SIZES = (
    "_size",
    "_embeddings",
    "_labels",
    "_targets",
    "_heads",
    "_length",
    "channels",
)
# Settings of checkpoints that would change what the model computes. Only the values
# below are implemented; any other value is refused, not ignored.
_ONLY: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": (None, "absolute"),
    "is_decoder": (None, False),
    "add_cross_attention": (None, False),
    "tie_word_embeddings": (None, True),
    "problem_type": (
        None,
        "regression",
        "single_label_classification",
        "multi_label_classification",
    ),
}


def _changes(values: Mapping[str, Any]) -> bool:
    """Whether options other than attention give a model that other libraries lack."""
    return bool(values.get("norm_first") or values.get("classifier_hidden_size"))


def make_known(classes: dict[str, Any], model_type: str, cls: type) -> None:
    """Registers a class unless another class already has its ``model_type``.

    The same class, defined again in a notebook, replaces the old one. A subclass of a
    known model with the same ``model_type`` does not replace it.
    """
    known = classes.get(model_type, cls)
    if (known.__module__, known.__qualname__) == (cls.__module__, cls.__qualname__):
        classes[model_type] = cls


def _names(
    id2label: Mapping[Any, Any] | None, label2id: Mapping[Any, Any] | None, source: str
) -> dict[int, str]:
    """Returns class names by number, from id2label or an inverted label2id.

    Raises:
        ConfigError: the numbers are not 0, 1, …, the two mappings disagree, or
            id2label alone gives two classes one name.
    """
    key = "id2label" if id2label else "label2id"
    try:
        names = {int(i): str(label) for i, label in (id2label or {}).items()}
        numbers = {str(label): int(i) for label, i in (label2id or {}).items()}
    except (TypeError, ValueError):
        raise ConfigError(
            f"{source}: id2label is {id2label!r} and label2id {label2id!r}, expected "
            "class numbers as keys of id2label: {0: 'first', 1: 'second'}; label2id is "
            "the other way round"
        ) from None
    found = sorted(names or numbers.values())
    if found != [*range(len(found))]:
        raise ConfigError(
            f"{source}: {key} has the class numbers {found!s:.60}, expected 0 to "
            f"{len(found) - 1}, each once; number the classes from 0"
        )
    if not names:
        return dict(sorted((i, label) for label, i in numbers.items()))
    labels = {*names.values()}
    if not numbers and len(labels) < len(names):
        raise ConfigError(
            f"{source}: id2label is {names!s:.60} with one name for two classes, "
            "expected a name for each; rename one"
        )
    wrong = any(names.get(i) != label for label, i in numbers.items())
    if numbers and (wrong or labels != numbers.keys()):
        raise ConfigError(
            f"{source}: id2label is {names!s:.60} and label2id {numbers!s:.60}, "
            "expected the same classes in both; leave label2id out"
        )
    return names


def _classes(names: dict[int, str], count: int) -> dict[str, Any]:
    """Returns the options of the classes; those without a name get their number."""
    names = names or {i: f"LABEL_{i}" for i in range(count)}
    numbers = {label: i for i, label in names.items()}
    return {"num_labels": count, "id2label": names, "label2id": numbers}


@contextlib.contextmanager
def named_source(source: str, without: Callable[[], Any]) -> Iterator[None]:
    """Adds the source to a ConfigError that is also raised by ``without``.

    Args:
        source: the file of the config.
        without: does the same, without what the caller sets.
    """
    try:
        yield
    except ConfigError as error:
        try:
            without()
        except ConfigError as own:
            if str(own) == str(error):
                raise ConfigError(f"{source}: {error}") from None
        raise


def named_file(
    folder: str | Path, without: Callable[[], Any]
) -> contextlib.AbstractContextManager[None]:
    """Does what :func:`named_source` does, for the config.json of a folder."""
    return named_source(str(Path(folder, "config.json")), without)


class PretrainedConfig:
    """Base of the configs.

    Options are keyword arguments with Hugging Face's names. ``attention`` is an evolve
    kind (object, dict or name), which means the architecture's own layer with that
    kind; a :class:`~evolving_attention.attention.Spec`; or a list with one of these for
    each layer. ``text_columns`` names the columns of the texts that the model was last
    trained on; the Trainer sets it. Unknown entries of a config.json are kept and
    written back. Options may also be set as attributes before a model is built;
    ``model.config`` describes the model, and only takes other names of its classes. A
    copy of it (``copy.copy``) can be changed for another model.

    Raises:
        ConfigError: an option is unknown, of the wrong type or out of range.
    """

    model_type: ClassVar[str]
    marks_evolving: ClassVar[bool] = False  # other libraries know its vanilla form only
    defaults: ClassVar[dict[str, Any]]
    rules: ClassVar[Rules] = Rules()  # types and ranges of its own options
    chains: ClassVar[tuple[str, ...]] = ("attention",)  # options that hold an attention
    has_graph: ClassVar[bool] = False  # whether its inputs have the scope Edges

    if TYPE_CHECKING:  # options are attributes, named by ``defaults``

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Registers the config of an architecture by its ``model_type``."""
        super().__init_subclass__(**kwargs)
        if "model_type" in vars(cls):
            make_known(CONFIGS, cls.model_type, cls)

    def __init__(self, *, attention: Any = None, **options: Any) -> None:
        known = {**_COMMON, **self.defaults}
        options = without_loading(type(self).__name__, options)
        for name in options:
            if name not in known and name not in _ONLY:
                options_known = self.known_options()
                raise ConfigError(
                    f"{type(self).__name__}: unknown option {name!r}, expected one of "
                    f"{', '.join(options_known)}; "
                    f"{suggestion(name, options_known, 'leave it out')}"
                )
        self._set({**known, **options}, attention)

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an option; takes an attention and classes as the constructor does."""
        source = type(self).__name__
        if name in self.chains:
            value = self._chain(name, value)
            self._refuse_edges(name, value)
        if name in ("num_labels", *_NAMES):
            value = plain_scalar(value)
            check_config({name: value}, source)
        if "_built" in vars(self):
            self._refuse_change(name, value)
        if name == "num_labels" and len(self.id2label) != value:
            vars(self).update(_classes({}, 2 if value is None else value))
        elif name in _NAMES:
            names = _names(**{**dict.fromkeys(_NAMES), name: value}, source=source)
            vars(self).update(_classes(names, len(names) or self.num_labels))
        else:
            self._refuse_misspelt(name)
            super().__setattr__(name, value)

    def _refuse_change(self, name: str, value: Any) -> None:
        """Refuses to let the config of a built model describe another one."""
        expected = getattr(self, name, None)
        same = value == expected or name in _CHANGEABLE
        if name in _NAMES and value and len(value) != self.num_labels:
            same, expected = False, f"{self.num_labels} names"
        if name in {*_COMMON, *_ONLY, *self.defaults, *self.chains} and not same:
            raise ConfigError(
                f"{type(self).__name__}: {name} is set to {value!r:.60}, expected "
                f"{expected!s:.60} as in the model that this config describes; pass "
                f"{name}=… to from_pretrained, or build a model of copy.copy(config)"
            )

    def __getstate__(self) -> dict[str, Any]:
        """Returns what copies and pickles hold; a copy describes no model yet."""
        return {k: v for k, v in vars(self).items() if k != "_built"}

    def _chain(self, name: str, given: Any) -> Any:
        """Returns the form of an attention that the config shows."""
        return spec.each(attention_room.from_config(given), partial(self._short, name))

    def _refuse_edges(self, name: str, made: Any) -> None:
        """Refuses the scope of graphs in a model whose inputs have none."""
        scopes = [getattr(one, "scope", None) for one in spec.layers_of(made)]
        if not self.has_graph and any(isinstance(scope, Edges) for scope in scopes):
            raise ConfigError(
                f"{type(self).__name__}: {name} has the scope edges, which needs a "
                "graph between the tokens, expected another scope; leave it out, or "
                "use a graph model such as GAT"
            )

    @classmethod
    def known_options(cls) -> list[str]:
        """Returns the names of all options of the constructor."""
        return [*sorted({**_COMMON, **cls.defaults}), "attention"]

    @staticmethod
    def misspelt(name: str, options: Iterable[str]) -> str:
        """Returns a hint if a name is nearly that of an option, "" if it is free."""
        free = name[:1] == "_" or name in _NO_MISTAKES
        return "" if free else suggestion(name, options, near=MISSPELT)

    def _refuse_misspelt(self, name: str) -> None:
        """Refuses an attribute with nearly the name of an option; others are free."""
        known = [*self.known_options(), *self.chains, *_ONLY]
        if name in known or hasattr(self, name):
            return
        if hint := self.misspelt(name, known):
            raise ConfigError(
                f"{type(self).__name__}: unknown option {name!r} is set, expected one "
                f"of {', '.join(known)}; {hint}"
            )

    def _check_attention(self) -> None:
        """Rejects an attention that the architecture does not have."""

    def _check_again(self) -> None:
        """Checks options that may have been set since the config was made.

        Raises:
            ConfigError: as in the constructor.
        """
        values = {name: getattr(self, name) for name in {**_COMMON, **self.defaults}}
        check_config(values, type(self).__name__)
        self._check_attention()

    def _set(self, values: dict[str, Any], attention: Any) -> None:
        source = type(self).__name__
        values = {name: plain_scalar(value) for name, value in values.items()}
        check_config(values, source)
        check_rules(values, source, self.rules)
        labels = _names(values["id2label"], values["label2id"], source)
        if labels and values["num_labels"] is None:
            values["num_labels"] = len(labels)
        elif values["num_labels"] is None:
            values["num_labels"] = 2
        elif labels and len(labels) != values["num_labels"]:
            key = "id2label" if values["id2label"] else "label2id"
            raise ConfigError(
                f"{source}: num_labels = {values['num_labels']}, but {key} names "
                f"{len(labels)} labels; give one of the two, or let them agree"
            )
        for name, allowed in _ONLY.items():
            given = values.get(name)
            if name not in self.defaults and given not in allowed:
                raise ConfigError(
                    f"{source}: {name} = {given!r} is not supported; expected one of "
                    f"{', '.join(repr(a) for a in allowed)}"
                )
        kind, count = values["problem_type"], values["num_labels"]
        if kind is not None and (kind == "regression") != (count == 1):
            raise ConfigError(
                f"{source}: problem_type = {kind!r} with num_labels = {count}; "
                "expected regression with 1 label, single_label_classification or "
                "multi_label_classification with 2 or more: change one of the two, or "
                "leave problem_type out"
            )
        self._extra: dict[str, Any] = {}
        self.__dict__.update(values)
        self.attention = attention
        vars(self).update(_classes(labels, count))
        self._check_attention()

    @classmethod
    def from_dict(cls: type[_Self], values: dict[str, Any], **overrides: Any) -> _Self:
        """Builds a config from a config.json; ``overrides`` are constructor options.

        Raises:
            ConfigError: as in the constructor.
        """
        known = {**_COMMON, **cls.defaults}
        options = {k: v for k, v in values.items() if k in known and v is not None}
        extra = {
            k: v
            for k, v in values.items()
            if k not in known and k not in ("attention", "model_type")
        }
        attention = overrides.pop("attention", None)
        if attention is None:
            attention = values.get("attention")
            some = any(values.get(name) is not None for name in cls.chains)
            if not some and is_marked(values) and not cls._differs(values):
                raise ConfigError(
                    f"{cls.__name__}: model_type is {values['model_type']!r}, but the "
                    "config has no 'attention', expected the kind that the model was "
                    "trained with, such as {'kind': 'evolving', 'alpha': 0.1, 'beta': "
                    "0.1}; get config.json again, or pass attention=…"
                )
        count = overrides.get("num_labels") or options.get("num_labels")
        names = options.get("id2label")
        named = any(overrides.get(name) is not None for name in _NAMES)
        stale = count is not None and len(names or options.get("label2id", ())) != count
        if named or stale:
            # Label names of another task, or a default that does not match num_labels:
            # as in transformers, the count wins.
            for name in _NAMES:
                options.pop(name, None)
        elif isinstance(names, dict):  # in files id2label counts; names may repeat
            options["label2id"] = {str(label): i for i, label in names.items()}
        if overrides.get("num_labels") is not None:
            for name in ("problem_type", "text_columns"):  # of the checkpoint's task
                options.pop(name, None)
        checked = cls(attention=attention, **{**options, **overrides})
        checked._extra = extra
        for name, allowed in _ONLY.items():
            if extra.get(name) not in allowed:
                raise ConfigError(
                    f"{cls.__name__}: {name} = {extra[name]!r} is not supported; "
                    f"expected one of {', '.join(repr(a) for a in allowed)}"
                )
        return checked

    @classmethod
    def _from_file(
        cls: type[_Self], values: dict[str, Any], folder: str | Path, **overrides: Any
    ) -> _Self:
        """As :meth:`from_dict`, with the values of a folder's config.json.

        Raises:
            ConfigError: as in the constructor; names the file if ``overrides`` are not
                the cause.
        """
        with named_file(folder, partial(cls.from_dict, values)):
            return cls.from_dict(values, **overrides)

    @classmethod
    def from_pretrained(
        cls: type[_Self],
        name: str | Path,
        *,
        local_files_only: bool = False,
        **overrides: Any,
    ) -> _Self:
        """Reads the config.json of a model folder or model name."""
        from evolving_attention.interop.hf import load_config
        from evolving_attention.interop.resolve import resolve

        overrides = without_loading(f"{cls.__name__}.from_pretrained", overrides)
        folder = resolve(name, local_files_only=local_files_only)
        return cls._from_file(load_config(folder), folder, **overrides)

    def save_pretrained(self, folder: str | Path) -> None:
        """Writes config.json, as a model's ``save_pretrained`` does.

        Raises:
            CheckpointError: the folder is a file, or is not writable.
            ConfigError: as :meth:`to_saved`.
        """
        from evolving_attention import durable

        path = durable.make_folder(folder) / "config.json"
        durable.write_json(path, self.to_saved())

    def to_dict(self) -> dict[str, Any]:
        """Returns the contents of config.json; vanilla attention is left out."""
        values = {name: getattr(self, name) for name in {**_COMMON, **self.defaults}}
        values["id2label"] = {str(i): label for i, label in self.id2label.items()}
        del values["num_labels"]
        out = {**copy.deepcopy(self._extra), **values, "model_type": self.model_type}
        for chain, short in self._shorts().items():
            plain = isinstance(short, Vanilla)
            out[chain] = None if plain else spec.to_config(short)
        return {k: v for k, v in sorted(out.items()) if v is not None}

    def to_saved(self) -> dict[str, Any]:
        """Like :meth:`to_dict`, marked if no other library computes the same model.

        See :mod:`evolving_attention.interop.evolving_mark`.

        Raises:
            ConfigError: a kind written in Python is not registered: no file could name
                it.
        """
        for short in self._shorts().values():
            spec.check_saved(short)
        values = self.to_dict()
        plain = self._equals_vanilla() and not self._differs(values)
        if self.marks_evolving and not plain:
            values["model_type"] = EVOLVING + self.model_type
            values.pop("auto_map", None)  # code of the checkpoint it started from
        return values

    @classmethod
    def _differs(cls, values: Mapping[str, Any]) -> bool:
        """Whether settings besides attention do not exist in other libraries."""
        return _changes(values)

    def _equals_vanilla(self) -> bool:
        """Whether other libraries' attention computes the same result."""
        return all(map(spec.equals_vanilla, self._shorts().values()))

    def _layer(self, chain: str, evolve: Evolve) -> Spec:
        """Returns the layer that an evolve kind alone means in one of ``chains``."""
        return Spec(evolve=evolve)

    def _full(self, chain: str, made: Any) -> Spec:
        """Returns the complete spec of one layer."""
        return made if isinstance(made, Spec) else self._layer(chain, made)

    def _short(self, chain: str, made: Any) -> Any:
        """Returns just the evolve kind if the layer is the architecture's own."""
        own = isinstance(made, Spec) and made == self._layer(chain, made.evolve)
        return made.evolve if own else made

    def _fulls(self) -> dict[str, Any]:
        return {
            chain: spec.each(getattr(self, chain), partial(self._full, chain))
            for chain in self.chains
        }

    def _shorts(self) -> dict[str, Any]:
        return {
            chain: spec.each(getattr(self, chain), partial(self._short, chain))
            for chain in self.chains
        }

    def sizes(self) -> dict[str, int]:
        """Returns the options that determine sizes of parameter axes."""
        values = {name: getattr(self, name) for name in {**_COMMON, **self.defaults}}
        found = {k: v for k, v in values.items() if k.endswith(_SIZES)}
        return {k: v for k, v in found.items() if not isinstance(v, bool)}

    @property
    def stacks(self) -> dict[str, int]:
        """Number of layers of each stack, by the prefix of its outputs' names."""
        return {"": int(self.num_hidden_layers)}

    def output_counts(self) -> dict[str, tuple[int, int, int, int]]:
        """Number of hidden states, probabilities, logits and scores of each stack."""
        return {
            stack: (layers + 1, layers, layers, layers)
            for stack, layers in self.stacks.items()
        }

    def core_options(self) -> dict[str, Any]:
        """Returns the flat settings that the C++ core reads."""
        values = {name: getattr(self, name) for name in {**_COMMON, **self.defaults}}
        fulls = self._fulls()
        return values | {chain: spec.to_core(fulls[chain]) for chain in fulls}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.to_dict() == other.to_dict()

    def __repr__(self) -> str:
        return f"{type(self).__name__} {json.dumps(self.to_dict(), indent=2)}"
