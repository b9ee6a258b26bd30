"""Commands whose options are dataclasses and whose result is a dict with a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from evolving_attention.cli.common import json_output, print_json, set_up_logging
from evolving_attention.cli.options import Fields, build_app
from evolving_attention.cli.spelling import in_flags

__all__ = ["run_command"]


def run_command(
    words: Sequence[str],
    name: str,
    groups: Sequence[tuple[type, str]],
    help: str,
    run: Callable[..., dict[str, Any] | None],
    first: Sequence[str] = (),
) -> None:
    """Parse the words into the groups' dataclasses, run, and print the results.

    Args:
        words: of the command line.
        name: of the command.
        groups: dataclasses of options and the title of each in the help text.
        help: the help text.
        run: called with the dataclasses; its result has a ``"table"`` to print. None:
            there is nothing to print.
        first: the most used options, which the help text shows first.
    """
    fields = Fields(groups, first=first)

    def start(given: dict[str, Any]) -> None:
        with json_output(bool(given.get("json"))), in_flags(fields.options):
            split = fields.split(given)
            made = [owner(**split[owner]) for owner, _ in groups]
            set_up_logging()
            _set_threads(made)
            results = run(*made)
            if results is not None and given.get("json"):
                print_json(results)
            elif results is not None:
                print(results["table"])

    build_app(fields, start, help=help)(words, name)


def _set_threads(made: Sequence[Any]) -> None:
    from evolving_attention.training.runtime import set_num_threads

    for one in made:
        set_num_threads(getattr(one, "num_threads", None))
