"""Arms that benchmarks/timeseries.py compares, and the settings of each data set.

All arms of a data set have the same width, depth, dropout, recipe and number of epochs.
The settings are the paper's where it states them. For JapaneseVowels
benchmarks/timeseries_search.py chose one shape for all arms together, on splits of the
training set only. α and β are the paper's values and were not tuned.
"""

from __future__ import annotations

from typing import Any

#: Our models, as options of the estimators.
MODELS: dict[str, dict[str, Any]] = {
    "ea-dc-t": {"attention": {"kind": "evolving", "alpha": 0.5, "beta": 0.3}},
    "dc-t": {"attention": {"kind": "vanilla"}},
    "transformer": {"attention": {"kind": "vanilla"}, "attention_ratio": 1.0},
    "dilated-conv": {"attention": {"kind": "vanilla"}, "attention_ratio": 0.0},
}
#: DC-T with as many epochs as fit into EA-DC-T's seconds.
LONGER = "dc-t, equal seconds"

#: Classes in aeon, by module and name: (classifier, regressor, options).
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
ARMS = ("ea-dc-t", "dc-t", LONGER, "transformer", "dilated-conv", *BASELINES)

#: Published accuracies: the paper's Table 2, and InceptionTime's own result files
#: (github.com/hfawaz/InceptionTime).
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

# The paper's values where it states them (RAdam at 1e-3, dropout 0.1, p = 0.25).
# Training uses the whole training set and keeps the last weights.
_COMMON: dict[str, Any] = {
    "hidden_size": 64,
    "num_blocks": 3,
    "attention_ratio": 0.25,
    "dropout": 0.1,
    "model_options": None,
    "batch_size": 16,
    "learning_rate": 1e-3,
    "lr_schedule": "cosine",
    "validation_fraction": 0.0,
}
#: About 1,000 steps, or 300 to 500 for series of 100 time steps and more. The first is
#: the paper's data set.
EPOCHS = {
    "JapaneseVowels": 60,
    "BasicMotions": 150,
    "ItalyPowerDemand": 200,
    "GunPoint": 120,
    "ArrowHead": 100,
    "Covid3Month": 110,
}
# Shapes that the search chose (benchmarks/results/timeseries-search.json).
_CHOSEN: dict[str, dict[str, Any]] = {
    "JapaneseVowels": {"model_options": {"causal": False}}
}


def settings_of(dataset: str, model: str) -> dict[str, Any]:
    """Returns options of the estimator for one of our models on a data set."""
    chosen = {"n_epochs": EPOCHS[dataset], **_CHOSEN.get(dataset, {})}
    return {**_COMMON, **chosen, **MODELS[model]}
