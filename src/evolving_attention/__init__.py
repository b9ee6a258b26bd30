"""Transformers whose attention maps evolve from layer to layer, on their own C++ core.

    import evolving_attention as ea

    model = ea.AutoModelForSequenceClassification.from_pretrained(
        "./bert-base-uncased", num_labels=2,
        attention=ea.attention.Evolving(alpha=0.1, beta=0.1))

Submodules that need more than NumPy are imported when they are first used.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, Any

from evolving_attention import errors as errors
from evolving_attention.errors import *  # noqa: F403

__version__ = "0.2.0"

# Maps each public name to its module. Modules are imported at first use, so that
# "import evolving_attention" stays fast. All names of "modeling" are public too.
_LAZY: dict[str, str] = {
    **dict.fromkeys(
        [
            "Tensor",
            "fast_paths",
            "from_dlpack",
            "from_numpy",
            "get_num_threads",
            "get_rng_state",
            "manual_seed",
            "set_fast_path",
            "set_memory_limit",
            "set_num_threads",
            "set_rng_state",
        ],
        "evolving_attention._core",
    ),
    "devices": "evolving_attention.device_names",
    "no_grad": "evolving_attention.autograd",
    "AutoTokenizer": "evolving_attention.text",
    "DataCollatorForMultipleChoice": "evolving_attention.data.multiple_choice",
    "Graph": "evolving_attention.data.graph",
    "GraphNodeClassifier": "evolving_attention.estimators",
    "doctor": "evolving_attention.diagnosis",
    "Translator": "evolving_attention.pipelines",
    "pipeline": "evolving_attention.pipelines",
    "export_onnx": "evolving_attention.export",
    "plan": "evolving_attention.memory",
    "profile": "evolving_attention.profiling",
    **dict.fromkeys(
        ["ImageClassifier", "TimeSeriesClassifier", "TimeSeriesRegressor"],
        "evolving_attention.estimators",
    ),
    **dict.fromkeys(
        [
            "EarlyStoppingCallback",
            "EvalPrediction",
            "Trainer",
            "TrainerCallback",
            "TrainingArguments",
        ],
        "evolving_attention.training",
    ),
}
_ROOMS = (
    "attention",
    "callbacks",
    "data",
    "distributed",
    "estimators",
    "export",
    "functional",
    "glue",
    "interop",
    "memory",
    "metrics",
    "modeling",
    "optim",
    "plots",
    "pretraining",
    "profiling",
    "squad",
    "text",
    "timeseries",
    "training",
    "translation",
)


def _find(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "__all__":
        value: Any = _names()
    elif name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
    elif not _is_module(name) and name in _models():
        value = getattr(importlib.import_module(f"{__name__}.modeling"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _names() -> list[str]:
    own = ["__version__", "errors", *errors.__all__, *_LAZY, *_ROOMS]
    return sorted({*own, *_models()})


def _is_module(name: str) -> bool:
    """Whether this import is a module search, which must not import the models."""
    return (
        name.startswith("_")
        or importlib.util.find_spec(f"{__name__}.{name}") is not None
    )


def _models() -> list[str]:
    names: list[str] = importlib.import_module(f"{__name__}.modeling").__all__
    return names


if not TYPE_CHECKING:  # mypy and editors read the imports at the end
    __getattr__, __dir__ = _find, _names


if os.environ.get("EA_PROFILE") == "1":  # print the kernel table when the process ends
    with contextlib.suppress(errors.Error):  # the core repeats it where it is used
        importlib.import_module(f"{__name__}.profiling").report_at_exit()


if TYPE_CHECKING:  # tests/test_types.py compares these with the names above
    # isort: off
    from evolving_attention import (
        attention as attention,
        callbacks as callbacks,
        data as data,
        distributed as distributed,
        estimators as estimators,
        export as export,
        functional as functional,
        glue as glue,
        interop as interop,
        memory as memory,
        metrics as metrics,
        modeling as modeling,
        optim as optim,
        plots as plots,
        pretraining as pretraining,
        profiling as profiling,
        squad as squad,
        text as text,
        timeseries as timeseries,
        training as training,
        translation as translation,
    )
    from evolving_attention._core import (
        Tensor as Tensor,
        fast_paths as fast_paths,
        from_dlpack as from_dlpack,
        from_numpy as from_numpy,
        get_num_threads as get_num_threads,
        get_rng_state as get_rng_state,
        manual_seed as manual_seed,
        set_fast_path as set_fast_path,
        set_memory_limit as set_memory_limit,
        set_num_threads as set_num_threads,
        set_rng_state as set_rng_state,
    )
    from evolving_attention.autograd import no_grad as no_grad
    from evolving_attention.data.graph import Graph as Graph
    from evolving_attention.data.multiple_choice import (
        DataCollatorForMultipleChoice as DataCollatorForMultipleChoice,
    )
    from evolving_attention.device_names import devices as devices
    from evolving_attention.diagnosis import doctor as doctor
    from evolving_attention.estimators import (
        GraphNodeClassifier as GraphNodeClassifier,
    )
    from evolving_attention.estimators import (
        ImageClassifier as ImageClassifier,
        TimeSeriesClassifier as TimeSeriesClassifier,
        TimeSeriesRegressor as TimeSeriesRegressor,
    )
    from evolving_attention.export import export_onnx as export_onnx
    from evolving_attention.memory import plan as plan
    from evolving_attention.modeling import *  # noqa: F403
    from evolving_attention.pipelines import (
        Translator as Translator,
        pipeline as pipeline,
    )
    from evolving_attention.profiling import profile as profile
    from evolving_attention.text import AutoTokenizer as AutoTokenizer
    from evolving_attention.training import (
        EarlyStoppingCallback as EarlyStoppingCallback,
        EvalPrediction as EvalPrediction,
        Trainer as Trainer,
        TrainerCallback as TrainerCallback,
        TrainingArguments as TrainingArguments,
    )
