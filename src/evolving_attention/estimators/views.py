"""Reads the inside of a fitted estimator: attention maps and representations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from evolving_attention.data.series import SeriesRows
from evolving_attention.device_names import host_array
from evolving_attention.errors import ConfigError
from evolving_attention.estimators import fitting
from evolving_attention.estimators.headroom import Rows
from evolving_attention.training import batches as b
from evolving_attention.training import runtime

Array = np.ndarray[Any, Any]


class SeriesViews:
    """Attention maps and representations of a fitted model, for both estimators."""

    model_: Any
    scaler_: Any
    device: str

    def attention_maps(
        self, X: Any, layers: int | Sequence[int] | None = None
    ) -> list[Array]:
        """Returns the attention probabilities of every layer for each series.

        Args:
            X: series, in any form that ``predict`` accepts.
            layers: numbers of layers, from 0, or one number; None: all. A model has ``2
                * num_blocks`` layers.

        Returns:
            For each series an array float32 [layers, heads, length, length]: each row
            holds the attention of one step to all steps and sums to 1. ``length`` is
            the length of the series after ``longer`` was applied.

        Raises:
            NotFittedError: the estimator is not fitted.
            ConfigError: there is no such layer, or no attention
                (``attention_ratio=0``).
            InputError, ShapeError, DTypeError: the series cannot be used.

        Example::

            maps = model.attention_maps(X[:1])[0]
            ea.plots.attention_evolution(maps, range(maps.shape[-1]), series=X[0].T)
        """
        count = 2 * int(self._fitted().config.num_blocks)
        if not (chosen := chosen_layers(layers, count)):
            raise ConfigError(
                f"attention_maps: layers={layers!r}, expected numbers from 0 to "
                f"{count - 1}; leave layers out for all"
            )
        if not self.model_.config.attention_ratio:
            raise ConfigError(
                "attention_maps: the model has attention_ratio=0, expected one with "
                "attention; fit with attention_ratio above 0"
            )
        rows, found = self._rows_of(X), []
        model, device = self.model_, self.device
        for indices, out in passes(
            model, rows, device, count, output_attentions=chosen
        ):
            maps = np.stack([host_array(out.attentions[i]) for i in chosen], axis=1)
            found += [
                np.array(one[..., :n, :n], dtype=np.float32)
                for one, n in zip(maps, rows.lengths[indices], strict=True)
            ]
        return found

    def embed(self, X: Any, *, steps: bool = False) -> Array | list[Array]:
        """Returns the representation of the series from the model's last layer.

        Args:
            X: series, in any form that ``predict`` accepts.
            steps: return the representation of every time step, not of the series.

        Returns:
            float32 [n, hidden_size], the mean over the time steps of each series; with
            ``steps`` a list of float32 [hidden_size, length].

        Raises:
            NotFittedError: the estimator is not fitted.
            InputError, ShapeError, DTypeError: the series cannot be used.
        """
        last = 2 * int(self._fitted().config.num_blocks)  # 0 is the embedding
        rows, found = self._rows_of(X), []
        model, device = self.model_, self.device
        for indices, out in passes(model, rows, device, 1, output_hidden_states=[last]):
            packed = host_array(out.hidden_states[last]).astype(np.float32)
            found += np.split(packed, np.cumsum(rows.lengths[indices])[:-1])
        if steps:
            return [np.ascontiguousarray(one.T) for one in found]
        return np.stack([one.mean(axis=0) for one in found])

    def _fitted(self) -> Any:
        self._check_is_fitted()  # type: ignore[attr-defined]
        return self.model_

    def _rows_of(self, X: Any) -> SeriesRows:
        series = self._preprocess_collection(X, False)  # type: ignore[attr-defined]
        self._check_shape(series)  # type: ignore[attr-defined]
        rows: SeriesRows = self._scaler().transform(series)  # type: ignore[attr-defined]
        return rows


def chosen_layers(layers: int | Sequence[int] | None, count: int) -> list[int]:
    """Returns the layers as a list, for None all; [] if one is not in 0 … count - 1."""
    given = np.atleast_1d(np.arange(count) if layers is None else layers)
    chosen = given.tolist() if given.dtype.kind in "iu" else []
    return chosen if all(one in range(count) for one in chosen) else []


def passes(
    model: Any, rows: Rows, device: str, share: int, **wanted: Any
) -> Iterator[tuple[Array, Any]]:
    """Yields (indices of the rows, the model's output), batch by batch.

    Args:
        model: moved to the device first; runs in evaluation mode.
        rows: series or pictures.
        device: where the model runs.
        share: layers whose maps a batch holds at the same time.
        **wanted: options of the model's call.
    """
    runtime.place_model(model, device)
    size = max(1, fitting.evaluation_batch(model, int(rows.lengths.max())) // share)
    with runtime.evaluating(model):
        for begin in range(0, len(rows), size):
            indices = np.arange(begin, min(begin + size, len(rows)))
            yield indices, model(**b.inputs_of(rows.gather(indices)), **wanted)
