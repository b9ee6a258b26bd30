"""Classifier and regressor of time series over the EA-DC-Transformer.

They are scikit-learn and aeon estimators at once: aeon's base classes derive from
scikit-learn's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.data.series_scaling import is_constant
from evolving_attention.errors import InputError, require
from evolving_attention.estimators import files, targets
from evolving_attention.estimators.base import SeriesEstimator
from evolving_attention.metrics.probabilities import softmax

_WHY = "for the estimators of time series"
_Classifier: Any = require(
    "aeon.classification.base", extra="timeseries", why=_WHY
).BaseClassifier
_Regressor: Any = require(
    "aeon.regression.base", extra="timeseries", why=_WHY
).BaseRegressor
Array = np.ndarray[Any, Any]

_OPTIONS = """

    Series are given as [n, channels, length], as [n, length] with one channel, as a
    list of arrays [channels, length] that may differ in length, as a list of DataFrames
    [length, channels], as a table with the index (series, time), or as a part of
    ``ea.timeseries``, such as that of ``read_csv``. ``predict`` reads X as ``fit`` did.
    NaN is a missing value, treated as ``missing`` says; time steps at the end of a
    series where all channels are NaN are padding and removed. Infinity is an error. A
    series may be shorter than those of training; ``longer`` says what to do with one
    above ``max_length``.

    Args:
        attention: an attention kind of ``ea.attention``, its dict or name;
            None: ``Evolving(alpha=0.5, beta=0.3)``, the paper's best on time series, or
            what ``pretrained`` has, unless that is vanilla.
            ``Vanilla()`` is the DC-Transformer.
        alpha, beta, kernel_size: options of the attention, if ``attention`` is None or
            a name: share of the previous map, of the convolution, and its size. None:
            the kind's defaults.
        hidden_size: d, features of every time step.
        num_blocks: blocks of two layers each; the dilation doubles from block to block.
        num_attention_heads: K; ``attention_ratio * hidden_size`` is a multiple of it.
            None: the most heads, up to 8, that fit.
        attention_ratio: p in [0, 1], the share of features from attention; the rest
            comes from the dilated convolution. 0: convolution only, 1: attention only.
            None: 1/4, or the nearest share that the heads fit.
        conv_kernel_size, causal: taps of the dilated convolution, and whether it sees
            only the past; None: 3 and True.
        norm: ``"batch"`` (None) or ``"layer"``.
        pooling: the head reads all steps, ``"flatten"`` (None), or their ``"mean"``.
        dropout: in [0, 1).
        model_options: dict of further options of ``ea.EADCTransformerConfig``.
        max_length: longest series the model accepts; None: the longest in training.
        longer: what fit and predict do with series above ``max_length``: ``"error"``,
            ``"cut"`` them after ``max_length`` steps, or ``"resample"`` them to
            ``max_length`` evenly spaced times, linearly.
        time_axis: the axis of X that is time, where axis 0 counts the series: 1 for
            [n, length, channels] and DataFrames with time in their rows, 2 for
            [n, channels, length]; None: 2 for arrays; for DataFrames from their labels
            (docs/timeseries_results.md), with a log line that names the choice.
        scale: ``"channel"``: to mean 0 and deviation 1 over the training set;
            ``"series"``: over each series; ``"none"``.
        missing: ``"interpolate"``: linear between known values, constant at the ends,
            the training mean where a series lacks a channel; ``"refuse"``: an error.
        n_epochs: passes over the training part.
        batch_size: series in a step.
        learning_rate: of RAdam.
        lr_schedule: ``"constant"``, or another schedule of ``ea.TrainingArguments``.
        weight_decay: decoupled, >= 0.
        validation_fraction: share of the series held out to choose the best epoch,
            whose weights are kept; 0: train on all series and keep the last weights.
        patience: stop after so many epochs without a better one; None: never.
        pretrained: folder of ``evolving-attention timeseries pretrain`` to start from.
        warm_start: whether ``fit`` continues an earlier fit with ``n_epochs`` more.
        class_weight: of classifiers: the weight of each class in the loss and in the
            validation scores, a dict by label, or ``"balanced"``: n / (classes · series
            of the class). None: 1. ``fit(X, y, sample_weight)`` weighs single series.
        random_state: int, Generator, RandomState or None: split, weights, dropout and
            order. The same number gives the same bits for any number of threads.
        device: device of fit and predict: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, or
            ``"auto"``, the first GPU, else the CPU. ``set_params(device=...)`` moves a
            fitted estimator, ``load(folder, device=...)`` loads one on any device.
        verbose: 1 shows progress.

    Attributes:
        model_: the fitted model.
        history_: one dict per epoch: losses, learning rate, validation scores.
        best_epoch_: the epoch whose weights are kept.
        interrupted_: "SIGINT", if Ctrl-C ended training after ``len(history_)`` epochs:
            the best of them is kept. A second Ctrl-C, or one before the end of the
            first epoch, raises KeyboardInterrupt. None: training was not interrupted.
        channel_names_: of the channels, where X had names; None: it had none. X with
            other names, or in another order, is refused later; arrays have no names.
        feature_names_in_: of the time steps, if X was a table with a series in each row
            and names of its columns; others, or another order, are refused later.
        scaler_: the fitted scaling.
"""


class TimeSeriesClassifier(SeriesEstimator, _Classifier):  # type: ignore[misc]
    __doc__ = (
        """Classifies time series by an EA-DC-Transformer."""
        + _OPTIONS
        + """        classes_: the labels, in the order of ``predict_proba``'s columns.

    Raises:
        ConfigError: an option is out of range.
        InputError, ShapeError, DTypeError: series or labels cannot be used; says which.
        BackendUnavailable: this build or machine has no such ``device``.
        MissingExtraError: aeon or scikit-learn is not installed.

    Example::

        clf = ea.TimeSeriesClassifier(n_epochs=50, random_state=0).fit(X, y)
        clf.predict_proba(X2); clf.save("ts/")

    Source: Wang et al., Convolution-enhanced Evolving Attention Networks, section 3.3.
    """
    )

    _model_class = "EADCTransformerForClassification"

    def _check_y(
        self, y: Any, n_cases: int, update_classes: bool = True, **kwargs: Any
    ) -> Array:
        """Validate labels; training needs at least two classes."""
        if not update_classes:
            return targets.one_dimensional(y, n_cases)
        labels = targets.class_targets(y, n_cases)
        self.classes_ = np.unique(labels)
        self.n_classes_ = len(self.classes_)
        self._class_dictionary = {c: i for i, c in enumerate(self.classes_)}
        return labels

    def _class_numbers(self, y: Array) -> Array | None:
        return targets.class_numbers(y, self.classes_)

    def _model_targets(self, y: Array, training: Array) -> Array:
        return targets.class_numbers(y, self.classes_)

    def _head(self) -> dict[str, Any]:
        names = {i: str(label) for i, label in enumerate(self.classes_.tolist())}
        return {"num_labels": self.n_classes_, "id2label": names}

    def _fit_predict_proba(self, X: list[Array], y: Array, **kwargs: Any) -> Array:
        with self._channels_first():
            found: Array = super()._fit_predict_proba(X, y, **kwargs)
            return found

    def _predict(self, X: list[Array]) -> Array:
        found: Array = self.classes_[self._outputs(X).argmax(axis=1)]
        return found

    def _predict_proba(self, X: list[Array]) -> Array:
        return softmax(self._outputs(X))

    def _own_state(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist(), "kind": self.classes_.dtype.str}

    def _set_own_state(self, folder: Path, record: dict[str, Any]) -> None:
        self.classes_ = files.labels_of(folder, record, self.model_)
        self.n_classes_ = len(self.classes_)
        self._class_dictionary = {c: i for i, c in enumerate(self.classes_)}


class TimeSeriesRegressor(SeriesEstimator, _Regressor):  # type: ignore[misc]
    __doc__ = (
        """Predicts a value for each time series by an EA-DC-Transformer.

    Training scales the targets to mean 0 and deviation 1; the loss is their mean
    squared error. Where all training targets are equal, that value is predicted."""
        + _OPTIONS
        + """
    Raises:
        ConfigError: an option is out of range.
        InputError, ShapeError, DTypeError: series or values cannot be used; says which.
        BackendUnavailable: this build or machine has no such ``device``.
        MissingExtraError: aeon or scikit-learn is not installed.

    Source: Wang et al., Convolution-enhanced Evolving Attention Networks, section 3.3.
    """
    )

    _model_class = "EADCTransformerForRegression"
    target_deviation_: float

    def _check_y(self, y: Any, n_cases: int) -> Array:
        return targets.value_targets(y, n_cases)

    def _class_numbers(self, y: Array) -> Array | None:
        return None

    def _model_targets(self, y: Array, training: Array) -> Array:
        if not self._continues or self.target_deviation_ == 0:
            with np.errstate(over="ignore", invalid="ignore"):
                mean, deviation = float(y[training].mean()), float(y[training].std())
            if not np.isfinite([mean, deviation]).all():
                raise InputError(
                    f"y has values up to {np.abs(y).max():.3g}, expected a mean and a "
                    "deviation within float64; correct them or divide all of them"
                )
            constant = bool(is_constant(deviation, mean))
            self.target_mean_ = mean
            self.target_deviation_ = 0.0 if constant else deviation  # 0: predict mean
        scaled = (y - self.target_mean_) / (self.target_deviation_ or 1.0)
        return scaled.astype(np.float32)

    def _head(self) -> dict[str, Any]:
        return {"num_targets": 1}

    def _predict(self, X: list[Array]) -> Array:
        values = self._outputs(X).astype(np.float64).reshape(len(X))
        return values * self.target_deviation_ + self.target_mean_

    def _own_state(self) -> dict[str, Any]:
        return {"target": [self.target_mean_, self.target_deviation_]}

    def _set_own_state(self, folder: Path, record: dict[str, Any]) -> None:
        values = [float(value) for value in record["target"]]
        if len(values) != 2 or not np.isfinite(values).all() or values[1] < 0:
            expected = "a finite mean, and a deviation of 0 or above"
            raise files.misfit(folder, "target", record["target"], expected)
        self.target_mean_, self.target_deviation_ = values
