"""Pre-training on series without labels: hides spans of values and predicts them."""

from __future__ import annotations

from typing import Any

import numpy as np

from evolving_attention.data.packed import Batch
from evolving_attention.data.series import SeriesRows, read
from evolving_attention.data.series_lengths import shortened
from evolving_attention.data.series_scaling import SeriesScaler
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.estimators import base, fitting, rules, targets
from evolving_attention.estimators.randomness import seed_of

Array = np.ndarray[Any, Any]
_MASKS = 0x4D41534B  # random stream for the masks


class MaskedRows(SeriesRows):
    """Series with hidden cells, drawn at every access or once.

    Args:
        rows: the series.
        ratio: share of the cells to hide, in (0, 1).
        mean_span: mean length of a hidden span, in steps of one channel.
        seed: random seed of the masks.
        fixed: always hide the same cells, for validation.
    """

    def __init__(
        self,
        rows: SeriesRows,
        *,
        ratio: float,
        mean_span: float,
        seed: int,
        fixed: bool = False,
    ) -> None:
        super().__init__(rows.values, rows.offsets)
        self._ratio, self._mean_span = ratio, mean_span
        key = np.array([seed, _MASKS + fixed], dtype=np.uint64)
        self._generator = np.random.Generator(np.random.Philox(key=key))
        self._fixed = self._draw(np.arange(len(self))) if fixed else None

    def gather(self, indices: Any) -> Batch:
        """Returns the packed batch of these series, ``masked`` [total, channels]."""
        batch = super().gather(indices)
        if self._fixed is None:
            masks = self._draw(batch["row_ids"])
        else:
            masks = [self._fixed[i] for i in batch["row_ids"]]
        tokens = (*self.tokens, "masked")
        return Batch({**batch, "masked": np.concatenate(masks)}, tokens, ["masked"])

    def _draw(self, indices: Array) -> list[Array]:
        """Returns masks [length, channels] of these series."""
        import evolving_attention as ea

        lengths = self.lengths[indices]
        masks = ea.mask_spans(
            lengths,
            self.channels,
            ratio=self._ratio,
            mean_span=self._mean_span,
            rng=self._generator,
        )
        return [mask[:n] for mask, n in zip(masks, lengths, strict=True)]


def pretrain(
    estimator: Any, X: Any, *, ratio: float = 0.15, mean_span: float = 3.0
) -> tuple[Any, fitting.FitResult]:
    """Trains an ``EADCTransformerForPretraining`` on series without targets.

    The loss is the mean squared error over the hidden cells, in units of the scaled
    channels: predicting the mean gives 1. Save the model with
    ``save_pretrained(folder)``; ``TimeSeriesClassifier(pretrained=folder)`` starts from
    it.

    Args:
        estimator: a ``TimeSeriesClassifier`` or ``TimeSeriesRegressor``, fitted or not;
            its options define the model and the training.
        X: series, in any form that the estimators accept.
        ratio: share of the cells to hide, in (0, 1).
        mean_span: mean length of a hidden span, in steps of one channel, >= 1.

    Returns:
        The model with the weights of the best epoch, and the result of training. Ctrl-C
        ends training with the best epoch so far, as in ``fit``.

    Raises:
        ConfigError, InputError: an option or the series cannot be used.
        OutOfMemory: the longest batch does not fit in memory.
        Interrupted: SIGTERM or SIGHUP came, or Ctrl-C before the first epoch had ended.

    Source: Wang et al., Convolution-enhanced Evolving Attention Networks, Eq. 7 and 8.
    """
    model, result = learn(estimator, X, ratio=ratio, mean_span=mean_span)
    fitting.tell(result, estimator.n_epochs, stacklevel=3, continues=False)
    return model, result


def learn(
    estimator: Any, X: Any, *, ratio: float, mean_span: float
) -> tuple[Any, fitting.FitResult]:
    """Runs :func:`pretrain` without reporting an interruption."""
    import evolving_attention as ea

    rules.check(estimator)
    if not 0 < ratio < 1 or not mean_span >= 1:
        raise ConfigError(
            f"pretrain: ratio={ratio!r} and mean_span={mean_span!r}, expected a ratio "
            "in (0, 1) and a span of 1 or more; 0.15 and 3 are the paper's"
        )
    if estimator.pretrained is not None:
        raise ConfigError(
            f"pretrain: the estimator has pretrained={str(estimator.pretrained)!r}, "
            "expected none: this is the pre-training; leave it out"
        )
    found = read(X, "X", estimator.time_axis)
    base.say(found, estimator, stacklevel=4)
    longest = estimator.max_length or found.longest
    series = shortened(found.series, longest, estimator.longer, estimator.missing)
    for i, one in enumerate(series):
        if one.shape[1] > longest:
            raise InputError(
                f"X[{i}]: {one.shape[1]} time steps, expected at most max_length="
                f"{longest}; leave max_length out, raise it, or set longer='cut' or "
                "'resample'"
            )
    seed = seed_of(estimator)
    settings = fitting.FitSettings.of(estimator, seed)
    training, validation = targets.split(
        len(series), estimator.validation_fraction, seed, stacklevel=4
    )
    scaler = SeriesScaler(estimator.scale, estimator.missing)
    rows = scaler.fit([series[i] for i in training]).transform(series)
    hide: dict[str, Any] = {"ratio": ratio, "mean_span": mean_span, "seed": seed}
    with fitting.kept_randomness():
        ea.manual_seed(seed)
        config = ea.EADCTransformerConfig(
            channels=rows.channels, max_length=longest, **estimator.model_settings()
        )
        model = ea.EADCTransformerForPretraining(config)
        held_out = None
        if len(validation):
            held_out = MaskedRows(rows.take(validation), **hide, fixed=True)
        shown = MaskedRows(rows.take(training), **hide)
        result = fitting.train(model, shown, held_out, settings, stacklevel=5)
    return model, result
