"""Config, call and outputs shared by all image models.

A family of image models is an architecture with the inputs of
``src/cpp/models/image_inputs.h``, a config derived from :class:`ImageConfig`, and
classes derived from :class:`ImageModel`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from evolving_attention.errors import ConfigError
from evolving_attention.field_types import plain_scalar
from evolving_attention.modeling.base import PreTrainedModel
from evolving_attention.modeling.config import PretrainedConfig
from evolving_attention.modeling.labels import check_labels
from evolving_attention.modeling.outputs import ModelOutput

MAX_SIDE = 65_536  # pixels


class ImageClassifierOutput(ModelOutput):
    """Output of image classification: ``loss`` and ``logits`` [B, num_labels]."""


def pair_of(value: Any, name: str, source: str) -> tuple[int, int]:
    """Returns (height, width) from one number or a pair.

    Raises:
        ConfigError: it is neither, or a side is outside 1 to 65,536.
    """
    both = [value, value] if isinstance(value, (int, np.integer)) else value
    if not isinstance(both, (list, tuple)) or len(both) != 2:
        both = [None, None]
    sides = [plain_scalar(side) for side in both]
    if not all(type(side) is int and 1 <= side <= MAX_SIDE for side in sides):
        raise ConfigError(
            f"{source}: {name} is {value!r}, expected pixels, an integer from 1 to "
            f"{MAX_SIDE}, or [height, width]; correct it there"
        )
    return sides[0], sides[1]


def _sizes_of_stages(value: Any, name: str, source: str) -> list[int]:
    """Returns a list of positive integers, one for each stage of a network.

    Raises:
        ConfigError: it is not such a list.
    """
    found = [plain_scalar(n) for n in value] if isinstance(value, (list, tuple)) else []
    if not found or not all(type(n) is int and 1 <= n <= MAX_SIDE for n in found):
        raise ConfigError(
            f"{source}: {name} is {value!r}, expected a list of integers from 1 to "
            f"{MAX_SIDE}, one for each stage; correct it there"
        )
    return found


class ImageConfig(PretrainedConfig):
    """Base of the configs of image models.

    Attributes:
        sides: names of the options that hold image sizes: a number of pixels, or
            [height, width].
    """

    sides: ClassVar[tuple[str, ...]] = ("image_size",)

    def _set(self, values: dict[str, Any], attention: Any) -> None:
        for name in self.sides:
            given = values[name]
            height, width = pair_of(given, name, type(self).__name__)
            square = height == width and not isinstance(given, (list, tuple))
            values[name] = height if square else [height, width]
        super()._set(values, attention)

    def side(self, name: str) -> tuple[int, int]:
        """Returns (height, width) of the option ``name``, one of ``sides``."""
        return pair_of(getattr(self, name), name, type(self).__name__)

    @property
    def tokens(self) -> int:
        """Rows of the largest attention map; 1 without attention."""
        return 1

    @property
    def least_side(self) -> tuple[int, int]:
        """(height, width) of the smallest useful picture."""
        return 1, 1

    def core_options(self) -> dict[str, Any]:
        """Returns the C++ core's flat settings; sizes as height and width."""
        options = super().core_options()
        for name in self.sides:
            height, width = self.side(name)
            stem = name.removesuffix("_size")
            options |= {f"{stem}_height": height, f"{stem}_width": width}
        return options


class StagedConfig(ImageConfig):
    """Base of the configs of networks whose blocks are grouped in stages."""

    def _set(self, values: dict[str, Any], attention: Any) -> None:
        source = type(self).__name__
        for name in ("hidden_sizes", "depths"):
            values[name] = _sizes_of_stages(values[name], name, source)
        super()._set(values, attention)

    def output_counts(self) -> dict[str, tuple[int, int, int, int]]:
        """Hidden states of the stem and each stage; maps of each attention layer."""
        maps = self.num_hidden_layers
        return {"": (len(self.depths) + 1, maps, maps, maps)}


class ImageModel(PreTrainedModel):
    """A model of images: ``model(pixel_values, labels=None)``."""

    needed = (
        "pixel_values",
        "pass an array (images, channels, height, width)",
    )

    def _check_inputs(self, inputs: Mapping[str, Any]) -> None:
        """Rejects labels that this head would ignore, or of the wrong shape."""
        if inputs.get("labels") is not None:
            check_labels(self, inputs["labels"], "image")
