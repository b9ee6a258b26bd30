"""Reads the inside of a fitted image classifier: attention maps and features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from evolving_attention.data.images import ImageRows
from evolving_attention.device_names import host_array
from evolving_attention.errors import ConfigError
from evolving_attention.estimators import fitting
from evolving_attention.training import batches as b
from evolving_attention.training import runtime

__all__ = ["ImageViews"]

Array = np.ndarray[Any, Any]


class ImageViews:
    """Attention maps and features of a fitted model of pictures."""

    model_: Any
    device: str

    def attention_maps(
        self, X: Any, layers: int | Sequence[int] | None = None
    ) -> list[Array]:
        """Returns the attention probabilities of every layer for each picture.

        Args:
            X: pictures, in any form that ``predict`` accepts.
            layers: numbers of the layers with attention, from 0, or one number; None:
                all.

        Returns:
            For each picture an array float32 [layers, heads, tokens, tokens]: each row
            holds the attention of one token to all and sums to 1. The tokens of
            ``"vit"`` are the class token and the patches, row by row.

        Raises:
            NotFittedError: the estimator is not fitted.
            ConfigError: there is no such layer, no attention, or the layers have maps
                of several sizes.
            DataError, InputError, ShapeError, DTypeError: a picture cannot be used.

        Example::

            maps = classifier.attention_maps(X[:1])[0]
            grid = classifier.model_.config.grid
            ea.plots.picture_attention(X[0], maps, grid=grid)
        """
        rows, found = self._rows_of(X), []
        share = max(1, self.model_.config.num_hidden_layers)  # 0 of residual networks
        for out in self._passes(rows, share, output_attentions=True):
            every = out.attentions or ()
            given = np.atleast_1d(np.arange(len(every)) if layers is None else layers)
            chosen = given.tolist() if given.dtype.kind in "iu" else []
            if not chosen or min(chosen) < 0 or max(chosen) >= len(every):
                raise ConfigError(
                    f"attention_maps: layers={layers!r} of a model with {len(every)} "
                    "layers of attention, expected their numbers from 0; correct them, "
                    "or fit a network with attention"
                )
            if len(sizes := {every[i].shape[-1] for i in chosen}) > 1:
                raise ConfigError(
                    f"attention_maps: layers={layers!r} have maps of {sorted(sizes)} "
                    "rows, expected layers of one size; choose some by layers="
                )
            maps = np.stack([host_array(every[i]) for i in chosen], axis=1)
            found += list(maps.astype(np.float32))
        return found

    def embed(self, X: Any) -> Array:
        """Returns the features of each picture: float32 [n, features].

        These are what the classifier's last layer reads: of ``"vit"`` the class token
        or the mean of the patches after the last norm (``pooling``), of other networks
        the mean of the last feature map over its pixels.

        Args:
            X: pictures, in any form that ``predict`` accepts.

        Raises:
            NotFittedError: the estimator is not fitted.
            DataError, InputError, ShapeError, DTypeError: a picture cannot be used.
        """
        rows, found = self._rows_of(X), []
        config = self.model_.config
        for out in self._passes(rows, share=1, output_hidden_states=True):
            last = host_array(out.hidden_states[-1]).astype(np.float32)
            if last.ndim == 4:  # [B, channels, height, width]
                found.append(last.mean(axis=(2, 3)))
            elif config.reads_mean:  # [B, tokens, features]
                found.append(last[:, int(config.use_class_token) :].mean(axis=1))
            else:
                found.append(last[:, 0])
        return np.concatenate(found)

    def _passes(self, rows: ImageRows, share: int, **wanted: Any) -> Iterator[Any]:
        """Yields the model's outputs, batch by batch.

        Args:
            rows: the pictures.
            share: layers whose maps a batch holds at the same time.
            **wanted: options of the model's call.
        """
        model = self.model_.eval()
        runtime.place_model(model, self.device)
        tokens = int(rows.lengths.max())
        size = max(1, fitting.evaluation_batch(model, tokens) // share)
        with runtime.no_grad():
            for begin in range(0, len(rows), size):
                batch = rows.gather(np.arange(begin, min(begin + size, len(rows))))
                yield model(**b.inputs_of(batch), **wanted)

    def _rows_of(self, X: Any) -> ImageRows:
        raise NotImplementedError
