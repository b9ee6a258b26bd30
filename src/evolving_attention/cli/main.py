"""The table of sub-commands of ``evolving-attention``.

The code of a command is imported when it runs, so that ``evolving-attention --help`` is
quick.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer

from evolving_attention.cli.common import HELP_OPTIONS, set_up_process

app = typer.Typer(
    name="evolving-attention",
    help="Transformers whose attention maps evolve from layer to layer: fine-tune, "
    "compare, draw maps.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=HELP_OPTIONS,
)

_HF = {"allow_extra_args": True, "ignore_unknown_options": True}
_Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("evolving-attention")
        except PackageNotFoundError:
            number = "(not installed: running from the source tree)"
        print(f"evolving-attention {number}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


def _add(group: typer.Typer, words: str, place: str, text: str) -> None:
    """Add a command that declares its options itself.

    Args:
        group: where it is shown.
        words: its words on the command line, such as ``image train``.
        place: its module in ``evolving_attention.cli``, and its name in that.
        text: its line in the help text of the group.
    """
    name = words.split()[-1]

    @group.command(name, help=text, context_settings=_HF, add_help_option=False)
    def run(context: typer.Context) -> None:
        module, _, command = place.partition(":")
        code = importlib.import_module(f"evolving_attention.cli.{module}")
        getattr(code, command)(context.args, f"evolving-attention {words}")


def _add_group(group: str, help: str, module: str, **texts: str) -> None:
    """Add a group of commands; ``train`` is ``TRAIN`` in its module."""
    commands = typer.Typer(name=group, help=help, no_args_is_help=True)
    app.add_typer(commands)
    for name, text in texts.items():
        _add(commands, f"{group} {name}", f"{module}:{name.upper()}", text)


_add(
    app,
    "demo",
    "demo:DEMO",
    "Fine-tune vanilla and evolving attention side by side, in two minutes.",
)
_add(
    app,
    "glue",
    "glue:TRAIN",
    "Fine-tune, evaluate and predict a GLUE task (Hugging Face's run_glue flags).",
)


@app.command(name="glue-submit")
def glue_submit(
    folders: Annotated[
        list[Path], typer.Argument(help="Output folders of glue --do_predict.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The archive to write.")
    ] = Path("submission.zip"),
    allow_missing: Annotated[
        bool,
        typer.Option(
            "--allow_missing", "--allow-missing", help="Write an incomplete archive."
        ),
    ] = False,
    json: _Json = False,
) -> None:
    """Build the archive of predictions for the GLUE leaderboard."""
    from evolving_attention.cli import glue_submit as command

    command.run(
        folders=folders, output=output, allow_missing=allow_missing, as_json=json
    )


_add(
    app,
    "pretrain",
    "pretrain:TRAIN",
    "Pre-train a masked language model on text files.",
)
_add(
    app,
    "glue-all",
    "glue_all:COMMAND",
    "Fine-tune all GLUE tasks: one table, the average, and the archive.",
)
_add(
    app,
    "sweep",
    "sweep:main",
    "Search the settings of a training command, on several workers.",
)
_add_group(
    "timeseries",
    "Classify and regress time series: train, evaluate, predict, pretrain.",
    "timeseries",
    train="Train on labelled series, once per seed, and test.",
    evaluate="Test a fitted estimator.",
    predict="Predict series without labels, into a .csv file.",
    pretrain="Pre-train on series without labels.",
)
_add_group(
    "image",
    "Classify pictures by ViT, ResNet or CIFAR nets: train, evaluate, predict.",
    "images",
    train="Train on folders of pictures, and test.",
    evaluate="Test a fitted classifier: top-1, top-5, confusions.",
    predict="Predict the classes of pictures, into a .csv file.",
)
_add_group(
    "translate",
    "Translate text: train a model, generate, score, average checkpoints.",
    "translate",
    train="Train a model on two files of sentences, line by line.",
    generate="Translate lines from a file or stdin to a file or stdout.",
    score="Score translations by BLEU and chrF.",
    average="Average the weights of the last checkpoints of a run.",
)
_add_group(
    "squad",
    "Answer questions about texts: train, evaluate, predict (run_qa's flags).",
    "squad",
    train="Fine-tune a model to answer questions, and evaluate it.",
    evaluate="Evaluate a trained model: exact match and F1.",
    predict="Answer the questions of a file.",
)
_add_group(
    "textnet",
    "Classify texts by nets over word vectors: train, evaluate, predict.",
    "textnet",
    train="Train a Transformer, Conv-Transformer or CNN from scratch, and test it.",
    evaluate="Evaluate a trained net: accuracy and loss.",
    predict="Predict the classes of texts, into a .tsv file.",
)
_add_group(
    "graph",
    "Classify the nodes of a graph: train, evaluate, predict.",
    "graph",
    train="Train on the labelled nodes of a graph, and test.",
    evaluate="Test a trained classifier.",
    predict="Predict the class of every node, into a .csv file.",
)


@app.command()
def doctor(
    json: _Json = False,
    no_self_test: Annotated[
        bool, typer.Option("--no-self-test", help="Only inspect; run no test.")
    ] = False,
) -> None:
    """Print versions, CPU, threads and libraries, and test the installation."""
    from evolving_attention.cli import doctor as command

    command.run(as_json=json, run_self_test=not no_self_test)


@app.command()
def bench(
    size: Annotated[
        list[str] | None,
        typer.Option(
            "--size", help="tiny, small, base; repeatable; default: small, base."
        ),
    ] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option(help="float32, bfloat16; repeatable; default: those of the CPU."),
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="Start no further model after this many seconds.")
    ] = 40.0,
    num_threads: Annotated[
        int | None,
        typer.Option("--num_threads", "--num-threads", min=1, help="Default: all."),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Also print the share of each kernel.")
    ] = False,
    no_compare: Annotated[
        bool, typer.Option("--no-compare", help="Do not measure PyTorch.")
    ] = False,
    json: Annotated[
        Path | None, typer.Option("--json", help="Write JSON to this file (-: stdout).")
    ] = None,
) -> None:
    """Measure training and inference of BERT on this machine, in a minute."""
    from evolving_attention.cli import bench as command

    command.run(
        sizes=size or ["small", "base"],
        dtypes=dtype or [],
        seconds=seconds,
        num_threads=num_threads,
        with_profile=profile,
        compare=not no_compare,
        json_file=json,
    )


def main() -> None:
    """Entry point of ``evolving-attention``."""
    set_up_process()
    app(prog_name="evolving-attention")


if __name__ == "__main__":
    main()
