"""Command-line options from dataclass fields, in the style of HfArgumentParser.

Supports ``--batch_size`` and ``--batch-size``; ``--flag``, ``--flag True`` and
``--no_flag`` for booleans; a single positional ``.json`` file with all arguments; lists
of several words. Typer does parsing, help and usage errors; this module only describes
the fields to it.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from evolving_attention.cli.common import HELP_OPTIONS, guarded, json_output, print_json
from evolving_attention.data.json_objects import read_one_object
from evolving_attention.errors import ConfigError, suggestion
from evolving_attention.field_types import (
    FALSE_WORDS,
    JSON,
    NONE_WORDS,
    TRUE_WORDS,
    check_type,
    members,
)


@dataclasses.dataclass(frozen=True)
class Option:
    """The command-line option of one field."""

    name: str
    kinds: tuple[type, ...]  # bool, int, float, str, list
    optional: bool
    default: Any
    help: str
    panel: str
    hidden: bool = False
    owner: type | None = None
    hint: Any = Any
    shows_default: bool = True  # whether the help text ends with the default
    before: str = ""  # what takes precedence over the default

    @property
    def is_bool(self) -> bool:
        """Whether the option may be given without a value."""
        return bool in self.kinds

    def parse(self, text: str) -> Any:
        """Parses the field's value from one word of the command line."""
        word = text.strip().lower()
        if self.optional and word in NONE_WORDS and list not in self.kinds:
            return None
        for kind in (int, float):
            if kind in self.kinds:
                try:
                    return kind(text)
                except ValueError:
                    continue
        if self.is_bool and word in (*TRUE_WORDS, *FALSE_WORDS):
            return word in TRUE_WORDS
        if str in self.kinds:
            return text
        words = {bool: "true or false", int: "a whole number", float: "a number"}
        expected = [words[kind] for kind in self.kinds if kind in words]
        if float in self.kinds:
            expected = [w for w in expected if w != words[int]]
        if self.optional:
            expected.append("none")
        raise typer.BadParameter(f"{text!r}, expected {' or '.join(expected)}")

    def value(self, given: Any, source: str) -> Any:
        """Converts a JSON value to the field's value; ``source`` is its file.

        Raises:
            ConfigError: the value has another type.
        """
        if isinstance(given, str):
            try:
                return self.parse(given)
            except typer.BadParameter as error:
                raise ConfigError(
                    f"{source}: option {self.name!r} is {error.message}"
                ) from None
        if isinstance(given, float) and given.is_integer() and self.kinds == (int,):
            return int(given)
        return check_type(self.hint, given, source, self.name, JSON, self.default)


_FIRST = "Most used"  # title of these options in the help text


def _kinds(hint: Any) -> tuple[tuple[type, ...], bool]:
    """Returns the plain types a hint allows, and whether None is allowed."""
    kinds = {typing.get_origin(member) or member for member in members(hint)}
    order = (bool, int, float, str, list)
    chosen = tuple(k for k in order if k in kinds)
    if typing.Literal in kinds:
        chosen += (str,)
    return chosen or (str,), type(None) in kinds


class Fields:
    """The options of several dataclasses, in order, grouped for the help text.

    Args:
        groups: dataclasses, and the title of each in the help text.
        refused: names that are parsed only so that their dataclass can refuse them.
        first: the most used options, which the help text shows first.
    """

    def __init__(
        self,
        groups: Sequence[tuple[type, str]],
        refused: Mapping[type, Sequence[str]] | None = None,
        first: Sequence[str] = (),
    ) -> None:
        self.options: dict[str, Option] = {}
        self._first = first
        for owner, panel in groups:
            hints = typing.get_type_hints(owner, include_extras=True)
            for field in dataclasses.fields(owner):
                kinds, optional = _kinds(hints[field.name])
                self.options[field.name] = Option(
                    name=field.name,
                    kinds=kinds,
                    optional=optional,
                    default=_default(field),
                    help=str(field.metadata.get("help", "")),
                    panel=_FIRST if field.name in first else panel,
                    owner=owner,
                    hint=hints[field.name],
                    before=str(field.metadata.get("before", "")),
                )
            for name in (refused or {}).get(owner, ()):
                if name not in self.options:
                    kinds = (bool, int, float, str)
                    self.options[name] = Option(
                        name, kinds, True, None, "", panel, True, owner
                    )

    def reword(self, texts: Mapping[str, str]) -> Fields:
        """Replaces whole help texts, default included, by the name of the option.

        An empty text hides its option, which is still parsed.
        """
        for name in texts.keys() & self.options.keys():
            self.options[name] = dataclasses.replace(
                self.options[name],
                help=texts[name],
                hidden=not texts[name],
                shows_default=False,
            )
        return self

    def normalise(self, words: Sequence[str]) -> list[str]:
        """Insert ``true`` after bare booleans; repeat the name before list items."""
        result: list[str] = []
        i = 0
        while i < len(words):
            word = words[i]
            i += 1
            option, value = self._find(word)
            if option is None:
                result.append(word)
                continue
            name = f"--{option.name}"
            if value is not None:
                result += [name, value]
                continue
            following = words[i] if i < len(words) else "--"
            if word[2:].replace("-", "_") != option.name:
                result += [name, "false"]  # --no_flag
            elif option.is_bool and not _is_bool_word(option, following):
                result += [name, "true"]
            elif list in option.kinds and not following.startswith("--"):
                while i < len(words) and not words[i].startswith("--"):
                    result += [name, words[i]]
                    i += 1
            else:
                result.append(name)
                if i < len(words):
                    result.append(words[i])
                    i += 1
        return result

    def _find(self, word: str) -> tuple[Option | None, str | None]:
        """Returns the option that a word names, and the value after ``=``, if any."""
        if not word.startswith("--"):
            return None, None
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        option = self.options.get(name)
        if option is None and name.startswith("no_"):
            option = self.options.get(name[3:])
            option = option if option is not None and option.is_bool else None
        return option, value if equals else None

    def split(self, given: Mapping[str, Any]) -> dict[type, dict[str, Any]]:
        """Groups the given values by dataclass."""
        result: dict[type, dict[str, Any]] = {
            option.owner: {} for option in self.options.values() if option.owner
        }
        for name, value in given.items():
            owner = self.options[name].owner
            if owner is not None:
                result[owner][name] = value
        return result

    def parameters(self) -> list[inspect.Parameter]:
        """Returns the options as function parameters that typer understands."""
        names = [*self._first, *(n for n in self.options if n not in self._first)]
        return [_parameter(self.options[name]) for name in names]


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


def _is_bool_word(option: Option, word: str) -> bool:
    lower = word.lower()
    if (
        lower in TRUE_WORDS
        or lower in FALSE_WORDS
        or (option.optional and lower in NONE_WORDS)
    ):
        return True
    return len(option.kinds) > 1 and not word.startswith("--")


def _parameter(option: Option) -> inspect.Parameter:
    words: dict[tuple[type, ...], str]
    words = {(bool,): "BOOL", (int,): "INT", (float,): "FLOAT"}
    kind = words.get(option.kinds, "TEXT")
    kind = "FLOAT" if option.kinds == (int, float) else kind
    shown = option.shows_default and option.default not in (None, [], "")
    before = f"{option.before}, else " if option.before else ""
    default = f" (default: {before}{option.default})" if shown else ""
    described = typer.Option(
        f"--{option.name}",
        help=option.help + default,
        metavar=kind,
        show_default=False,
        hidden=option.hidden,
        rich_help_panel=option.panel,
        parser=_parser(option),
    )
    hint = list[str] if list in option.kinds else str
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[hint | None, described],
    )


def _parser(option: Option) -> Callable[[Any], Any]:
    """Returns the parser for typer; it wraps values, so a given None is recognised."""

    def parse(text: Any) -> Any:
        return text if isinstance(text, Given) else Given(option.parse(text))

    parse.__name__ = "value"
    return parse


@dataclasses.dataclass(frozen=True)
class Given:
    """A value given on the command line, possibly None."""

    value: Any


def _unwrap(value: Any) -> Any:
    if isinstance(value, Given):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_unwrap(item) for item in value]
    return value


def read_json_arguments(path: str, fields: Fields) -> dict[str, Any]:
    """Reads all arguments from a JSON file: an object of option names and values.

    Raises:
        DataError: the file is missing or not a JSON object.
        ConfigError: a name is not an option.
    """
    example = '{"task_name": "cola", "output_dir": "out"}'
    values = read_one_object(
        Path(path), f"one object with the options, such as {example}"
    )
    result = {}
    for name, value in values.items():
        key = name.replace("-", "_")
        if key not in fields.options:
            hint = suggestion(key, fields.options, "see --help")
            raise ConfigError(f"{path}: unknown option {name!r}; {hint}")
        result[key] = fields.options[key].value(value, path)
    return result


def _unwrapped(text: str) -> str:
    """Joins each paragraph into one line, so that the terminal's width wraps it."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


class _Parser(TyperCommand):  # type: ignore[misc]  # typer has no types here
    """With ``--json``, also prints errors of parsing as JSON on stdout."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        words = [word.lower() for word in args]  # parsing consumes the list
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter.__base__ as error:  # any usage error
            if ("--json", "true") in pairwise(words):
                told = {"message": error.format_message(), "exit_code": error.exit_code}
                print_json({"error": type(error).__name__, **told})
            raise


def build_app(
    fields: Fields,
    run: Callable[[dict[str, Any]], None],
    *,
    help: str,
) -> Callable[[Sequence[str], str], None]:
    """Builds a command that parses the options and calls ``run`` with the given ones.

    If the first word ends in ``.json``, it names a file with arguments; options after
    it override the file.

    Returns:
        ``main(words, name)``: parses, runs, and exits by SystemExit as typer does.
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    file: list[str] = []

    @guarded
    def command(**values: Any) -> None:
        given = {k: _unwrap(v) for k, v in values.items() if v is not None and v != []}
        with json_output(bool(given.get("json"))):
            read = read_json_arguments(file[0], fields) if file else {}
        run({**read, **given})

    parameters = fields.parameters()
    command.__doc__ = _unwrapped(help)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    app.command(cls=_Parser, context_settings=HELP_OPTIONS)(command)

    def main(words: Sequence[str], name: str) -> None:
        words = list(words)
        file[:] = [words.pop(0)] if words and words[0].endswith(".json") else []
        app(args=fields.normalise(words), prog_name=name)

    return main
