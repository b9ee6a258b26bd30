"""Commands whose options are dataclasses and whose result is a dict with a table."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from evolving_attention import distributed
from evolving_attention.cli.attention_arguments import refuse
from evolving_attention.cli.common import json_output, print_json, set_up_logging
from evolving_attention.cli.options import Fields, build_app
from evolving_attention.cli.repeat import Once, repeated
from evolving_attention.cli.repeat_arguments import RepeatArguments
from evolving_attention.cli.spelling import in_flags
from evolving_attention.errors import ConfigError

Groups = Sequence[tuple[type, str]]
Results = dict[str, Any] | None
_Settle = Callable[[dict[str, Any]], dict[str, Any]]
_STEPS = {"do_train": True, "do_eval": True, "do_predict": False}
#: For :meth:`Fields.reword`: the flags that :func:`check_steps` allows change nothing.
HIDDEN_STEPS = dict.fromkeys(_STEPS, "")


@dataclass(frozen=True)
class Command:
    """A command; call it with words of the command line, and its name.

    Attributes:
        help: the help text.
        fields: returns all options.
        results: runs the command with the given options; others keep their defaults.
            Its results may have a ``"table"`` to print. None: nothing is printed.
    """

    help: str
    fields: Callable[[], Fields]
    results: Callable[[dict[str, Any]], Results]

    def __call__(self, words: Sequence[str], name: str) -> None:
        """Parse the words, run, and print the results."""
        options = self.fields()

        def start(given: dict[str, Any]) -> None:
            as_json = bool(given.get("json"))
            with json_output(as_json), in_flags(options.options):
                show(self.results(given), as_json)

        build_app(options, start, help=self.help)(words, name)


def of_groups(
    groups: Groups,
    run: Callable[..., Results],
    help: str,
    first: Sequence[str] = (),
    settle: _Settle = dict,
    texts: Mapping[str, str] = MappingProxyType({}),
    refused: Mapping[type, Sequence[str]] | None = None,
) -> Command:
    """Returns a command whose options are the groups' dataclasses.

    Args:
        groups: dataclasses of options, and the title of each in the help text. If
            RepeatArguments is one of them, the command accepts --seeds.
        run: called with the other dataclasses, and for a command with --seeds also with
            the values that its runs share; returns the results.
        help: the help text.
        first: the most used options, which the help text shows first.
        settle: checks the given options together; returns the options of a run.
        texts: help texts of this command that replace those of the dataclasses.
        refused: names that are parsed only so that their dataclass can refuse them.
    """

    @functools.cache
    def fields() -> Fields:
        return Fields(groups, refused, first).reword({**HIDDEN_STEPS, **texts})

    def one_run(given: dict[str, Any], *shared: Once) -> Results:
        check_steps(given)
        if "seeds" not in fields().options:  # only training shares its work
            refuse_several("this command does not share its work")
        split = fields().split(settle(given))
        owners = (owner for owner, _ in groups if owner is not RepeatArguments)
        made = [owner(**split[owner]) for owner in owners]
        set_up_logging(given.get("log_level") or "passive")
        _set_threads(made)
        return run(*made, *shared)

    def results(given: dict[str, Any]) -> Results:
        return repeated(fields(), given, one_run)

    repeats = any(owner is RepeatArguments for owner, _ in groups)
    return Command(help, fields, results if repeats else one_run)


def settle_saving(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the options; without saving, no best weights are kept by default."""
    if given.get("save_strategy") != "no":
        return given
    return {"load_best_model_at_end": False, **given}


def check_steps(given: dict[str, Any]) -> None:
    """Check flags of Hugging Face's scripts in a command that trains and evaluates.

    Raises:
        ConfigError: a flag requests another step, or disables one of these.
    """
    for name, done in _STEPS.items():
        if given.get(name, done) is not done:
            expected, fix = "True: it is what this command does", "leave it out"
            if not done:
                expected = "no such step"
                fix = "this command trains, and evaluates on the validation set; " + fix
            raise refuse(name, given[name], expected, fix)


def refuse_several(why: str) -> None:
    """Check that a command that cannot share its work runs in one process.

    Raises:
        ConfigError: a launcher started several.
    """
    if distributed.from_environment() is not None:
        raise ConfigError(
            f"started by mpirun or torchrun, expected one process: {why}; start it "
            "alone"
        )


def show(results: Results, as_json: bool) -> None:
    """Print results on stdout: as JSON, as their table, or one line for each."""
    if results is None or not distributed.is_first():
        return
    if as_json:
        print_json(results)
    elif "table" in results:
        print(results["table"])
    else:
        for key, value in results.items():
            print(f"{key} = {value}")


def _set_threads(made: Sequence[Any]) -> None:
    from evolving_attention.training.runtime import set_num_threads

    for one in made:
        set_num_threads(getattr(one, "num_threads", None))
