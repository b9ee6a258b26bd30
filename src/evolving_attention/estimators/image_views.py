"""Reads the inside of a fitted image classifier: attention maps and features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evolving_attention.data.images import ImageRows
from evolving_attention.device_names import host_array
from evolving_attention.errors import ConfigError
from evolving_attention.estimators.views import chosen_layers, passes

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
        count = self.model_.config.num_hidden_layers  # 0 of residual networks
        if not (chosen := chosen_layers(layers, count)):
            raise ConfigError(
                f"attention_maps: layers={layers!r} of a model with {count} layers of "
                "attention, expected their numbers from 0; correct them, or fit a "
                "network with attention"
            )
        model, device = self.model_, self.device
        for _, out in passes(model, rows, device, count, output_attentions=chosen):
            every = [out.attentions[i] for i in chosen]
            if len(sizes := {one.shape[-1] for one in every}) > 1:
                raise ConfigError(
                    f"attention_maps: layers={layers!r} have maps of {sorted(sizes)} "
                    "rows, expected layers of one size; choose some by layers="
                )
            maps = np.stack([host_array(one) for one in every], axis=1)
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
        model, device = self.model_, self.device
        for _, out in passes(model, rows, device, 1, output_hidden_states=True):
            last = host_array(out.hidden_states[-1]).astype(np.float32)
            if last.ndim == 4:  # [B, channels, height, width]
                found.append(last.mean(axis=(2, 3)))
            elif model.config.reads_mean:  # [B, tokens, features]
                found.append(last[:, int(model.config.use_class_token) :].mean(axis=1))
            else:
                found.append(last[:, 0])
        return np.concatenate(found)

    def _rows_of(self, X: Any) -> ImageRows:
        raise NotImplementedError
