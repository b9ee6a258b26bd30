"""What timeseries_reproduce compares, and the settings of each model and data set.

The settings are the paper's where it names one, the same for all models and data sets;
for JapaneseVowels benchmarks/timeseries_search.py has chosen others on splits of the
training set alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evolving_attention.cli.attention_arguments import option, refuse
from evolving_attention.errors import ConfigError
from evolving_attention.field_types import PathText, check_fields

__all__ = [
    "BASELINES",
    "DATASETS",
    "MODELS",
    "PUBLISHED",
    "ReproduceArguments",
    "settings_of",
]

#: The data sets of the comparison, the paper's first.
DATASETS = (
    "JapaneseVowels",
    "BasicMotions",
    "ItalyPowerDemand",
    "GunPoint",
    "ArrowHead",
    "Covid3Month",
)

#: Our models: what makes each of them, in options of the estimators.
MODELS: dict[str, dict[str, Any]] = {
    "ea-dc-t": {"attention": {"kind": "evolving", "alpha": 0.5, "beta": 0.3}},
    "dc-t": {"attention": {"kind": "vanilla"}},
    "transformer": {"attention": {"kind": "vanilla"}, "attention_ratio": 1.0},
    "dilated-conv": {"attention": {"kind": "vanilla"}, "attention_ratio": 0.0},
}

#: Classes of aeon, by module and name: (classifier, regressor, options).
BASELINES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "minirocket": (
        "aeon.classification.convolution_based:MiniRocketClassifier",
        "aeon.regression.convolution_based:MiniRocketRegressor",
        {},
    ),
    "multirocket-hydra": (
        "aeon.classification.convolution_based:MultiRocketHydraClassifier",
        "aeon.regression.convolution_based:MultiRocketHydraRegressor",
        {},
    ),
    "1nn-dtw": (
        "aeon.classification.distance_based:KNeighborsTimeSeriesClassifier",
        "aeon.regression.distance_based:KNeighborsTimeSeriesRegressor",
        {"distance": "dtw", "n_neighbors": 1},
    ),
}

#: Accuracies that others published: the paper's Table 2, and InceptionTime's own
#: result files (github.com/hfawaz/InceptionTime).
PUBLISHED: dict[str, dict[str, float]] = {
    "JapaneseVowels": {
        "EA-DC-T (paper)": 0.985,
        "DC-T (paper)": 0.982,
        "Transformer (paper)": 0.979,
        "Dilated Conv (paper)": 0.955,
        "InceptionTime": 0.9919,
    },
    "BasicMotions": {"InceptionTime": 1.0},
    "ItalyPowerDemand": {"InceptionTime": 0.9650},
    "GunPoint": {"InceptionTime": 1.0},
    "ArrowHead": {"InceptionTime": 0.8457},
}

# The paper's values where it names one (RAdam at 1e-3, dropout 0.1, p = 0.25). Training
# uses the whole training set, and keeps the last weights.
_COMMON: dict[str, Any] = {
    "hidden_size": 64,
    "num_blocks": 3,
    "attention_ratio": 0.25,
    "dropout": 0.1,
    "model_options": None,
    "n_epochs": 100,
    "batch_size": 16,
    "learning_rate": 1e-3,
    "lr_schedule": "cosine",
    "validation_fraction": 0.0,
}
_EPOCHS = {  # about 1,000 steps; 300 to 500 where series have 100 time steps and more
    "JapaneseVowels": 60,
    "BasicMotions": 150,
    "ItalyPowerDemand": 200,
    "GunPoint": 120,
    "ArrowHead": 100,
    "Covid3Month": 110,
}
# Chosen settings by data set and model (benchmarks/results/timeseries-search.json);
# nothing was tuned where there is no entry.
_CHOSEN: dict[tuple[str, str], dict[str, Any]] = {
    ("JapaneseVowels", "ea-dc-t"): {"hidden_size": 128, "dropout": 0.3},
    ("JapaneseVowels", "dc-t"): {"attention_ratio": 0.125},
    ("JapaneseVowels", "transformer"): {"dropout": 0.3},
    ("JapaneseVowels", "dilated-conv"): {"hidden_size": 128},
}


@dataclass
class ReproduceArguments:
    """Which runs of the comparison."""

    datasets: str | list[str] | None = option(
        None, "Data sets; default: those of the documentation."
    )
    models: str | list[str] | None = option(
        None,
        "ea-dc-t, dc-t, transformer, dilated-conv, minirocket, multirocket-hydra, "
        "1nn-dtw; default: all.",
    )
    seeds: int = option(10, "Runs of each model: seeds 1 to this.")
    output_dir: PathText = option("out/timeseries", "Folder for one JSON file per run.")
    data_dir: PathText | None = option(None, "Folder of data sets; default: aeon's.")
    n_epochs: int | None = option(
        None, "Other epochs than the chosen ones, for a quick look."
    )
    device: str = option("cpu", "Where our models compute: cpu, cuda, cuda:1 or auto.")
    num_threads: int | None = option(None, "Threads; default: all.")
    json: bool = option(False, "Print the results as JSON on stdout.")

    def __post_init__(self) -> None:
        check_fields(self)
        if self.seeds < 1:
            raise refuse("seeds", self.seeds, "1 or more", "10 is what the table has")
        if self.n_epochs is not None and self.n_epochs < 1:
            raise refuse("n_epochs", self.n_epochs, "1 or more", "leave it out")


def settings_of(dataset: str, model: str) -> dict[str, Any]:
    """Options of the estimator for one of our models on a data set.

    Raises:
        ConfigError: there is no such model.
    """
    if model not in MODELS:
        raise ConfigError(
            f"--models {model}: expected some of {', '.join([*MODELS, *BASELINES])}; "
            "choose among them"
        )
    epochs = {"n_epochs": _EPOCHS.get(dataset, _COMMON["n_epochs"])}
    chosen = _CHOSEN.get((dataset, model), {})
    return {**_COMMON, **epochs, **MODELS[model], **chosen}
