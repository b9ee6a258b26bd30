"""Writes the tables of docs/papers.md.

PYTHONPATH=src:tests python -m reference.paper_page   # rewrites the page
"""

from __future__ import annotations

import re
from pathlib import Path

from reference.paper_figures import figures
from reference.paper_tables import CSAN, EA, PREDICTIVE, REALFORMER, TPAMI

PAGE = Path(__file__).parents[2] / "docs" / "papers.md"
_BLOCK = re.compile(r"(<!-- (\w+):begin -->\n).*?(<!-- \2:end -->)", re.S)
_KINDS = "tests/test_evolve_kinds.py"
_CONTRACT = "tests/test_attention_contract.py"
_CAUSAL = "tests/test_causality.py"
_NAMES = "tests/test_model_names.py"
_SERIES = "tests/test_series_config.py"
_INSIDE = "tests/test_metrics_heads.py"

# Paper, its statement, and the test that checks it.
HELD = [
    (
        EA,
        "Eq. 4: skip, convolution, ReLU, mix, and the carried map",
        _KINDS,
        "evolving_maps",
    ),
    (
        EA,
        "α = β = 0 is vanilla attention, bit by bit",
        _CONTRACT,
        "weights_of_zero_equal_vanilla_bit_for_bit",
    ),
    (EA, "one layer is the base model", _CONTRACT, "one_layer_equals_the_base_model"),
    (EA, "the first layer is vanilla", _CONTRACT, "first_layer_has_no_carry"),
    (
        EA,
        "Table 4: parameters with 1 × 1, 5 × 5, and without convolution",
        _KINDS,
        "names_and_shapes_of_convolutions",
    ),
    (EA, "padding changes nothing", _CONTRACT, "padding_never_changes_a_result"),
    (
        EA,
        "masked keys have probability 0",
        _CONTRACT,
        "masked_keys_get_probability_zero_in_every_layer",
    ),
    (EA, "parameters of each size, also of T5", _NAMES, "counts"),
    (
        EA,
        "checkpoints gain only the convolutions",
        _CONTRACT,
        "a_vanilla_checkpoint_gains_exactly_the_parameters_of_the_kind",
    ),
    (EA, "Figure 3: taps and shift of decoders", _CAUSAL, "taps_and_shift"),
    (
        EA,
        "no leak from later tokens",
        _CAUSAL,
        "a_later_token_changes_nothing_before_it",
    ),
    (EA, "Table 6: parameters of the ablations", _NAMES, "counts_of_the_ablations"),
    (
        EA,
        "Table 9: 36 settings",
        "tests/test_cli.py",
        "settings_of_the_paper_are_those_of_its_table",
    ),
    (
        EA,
        "Table 10: α and β of translation",
        "tests/test_papers.py",
        "weights_of_translation",
    ),
    (
        EA,
        "Table 10: rate, dropout and accumulation of translation",
        "tests/test_cli_translate_paper.py",
        "the_settings_of_the_paper",
    ),
    (
        EA,
        "Eq. 2: relative positions of Shaw et al.",
        "tests/test_synthesizer.py",
        "relative_positions_are_those_of_shaw",
    ),
    (
        EA,
        "Table 3: Synthesizer with evolving attention",
        "tests/test_synthesizer.py",
        "layers_are_what_the_equations_say",
    ),
    (
        EA,
        "three chains of an encoder-decoder",
        "tests/test_transformer.py",
        "logits_and_maps_are_those_of_the_equations",
    ),
    (
        EA,
        "EA-T5",
        "tests/test_t5.py",
        "logits_and_maps_are_those_of_the_equations",
    ),
    (
        EA,
        "values of the searched grids, in all papers",
        "tests/test_papers.py",
        "values_of_the_searched_grids",
    ),
    (
        EA,
        "α and β of every model name, in all papers",
        _NAMES,
        "default_coefficients",
    ),
    (EA, "the mean of checkpoints", "tests/test_averaging.py", "weights_are_the_mean"),
    (EA, "metrics of GLUE", "tests/test_metrics.py", "values_by_definition"),
    (TPAMI, "Table 1: ranks", "tests/test_comparison.py", "the_papers_ranks_of_errors"),
    (
        TPAMI,
        "Eq. 12: relative differences of Table 1",
        "tests/test_comparison.py",
        "the_papers_relative_differences",
    ),
    (
        TPAMI,
        "parameters of the released program",
        _SERIES,
        "parameters_of_the_released_program",
    ),
    (
        TPAMI,
        "Eq. 6 has W_O and one more convolution",
        _SERIES,
        "the_paper_adds_the_projection_of_heads_and_one_convolution",
    ),
    (
        TPAMI,
        "p = 0 and p = 1",
        _SERIES,
        "a_ratio_of_zero_has_no_attention_and_of_one_no_convolution",
    ),
    (
        TPAMI,
        "Eq. 7, 8: the loss covers masked values only",
        _SERIES,
        "the_loss_is_of_the_masked_cells_alone",
    ),
    (
        TPAMI,
        "Section 5.7: permutations",
        "tests/test_papers.py",
        "permutations_of_tokens",
    ),
    (
        TPAMI,
        "Eq. 9, 10: losses",
        "tests/parity/test_series.py",
        "regression_agrees",
    ),
    (TPAMI, "RAdam", "tests/parity/test_optim.py", "radam"),
    (
        TPAMI,
        "Eq. 11: other scores, in the forms of attention.md",
        "tests/test_synthesizer.py",
        "other_scores_are_what_their_formulas_say",
    ),
    (
        TPAMI,
        "Section 3.4: other scores with every evolve kind, with gradients",
        "tests/test_attention_slots.py",
        "contract",
    ),
    (
        TPAMI,
        "Section 4.1: RAdam's betas and rate",
        "tests/test_time_series_estimators.py",
        "the_usual_optimizer_is_the_papers",
    ),
    (TPAMI, "Eq. 13: AvgWCD", _INSIDE, "within_class_distances"),
    (REALFORMER, "Eq. 5: the running sum and mean", _KINDS, "residual_maps"),
    (
        REALFORMER,
        "the mean for more than 24 layers",
        _KINDS,
        "residual_divides_by_default_only_deeper_than_24_layers",
    ),
    (REALFORMER, "Table 1: the sizes' parameters", _NAMES, "counts"),
    (
        REALFORMER,
        "pre-norm, against transformers",
        "tests/parity/test_pre_norm.py",
        "outputs_and_every_gradient",
    ),
    (
        REALFORMER,
        "masked words and next sentence",
        "tests/test_model_losses.py",
        "pretraining_adds_its_two_losses",
    ),
    (
        REALFORMER,
        "linear warm-up and decay",
        "tests/test_schedules.py",
        "equal_to_transformers",
    ),
    (
        REALFORMER,
        "SQuAD: exact match and F1",
        "tests/test_squad.py",
        "exact_match_and_f1",
    ),
    (REALFORMER, "Figures 4, 6, 7: entropies of heads", _INSIDE, "entropies"),
    (
        REALFORMER,
        "Figures 5, 8: Jensen-Shannon divergence of heads",
        _INSIDE,
        "divergences",
    ),
    (REALFORMER, "Figures 4 to 8: sorted, coloured by median", _INSIDE, "figures"),
    (
        CSAN,
        "windows of one head and of several, against loops",
        "tests/test_window_attention.py",
        "a_layer_is_what_loops_say",
    ),
    (CSAN, "no new parameters", "tests/test_window_attention.py", "no_new_parameters"),
    (
        PREDICTIVE,
        "Table 7: nine settings",
        "tests/test_cli.py",
        "settings_of_the_predictive_paper_are_those_of_its_table",
    ),
    (PREDICTIVE, "Eq. 4 with 0 to 3 convolutions", _KINDS, "predictive_maps"),
    (PREDICTIVE, "parameters of PA-BERT and PA-T5", _NAMES, "counts"),
    (
        PREDICTIVE,
        "recipes of SST, Yelp and SNLI",
        "tests/test_cli_textnet.py",
        "the_settings_of_the_paper",
    ),
    (
        PREDICTIVE,
        "Table 1: text nets, 0 to 3 convolutions",
        "tests/test_text_nets.py",
        "counts_are_those_of_the_table",
    ),
]


def _figures() -> str:
    found = figures()
    parts = []
    for paper in (EA, TPAMI, PREDICTIVE, REALFORMER, CSAN):
        own = [figure for figure in found if figure.paper == paper]
        agree = sum(figure.agrees for figure in own)
        lines = [figure.line() for figure in own]
        head = f"### {paper}: {agree} of {len(own)} agree\n"
        table = ["| figure | printed | ours | agrees | |", "|---|---|---|---|---|"]
        parts.append("\n".join([head, *table, *lines]))
    return "\n\n".join(parts) + "\n"


def _held() -> str:
    lines = ["| paper | equation or rule | test |", "|---|---|---|"]
    for paper, what, path, name in HELD:
        lines.append(f"| {paper} | {what} | `{path}::test_{name}` |")
    return "\n".join(lines) + "\n"


def rendered(text: str) -> str:
    """Returns the page with its tables regenerated."""
    made = {"figures": _figures, "held": _held}
    return _BLOCK.sub(lambda m: f"{m[1]}{made[m[2]]()}{m[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
