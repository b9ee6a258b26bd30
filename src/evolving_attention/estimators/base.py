"""Base of the time-series estimators: options, reading series, fitting, files."""

from __future__ import annotations

import contextlib
import copy
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from evolving_attention.data.series import Reading, SeriesRows, read
from evolving_attention.data.series_axes import refuse_other_steps
from evolving_attention.data.series_lengths import shortened
from evolving_attention.data.series_scaling import SeriesScaler
from evolving_attention.errors import CheckpointError, InputError, ShapeError
from evolving_attention.estimators import (
    architecture,
    continuing,
    files,
    fitting,
    rules,
    targets,
)
from evolving_attention.estimators.named import NamedOptions
from evolving_attention.estimators.randomness import seed_of
from evolving_attention.estimators.views import SeriesViews
from evolving_attention.estimators.weights import (
    WeightedRows,
    class_weights,
    sample_weights,
)

Array = np.ndarray[Any, Any]
_Self = TypeVar("_Self", bound="SeriesEstimator")
_LOGGER = logging.getLogger("evolving_attention")


@dataclass(kw_only=True, eq=False, repr=False)
class SeriesEstimator(NamedOptions, SeriesViews):
    """Options and steps shared by both estimators; the derived classes define the rest.

    aeon's base classes define ``fit`` and ``predict``; they call the methods below
    whose names begin with an underscore.
    """

    _tags = {  # noqa: RUF012
        "X_inner_type": ["np-list", "numpy3D"],
        "capability:multivariate": True,
        "capability:unequal_length": True,
        "capability:missing_values": True,
        "algorithm_type": "deeplearning",
    }

    attention: Any = None
    alpha: Any = None
    beta: Any = None
    kernel_size: int | None = None
    hidden_size: int = 64
    num_blocks: int = 3
    num_attention_heads: int | None = None
    attention_ratio: float | None = None
    conv_kernel_size: int | None = None
    causal: bool | None = None
    norm: str | None = None
    pooling: str | None = None
    dropout: float = 0.1
    model_options: Any = None
    max_length: int | None = None
    longer: str = "error"
    time_axis: int | None = None
    scale: str = "channel"
    missing: str = "interpolate"
    n_epochs: int = 100
    batch_size: int = 16
    learning_rate: float = 1e-3
    lr_schedule: str = "constant"
    weight_decay: float = 0.0
    validation_fraction: float = 0.2
    patience: int | None = None
    pretrained: Any = None
    warm_start: bool = False
    class_weight: Any = None
    random_state: Any = None
    device: str = "cpu"
    verbose: bool | int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def fit(self: _Self, X: Any, y: Any, sample_weight: Any = None) -> _Self:
        """Train on series and their targets; discards an earlier fit.

        With ``warm_start=True`` a fitted estimator continues for ``n_epochs`` more,
        from its present weights, with the scaling of the first fit and a new optimizer.
        If no new epoch is better on the validation part, the weights stay unchanged.
        The series must have the same channels, and the labels the same classes.

        Args:
            X: series, in any form that the class description lists.
            y: a label or value for each series.
            sample_weight: a weight >= 0 for each series, used in the loss and in the
                validation scores; only the ratios matter. A series of weight 0 is left
                out. None: equal weights.

        Targets and weights belong to the series by position: those of a table with the
        index (series, time) are in its sorted order. A pandas ``y`` or
        ``sample_weight`` whose index has X's labels in another order is refused.

        Raises:
            ConfigError, InputError, ShapeError, DTypeError: an option, the series, the
                targets or the weights cannot be used; says which.
            OutOfMemory: the longest batch does not fit in memory; raised before the
                first step.
        """
        self._sample_weight = sample_weight
        try:
            super().fit(X, y)  # type: ignore[misc]
        finally:
            del self._sample_weight
        return self

    # --- called by aeon's fit and predict -----------------------------------------

    # only during a fit, no option; reset() keeps class attributes
    _sample_weight: Any = field(default=None, init=False)

    def _fit_setup(self, X: Any, y: Any) -> tuple[list[Array], Array]:
        """Check everything before any work; discard an earlier fit or continue it."""
        if not self._continues:
            self.reset()  # type: ignore[attr-defined]
            rules.check(self)
            return self._checked(X, y)
        earlier = dict(vars(self))
        try:
            rules.check(self)
            continuing.check_options(self)
            series, targets_found = self._checked(X, y)
            continuing.check_series(self, len(series[0]))
            if "classes_" in earlier:  # the earlier fit is a classifier's
                found = vars(self)["classes_"]
                continuing.check_classes(found, earlier["classes_"])
        except Exception:
            vars(self).clear()
            vars(self).update(earlier)
            raise
        return series, targets_found

    @property
    def _continues(self) -> bool:
        """Whether a fit continues an earlier one."""
        return bool(self.warm_start and hasattr(self, "model_"))

    def _checked(self, X: Any, y: Any) -> tuple[list[Array], Array]:
        """Returns the series and the targets of a fit, checked."""
        found = self._read(X, store_metadata=True)
        targets.refuse_disorder(y, found.ids)
        targets.refuse_disorder(self._sample_weight, found.ids, "sample_weight")
        return found.series, self._check_y(y, len(found.series))

    def _preprocess_collection(
        self, X: Any, store_metadata: bool = True
    ) -> list[Array]:
        """Returns the collection as checked arrays [channels, length], NaN for gaps."""
        return self._read(X, store_metadata).series

    def _read(self, X: Any, store_metadata: bool) -> Reading:
        """Reads the collection; to predict, as the fit did and within its length."""
        earlier = None
        if not store_metadata:  # already fitted: X is read as in the fit
            fitted = self.metadata_
            earlier = (fitted.get("frames", False), fitted.get("time_axis"))
        found = read(X, "X", self.time_axis, earlier)
        series = found.series
        if store_metadata:
            say(found, self)
            self._longest = found.longest
            lengths = {one.shape[1] for one in series}
            self.metadata_: dict[str, Any] = {
                "multivariate": series[0].shape[0] > 1,
                "missing_values": any(np.isnan(one).any() for one in series),
                "unequal_length": len(lengths) > 1,
                "n_cases": len(series),
                "n_channels": series[0].shape[0],
                "n_timepoints": None if len(lengths) > 1 else lengths.pop(),
                "frames": found.frames,
                "time_axis": found.time_axis,
            }
            if found.table is not None:
                self.n_features_in_ = found.table
            if self._continues:
                self._check_names(found)
            self.channel_names_ = found.names or vars(self).get("channel_names_")
            known = vars(self).get("feature_names_in_", ())
            if len(found.steps or ()) > len(known):  # a later table may be shorter
                self.feature_names_in_ = np.array(found.steps, dtype=object)
            return found
        self._check_names(found)
        limit = self.model_.config.max_length
        return replace(
            found, series=shortened(series, limit, self.longer, self.missing)
        )

    def _check_names(self, found: Reading) -> None:
        """Refuse channels or time steps that differ from training in name or order."""
        names, known = found.names, vars(self).get("channel_names_")
        if names and known and names != known and len(names) == len(known):
            what = "order" if sorted(names) == sorted(known) else "name"
            raise InputError(
                f"X: the channels {', '.join(names)}, expected {', '.join(known)} as "
                f"in training; {what} them alike"
            )
        steps, known = found.steps, vars(self).get("feature_names_in_")
        if steps is None or known is None:
            return
        if len(steps) == len(known) or self.longer != "resample":
            refuse_other_steps(steps, list(known), "X", "training")

    def _check_shape(self, X: list[Array]) -> None:
        """Refuse series whose channels differ, or longer than ``max_length``."""
        channels = self.metadata_["n_channels"]
        if X[0].shape[0] != channels:
            raise ShapeError(
                f"X: {X[0].shape[0]} channels, expected {channels} as in training; a "
                "series is [channels, length] unless time_axis= is given, one series "
                "alone X[None]"
            )
        self._refuse_longer(X)

    def _refuse_longer(self, X: list[Array]) -> None:
        """Refuse series longer than the fitted model's ``max_length``."""
        limit = self.model_.config.max_length
        for i, one in enumerate(X):
            if one.shape[1] > limit:
                raise InputError(
                    f"X[{i}]: {one.shape[1]} time steps, expected at most {limit}, "
                    "the model's max_length; set longer='cut' or 'resample', or fit "
                    f"again with max_length={one.shape[1]}"
                )

    # --- fitting ------------------------------------------------------------------

    def _fit(self, X: list[Array], y: Array) -> Any:
        """Split, scale, build and train; restores the global random state."""
        seed, continues = seed_of(self), self._continues
        X = shortened(X, self._longest_taken(), self.longer, self.missing)
        X, y, weight = self._weighted(X, y)
        training, validation = targets.split(
            len(X), self.validation_fraction, seed, self._class_numbers(y)
        )
        earlier: list[dict[str, float]] = []
        if continues:
            earlier = self.history_
            self._refuse_longer(X)
            self.scaler_.missing = self.missing
        else:
            self.scaler_ = SeriesScaler(self.scale, self.missing)
            self.scaler_.fit([X[i] for i in training])
        rows = self.scaler_.transform(X, self._model_targets(y, training))

        def part(indices: Array) -> SeriesRows:
            found = rows.take(indices)
            return found if weight is None else WeightedRows(found, weight[indices])

        with fitting.kept_randomness():
            model = self.model_ if continues else self._make_model(rows, seed)
            result = fitting.train(
                model,
                part(training),
                part(validation) if len(validation) else None,
                fitting.FitSettings.of(
                    self, (seed + len(earlier)) % np.iinfo(np.int32).max
                ),
                continues=continues,
            )
        self.model_, self.result_ = model, result  # a failed training sets neither
        self._take(result, earlier)
        return self

    def _weighted(
        self, X: list[Array], y: Array
    ) -> tuple[list[Array], Array, Array | None]:
        """Drops series of weight 0; returns series, targets, weights [n] or None."""
        weight = sample_weights(self._sample_weight, len(X))
        if weight is not None and not weight.all():
            kept = np.flatnonzero(weight)
            X, y, weight = [X[i] for i in kept], y[kept], weight[kept]
        numbers = self._class_numbers(y)
        if numbers is None:
            return X, y, weight
        by_class = class_weights(
            self.class_weight,
            numbers,
            self.classes_,  # type: ignore[attr-defined]
        )
        if weight is None or by_class is None:
            return X, y, by_class if weight is None else weight
        return X, y, weight * by_class

    def _take(self, result: fitting.FitResult, earlier: list[dict[str, float]]) -> None:
        """Sets the attributes of a fitted estimator after training."""
        done = len(earlier)
        later = [{**row, "epoch": row["epoch"] + done} for row in result.history]
        self.history_ = earlier + later
        if result.best_epoch or not done:  # 0: the weights before this fit are best
            self.best_epoch_ = done + result.best_epoch
        self.interrupted_ = result.interrupted
        self.is_fitted = True
        fitting.tell(result, self.n_epochs)

    def _fit_predict(self, X: list[Array], y: Array, **kwargs: Any) -> Array:
        with self._channels_first():
            found: Array = super()._fit_predict(X, y, **kwargs)  # type: ignore[misc]
            return found

    def score(
        self, X: Any, y: Any, *args: Any, sample_weight: Any = None, **kwargs: Any
    ) -> float:
        """Returns aeon's score: by default a classifier's accuracy or R².

        Args:
            X: series, in any form that ``predict`` accepts.
            y: a label or value for each series, in the order of ``predict``.
            *args, **kwargs: aeon's ``metric``, ``use_proba`` and ``metric_params``.
            sample_weight: a weight >= 0 for each series, passed to the metric; None:
                equal weights.

        Raises:
            NotFittedError: the estimator is not fitted.
            InputError, ShapeError, DTypeError: the series, the targets or the weights
                cannot be used; says which.
        """
        self._check_is_fitted()  # type: ignore[attr-defined]
        found = self._read(X, store_metadata=False)
        targets.refuse_disorder(y, found.ids)
        targets.refuse_disorder(sample_weight, found.ids, "sample_weight")
        weight = sample_weights(sample_weight, len(found.series), least=1)
        if weight is not None:
            given = kwargs.get("metric_params") or {}
            kwargs["metric_params"] = {**given, "sample_weight": weight}
        with self._channels_first():
            return float(super().score(found.series, y, *args, **kwargs))  # type: ignore[misc]

    @contextlib.contextmanager
    def _channels_first(self) -> Iterator[None]:
        """Temporarily sets the options for series that were already read."""
        given, self.time_axis = self.time_axis, 2
        state = self.random_state
        if isinstance(state, np.random.Generator):  # aeon's folds need another type
            self.random_state = seed_of(self)
        try:
            yield
        finally:
            self.time_axis, self.random_state = given, state

    def _longest_taken(self) -> int:
        """Returns the time steps of the longest series that training accepts."""
        if self._continues:
            return int(self.model_.config.max_length)
        if self.pretrained is not None:
            return int(files.pretraining_config(self.pretrained).max_length)
        return self.max_length or self._longest

    def model_settings(self) -> dict[str, Any]:
        """Returns this estimator's options as options of ``ea.EADCTransformerConfig``.

        Raises:
            ConfigError: ``attention`` is not a known kind, two options say the same
                thing, or the heads do not fit the width.
        """
        return architecture.model_settings(self)

    def _make_model(self, rows: SeriesRows, seed: int) -> Any:
        """Builds a new model, or loads the pre-trained one with a new head."""
        import evolving_attention as ea

        options = {**self.model_settings(), **self._head()}
        ea.manual_seed(seed)
        model_class = getattr(ea, self._model_class)
        longest = int(rows.lengths.max())
        if self.pretrained is not None:
            return files.from_pretraining(
                model_class, self.pretrained, rows.channels, longest, options, self
            )
        limit = self.max_length or self._longest
        if longest > limit:
            raise InputError(
                f"X: the longest series has {longest} time steps, expected at most "
                f"max_length={limit}; leave max_length out, raise it, or set "
                "longer='cut' or 'resample'"
            )
        config = ea.EADCTransformerConfig(
            channels=rows.channels, max_length=limit, **options
        )
        return model_class(config)

    def _scaler(self) -> SeriesScaler:
        """Returns the fitted scaling, with the estimator's present ``missing``."""
        found: SeriesScaler = copy.copy(self.scaler_)
        found.missing = self.missing
        return found

    def _outputs(self, X: list[Array]) -> Array:
        """Returns the model's outputs for checked series."""
        return fitting.outputs(self.model_, self._scaler().transform(X), self.device)

    # --- files --------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write the fitted estimator: the model's files and ``estimator.json``.

        Nothing is pickled. ``random_state`` is saved if it is a number; ``device`` is
        not saved.

        Raises:
            NotFittedError: the estimator is not fitted.
            CheckpointError: the folder cannot be written.
        """
        self._check_is_fitted()  # type: ignore[attr-defined]
        files.save(self, Path(folder))

    @classmethod
    def load(cls: type[_Self], folder: str | Path, device: str = "cpu") -> _Self:
        """Load an estimator that :meth:`save` wrote, on any device.

        Args:
            folder: the folder given to :meth:`save`.
            device: the device to compute on, like the option of that name.

        Raises:
            CheckpointError: the folder is missing, damaged, or another estimator's.
            ConfigError: the device name is unknown.
            BackendUnavailable: this build or machine does not have the device.
        """
        return files.load(cls, Path(folder), device)

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state.get("model_"), dict):  # 0.1.0 kept its parts
            raise CheckpointError(
                f"{type(self).__name__}: a pickle of version 0.1.0, expected one of "
                "this version; fit again, or load a folder that save wrote"
            )
        super().__setstate__(state)  # type: ignore[misc]

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        """Returns small settings for aeon's checks."""
        return {
            "hidden_size": 16,
            "num_blocks": 1,
            "num_attention_heads": 2,
            "model_options": {"intermediate_size": 16},
            "max_length": 32,  # the checks' test series are longer than the training's
            "n_epochs": 3,
        }

    # --- defined by the derived classes -------------------------------------------

    _model_class: ClassVar[str]

    def _check_y(self, y: Any, n_cases: int, *args: Any, **kwargs: Any) -> Array:
        raise NotImplementedError

    def _class_numbers(self, y: Array) -> Array | None:
        raise NotImplementedError

    def _model_targets(self, y: Array, training: Array) -> Array:
        raise NotImplementedError

    def _head(self) -> dict[str, Any]:
        raise NotImplementedError


def say(found: Reading, estimator: Any, stacklevel: int = 8) -> None:
    """Report how X was read: as a warning if that is doubtful, else as a log line.

    The log line appears with ``verbose``, or if the axis of DataFrames was chosen. By
    default the warning points to the line that calls ``fit``.
    """
    if found.doubt:
        warnings.warn(f"X: {found}. {found.doubt}", stacklevel=stacklevel)
        return
    chosen = found.frames and estimator.time_axis is None
    hint = "; time_axis= changes it" if chosen else ""
    level = logging.WARNING if chosen or estimator.verbose else logging.INFO
    _LOGGER.log(level, "X: %s%s", found, hint)
