"""The papers' arithmetic: each printed figure with ours, as in docs/papers.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import test_comparison
import test_model_names

import evolving_attention as ea
from reference import paper_counts as counts
from reference import paper_tables as tables
from reference.paper_tables import CSAN, EA, PREDICTIVE, REALFORMER, TPAMI

_UNITS = {"": 1, "M": 10**6, "G": 10**9, "%": Fraction(1, 100)}


@dataclass(frozen=True)
class Figure:
    """One figure of a paper: the printed text and the value of its formula."""

    paper: str
    what: str
    printed: str
    value: Fraction
    unit: str = ""
    why: str = ""

    def rounded(self, more: int = 0) -> str:
        """Returns our value with ``more`` decimals than the printed one."""
        value = self.value / _UNITS[self.unit]
        places = len(self.printed.partition(".")[2]) + more
        exact = Decimal(value.numerator) / Decimal(value.denominator)
        return str(exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))

    @property
    def ours(self) -> str:
        """Our value: parameter counts in full, others with two more decimals."""
        if "parameters" in self.what or "sets" in self.what:
            return f"{int(self.value):,}"
        return f"{self.rounded(2)} {self.unit}".strip()

    @property
    def agrees(self) -> bool:
        """Whether our value rounds to the printed one."""
        return self.rounded() == self.printed

    def line(self) -> str:
        """Returns a line of the page's table."""
        cells = (
            self.what,
            f"{self.printed} {self.unit}".strip(),
            self.ours,
            "yes" if self.agrees else "**no**",
            self.why,
        )
        return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def exact(value: Any) -> Fraction:
    return Fraction(float(value))


def mean(values: Any) -> Fraction:
    """Returns the exact mean of printed numbers."""
    numbers = [Fraction(value) for value in values]
    return sum(numbers, Fraction(0)) / len(numbers)


def within_tasks(tasks: list[list[str]]) -> Fraction:
    """Returns the mean over tasks of the mean of each task's metrics."""
    return mean(mean(task) for task in tasks)


def first_metrics(tasks: list[list[str]]) -> Fraction:
    """Returns the mean over tasks of each task's first metric."""
    return mean(task[0] for task in tasks)


# ---------------------------------------------------------------------------- averages


def averages_of_evolving() -> Iterator[Figure]:
    for model, (printed, tasks) in tables.glue_rows(tables.GLUE_EA).items():
        why = "83.475, truncated instead of rounded" if model == "T5-Base" else ""
        found = within_tasks(tasks)
        yield Figure(EA, f"Table 3, average of {model}", printed, found, "", why)
    for model, (printed, tasks) in tables.glue_rows(tables.GLUE_TPAMI).items():
        why = ""
        if "RoBERTa" in model:
            why = f"the mean within tasks is {float(within_tasks(tasks)):.2f}"
        found = first_metrics(tasks)
        yield Figure(TPAMI, f"Table 5, average of {model}", printed, found, "", why)


def averages_of_predictive() -> Iterator[Figure]:
    for model, (printed, tasks) in tables.glue_rows(tables.GLUE_PREDICTIVE).items():
        first = "BERT" in model or "Synthesizer" in model
        found = first_metrics(tasks) if first else within_tasks(tasks)
        why = "mean of first metrics" if first else "mean within tasks"
        why += ", with WNLI" if len(tasks) == 9 else ", without WNLI"
        if "T5" not in model and not model.startswith("PA-BERT"):
            why += f"; mean within tasks: {float(within_tasks(tasks)):.2f}"
        yield Figure(
            PREDICTIVE, f"Table 2, average of {model}", printed, found, "", why
        )


def averages_of_realformer() -> Iterator[Figure]:
    for model, (printed, tasks) in tables.glue_rows(tables.GLUE_REALFORMER).items():
        why = "mean within tasks; MNLI-m and MNLI-nm count as two"
        found = within_tasks(tasks)
        yield Figure(
            REALFORMER, f"Table 3, overall of {model}", printed, found, "", why
        )
    for model, (printed, glue, *squad) in tables.table(tables.HALF_THE_STEPS).items():
        found = (Fraction(glue) + mean(squad)) / 2
        why = "mean of GLUE and of the mean of four scores of SQuAD"
        yield Figure(
            REALFORMER, f"Table 5, overall of {model}", printed, found, "", why
        )


# Paper, printed gain of the average, better and base row, and why ours differs.
_ROWS = "the averages do not follow from their rows"
_LIFTS = [
    (EA, "2.4", "EA-BERT-Base", "BERT-Base", ""),
    (EA, "1.1", "EA-T5-Base", "T5-Base", "84.5 − 83.4, which is truncated"),
    (EA, "1.6", "EA-BERT-Large", "BERT-Large", ""),
    (EA, "0.8", "EA-RoBERTa-Large", "RoBERTa-Large", ""),
    (TPAMI, "1.3", "EA-BERT-Base-dev", "BERT-Base-dev", ""),
    (TPAMI, "1.1", "EA-T5-Base-dev", "T5-Base-dev", ""),
    (TPAMI, "1.4", "EA-BERT-Large-dev", "BERT-Large-dev", ""),
    (TPAMI, "0.9", "EA-RoBERTa-Large-dev", "RoBERTa-Large-dev", _ROWS),
    (TPAMI, "1.0", "EA-BERT-Base-test", "BERT-Base-test", ""),
    (TPAMI, "1.0", "EA-RoBERTa-Large-test", "RoBERTa-Large-test", _ROWS),
    (PREDICTIVE, "4.1", "PA-BERT-Base", "BERT-Base", _ROWS),
    (PREDICTIVE, "2.5", "PA-BERT-Large", "BERT-Large", _ROWS),
    (PREDICTIVE, "0.8", "PA-RoBERTa-Large", "RoBERTa-Large", _ROWS),
    (PREDICTIVE, "1.3", "PA-T5-Base", "T5-Base", ""),
]
_GLUE = {
    EA: tables.glue_rows(tables.GLUE_EA),
    TPAMI: tables.glue_rows(tables.GLUE_TPAMI),
    PREDICTIVE: tables.glue_rows(tables.GLUE_PREDICTIVE),
}


def lifts() -> Iterator[Figure]:
    """Yields differences of GLUE averages and scores stated in the texts."""
    for paper, printed, better, base, why in _LIFTS:
        rows = _GLUE[paper]
        by_first = paper == TPAMI or (paper == PREDICTIVE and "BERT" in better)
        average = first_metrics if by_first else within_tasks
        gain = average(rows[better][1]) - average(rows[base][1])
        yield Figure(paper, f"average of {better}, gain", printed, gain, "", why)
    large = within_tasks(_GLUE[EA]["EA-BERT-Large"][1])
    why = "Table 3 has 85.3"
    yield Figure(EA, "Section 4.2, average of EA-BERT-Large", "85.0", large, "", why)
    why = "60.0 − 51.7; 8.1 is the predictive paper's 59.8 − 51.7"
    for paper, model, said in (
        (EA, "EA-BERT-Base", why),
        (PREDICTIVE, "PA-BERT-Base", ""),
    ):
        scores = [Fraction(_GLUE[paper][m][1][0][0]) for m in (model, "BERT-Base")]
        gain = scores[0] - scores[1]
        yield Figure(paper, f"CoLA of {model}, gain", "8.1", gain, "", said)
    found = Fraction(_GLUE[TPAMI]["BERT-Base-dev"][1][0][0])
    why = "Table 5 has another score of the same model"
    yield Figure(TPAMI, "Table 6, CoLA of BERT-Base (dev)", "58.4", found, "", why)


def other_gains() -> Iterator[Figure]:
    """Yields differences of other scores."""
    what = "Section 4.1.3, masked words at the larger rate, gain over Post-LN"
    gap, why = Fraction("74.31") - Fraction("73.64"), "74.31 − 73.64 (Table 2)"
    yield Figure(REALFORMER, what, "0.67", gap, "", why)
    for model, (bleu, gain) in tables.BLEU_CSAN.items():
        found = Fraction(bleu) - Fraction("27.31")
        yield Figure(CSAN, f"Table 1, gain of {model}", gain, found)
    what = "Table 5, SST of 1-layer PA-Transformer"
    why = "Table 1 has another score of the same model"
    yield Figure(PREDICTIVE, what, "48.62", Fraction("48.60"), "", why)
    what, why = (
        "Table 6, BLEU of Transformer-Lite, De-En",
        "Table 5's score of the model",
    )
    yield Figure(EA, what, "33.21", Fraction("33.32"), "", why)


def relative_gains() -> Iterator[Figure]:
    """Yields gains of top-1 accuracy on ImageNet relative to the base."""
    for (paper, what), (base, better, printed) in tables.GAINS.items():
        found = Fraction(better) / Fraction(base) - 1
        points = f"{float(Fraction(better) - Fraction(base)):.2f} points on {base}"
        yield Figure(paper, f"{what}, relative gain", printed, found, "%", points)


# ------------------------------------------------------------------------------ series


def series() -> Iterator[Figure]:
    """Yields summary rows of the time-series tables, and claims of the text."""
    rmse, texts = np.array(test_comparison.RMSE), tables.table(tables.ACCURACY)
    accuracy = np.array([[float(x) for x in row] for row in texts.values()])
    ranks = ea.metrics.average_rank(accuracy, higher_is_better=True)
    for column, model in enumerate(tables.SERIES_MODELS):
        why = ""
        if model == "Dilated Conv":
            why = "4.5 if ties have the worst rank; Transformer's 3.8 needs the mean"
        printed, found = tables.RANKS[column], exact(ranks[column])
        yield Figure(TPAMI, f"Table 2, rank of {model}", printed, found, "", why)
    for column, model in enumerate(tables.SERIES_MODELS):
        printed = tables.MEAN_ACCURACY[column]
        found = mean(row[column] for row in texts.values())
        yield Figure(TPAMI, f"Table 2, mean accuracy of {model}", printed, found)
    wins = int((accuracy[:, 6] == accuracy.max(axis=1)).sum())
    yield Figure(TPAMI, "Table 2, sets that EA-DC-T is best on", "10", Fraction(wins))
    wins = int((rmse[:, 6] == rmse.min(axis=1)).sum())
    yield Figure(TPAMI, "Table 1, sets that EA-DC-T is best on", "6", Fraction(wins))
    for name, printed in tables.ABLATION_BASELINES.items():
        found, why = Fraction(texts[name][4]), "Table 2 has it for Dilated Conv"
        yield Figure(TPAMI, f"Table 4, Transformer, {name}", printed, found, "", why)
    yield from claims(rmse, accuracy)


def claims(rmse: Any, accuracy: Any) -> Iterator[Figure]:
    """Yields percentages that the text derives from Tables 1 and 2."""
    resnet, transformer, dc, ea_dc = rmse[:, 2], rmse[:, 4], rmse[:, 5], rmse[:, 6]
    why = "mean over the sets of 1 − ratio of RMSE"
    for what, printed, found in (
        ("RMSE of DC-T against ResNet", "20.1", 1 - dc / resnet),
        ("RMSE of EA-DC-T against DC-T", "9.88", 1 - ea_dc / dc),
    ):
        yield Figure(TPAMI, what, printed, exact(found.mean()), "%", why)
    found = exact(1 - ea_dc.mean() / dc.mean())
    what, why = "gain of EA-DC-T over DC-T on average", "1 − ratio of the mean RMSE"
    yield Figure(TPAMI, what, "3.5", found, "%", why)
    why = "mean reduction of RMSE and error rate against Transformer on the 17 sets"
    for what, printed, column in (
        ("gain of EA-DC-T over the best earlier model", "17", 6),
        ("gain of DC-T over the best earlier model", "13", 5),
    ):
        errors = 1 - accuracy
        less = [*(1 - rmse[:, column] / transformer)]
        less += [*(1 - errors[:, column] / errors[:, 4])]
        yield Figure(TPAMI, what, printed, exact(np.mean(less)), "%", why)


def series_parameters() -> Iterator[Figure]:
    """Yields EA-DC-T parameters of Tables 1 and 2: the nearest in the search space."""
    for name, (printed, *sizes) in tables.SERIES_SIZES.items():
        found = counts.series_sizes(*sizes)
        aim = Fraction(printed) * 10**6
        (width, blocks), number = min(found.items(), key=lambda f: abs(f[1] - aim))
        what, why = f"{name}, parameters of EA-DC-T", f"width {width}, {blocks} blocks"
        yield Figure(TPAMI, what, printed, Fraction(number), "M", why)


# ------------------------------------------------------------------------------ counts

# Place, model, printed millions, our name, embedding table that the paper excludes (a
# key of _WORDS), and why ours differs.
_ADDED = "11, 23 or 35 convolutions of 9 K² + K numbers"
_WORDS = {"lite": 10_000 * 160, "base": 32_000 * 512}
_COUNTS = [
    ("Table 3", "BERT-Base", "109.5", "bert_base", 0, ""),
    ("Table 3", "EA-BERT-Base", "110.4", "ea_bert_base", 0, _ADDED),
    ("Table 3", "T5-Base", "220.2", "t5_base", 0, "220 M is the nominal size"),
    ("Table 3", "EA-T5-Base", "221.2", "ea_t5_base", 0, _ADDED),
    ("Table 3", "BERT-Large", "335.0", "bert_large", 0, "335.1 rounded"),
    ("Table 3", "EA-BERT-Large", "336.7", "ea_bert_large", 0, _ADDED),
    (
        "Table 3",
        "RoBERTa-Large",
        "355.0",
        "roberta_large",
        0,
        "355 M is the nominal size",
    ),
    ("Table 3", "EA-RoBERTa-Large", "356.7", "ea_roberta_large", 0, _ADDED),
    ("Table 5", "Transformer-Lite", "2.48", "transformer_lite", "lite", ""),
    (
        "Table 5",
        "EA-Transformer-Lite",
        "2.49",
        "ea_transformer_lite",
        "lite",
        "17 convolutions: 5 + 6 + 6; 16 would give 2.48",
    ),
    ("Table 5", "Transformer-Base", "44.14", "transformer_base", "base", ""),
    ("Table 5", "EA-Transformer-Base", "44.15", "ea_transformer_base", "base", ""),
]


def parameters() -> Iterator[Figure]:
    """Yields parameter counts; tests/test_model_names.py checks ours."""
    for place, model, printed, name, words, why in _COUNTS:
        found = test_model_names.COUNTS[name] - _WORDS.get(words, 0)
        what = f"{place}, parameters of {model}"
        yield Figure(EA, what, printed, Fraction(found), "M", why)
    for size, printed in (("base", "110.4"), ("large", "336.7")):
        found = counts.with_wide_head(f"ea_bert_{size}", 2000).numbers()
        what = f"Table 3, parameters of EA-BERT-{size.title()} with its head"
        why = "A.2's layer of width 2000 for the pooler, two classes"
        yield Figure(EA, what, printed, Fraction(found), "M", why)


def operations() -> Iterator[Figure]:
    """Yields floating-point operations; a multiply-add counts as two."""
    base, large = counts.bert_flops("base"), counts.bert_flops("large")
    added = counts.bert_flops("base", 3) - base, counts.bert_flops("large", 3) - large
    for what, printed, found, unit, why in (
        ("BERT-Base, operations", "6.3", base, "G", "at 128 tokens"),
        ("BERT-Large, operations", "12.2", large, "G", "at 128 tokens"),
        ("EA-BERT-Base, added operations", "0.5", added[0], "G", "at 128 tokens"),
        (
            "EA-BERT-Large, added operations",
            "0.7",
            added[1],
            "G",
            "at 128 tokens; EA-RoBERTa-Large, of the same size: 0.6",
        ),
    ):
        yield Figure(EA, f"Table 3, {what}", printed, exact(found), unit, why)
    maps = "not counted: sums and softmax, 12 operations per cell"
    for what, printed, name, unit, why in (
        ("Lite", "158.31", "transformer_lite", "M", "30 + 30 tokens"),
        ("Lite, evolving", "163.46", "ea_transformer_lite", "M", maps),
        ("Base", "2.68", "transformer_base", "G", ""),
        ("Base, evolving", "2.70", "ea_transformer_base", "G", ""),
    ):
        found = Fraction(counts.translation_flops(name))
        yield Figure(EA, f"Table 5, {what}, operations", printed, found, unit, why)
    ratio = Fraction("163.46") / Fraction("158.31") - 1
    why = "from the printed figures"
    what = "Section 5.3, added operations of EA-Transformer-Lite"
    yield Figure(EA, what, "3", ratio, "%", why)
    sizes = {"layers": 3, "width": 256, "inner": 1024, "heads": 8}
    positions = "with Shaw's positions, dense connections by projections"
    taps = "a convolution instead of queries, keys and values"
    both = "both branches, without an output projection"
    for model, printed, why in (
        ("CNN", "2.77", taps),
        ("Transformer", "2.79", positions),
        ("PA-Transformer", "2.79", positions),
        ("Conv-Transformer", "2.58", both),
        ("PA-Conv-Transformer", "2.58", both),
    ):
        name = f"text_{model.lower().removeprefix('pa-')}".replace("-", "_")
        net, _ = counts.text_net(f"pa_{name}" if model.startswith("PA-") else name)
        what = f"Table 1, parameters of {model}"
        yield Figure(PREDICTIVE, what, printed, Fraction(net), "M", why)
    for model, printed in (
        ("CNN", "317.38"),
        ("Transformer", "338.86"),
        ("Conv-Transformer", "321.34"),
    ):
        _, work = counts.text_net(f"text_{model.lower()}".replace("-", "_"))
        what, why = f"Table 1, operations of {model}", "our net, at 64 words"
        yield Figure(PREDICTIVE, what, printed, Fraction(work), "M", why)
    found = ea.profiling.matrix_flops([64], kernel_size=3, **sizes)["map_conv"]
    why = "two convolutions of 64 × 64 maps; 12.25 more per cell and head give 10.24"
    what = "Table 1, added operations of PA-Transformer"
    yield Figure(PREDICTIVE, what, "10.24", exact(found), "M", why)


def figures() -> list[Figure]:
    """Returns every figure in the order of the page."""
    parts = (
        averages_of_evolving,
        averages_of_predictive,
        averages_of_realformer,
        lifts,
        other_gains,
        relative_gains,
        series,
        series_parameters,
        parameters,
        operations,
    )
    return [figure for part in parts for figure in part()]
