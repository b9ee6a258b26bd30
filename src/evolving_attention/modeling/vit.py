"""ViT, the Vision Transformer (Dosovitskiy et al., ICLR 2021): config and tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np

from evolving_attention.attention import Evolving, RelativePositions2d
from evolving_attention.attention.spec import layers_of
from evolving_attention.device_names import host_array
from evolving_attention.errors import ConfigError
from evolving_attention.interop.config_rules import Rules
from evolving_attention.interop.positions import resized_positions
from evolving_attention.interop.vit import POSITIONS, VIT
from evolving_attention.modeling.config import PretrainedConfig
from evolving_attention.modeling.images import (
    ImageClassifierOutput,
    ImageConfig,
    ImageModel,
)
from evolving_attention.modeling.names import register_sizes

if TYPE_CHECKING:
    from evolving_attention.interop.hf import CheckpointFolder

_Self = TypeVar("_Self", bound="_ViT")

_RULES = Rules(
    integers={"num_channels": (1, 65_536), "pooler_output_size": (1, 65_536)},
    numbers={"layer_scale": (0.0, 1_000.0)},
    strings=("pooling", "pooler_act"),
    flags=("qkv_bias", "use_class_token", "add_pooling_layer"),
)


class ViTConfig(ImageConfig):
    """Sizes of ViT, by default ViT-B/16 at 224²; options have Hugging Face's names.

    Args:
        image_size: pixels of an image's side, or [height, width].
        patch_size: pixels of a patch's side, or [height, width]. Pixels beyond the last
            whole patch are ignored.
        num_channels: channels of an image.
        hidden_size: width.
        num_hidden_layers: pre-norm layers, followed by one more norm.
        num_attention_heads: heads of each layer.
        intermediate_size: width of the feed-forward.
        hidden_act: activation of the feed-forward.
        hidden_dropout_prob: dropout of the embeddings and the residuals.
        attention_probs_dropout_prob: dropout of attention probabilities.
        classifier_dropout: dropout before the classifier; None: no dropout.
        initializer_range: standard deviation of the initial weights.
        layer_norm_eps: epsilon of all norms; the paper's published models have 1e-6.
        qkv_bias: whether queries, keys and values have biases.
        use_class_token: whether a learned token precedes the patches.
        pooling: input of a task head: ``"token"``, the class token's last state, or
            ``"mean"``, the mean of the patches' last states; None: the token, if there
            is one.
        layer_scale: initial value of a learned scale for each feature before each
            residual (Touvron et al., ICCV 2021; DINOv2); None: no scales.
        add_pooling_layer: whether :class:`ViTModel` has a pooler.
        pooler_output_size: the pooler's width; None: ``hidden_size``.
        pooler_act: the pooler's activation.
        num_labels: number of classes; names go to ``id2label``.
        attention: see :class:`PretrainedConfig`. Maps have a row and a column for the
            class token and each patch, row by row of the image. The bias
            ``RelativePositions2d`` counts patches: it needs ``use_class_token=False``
            and the columns of ``grid`` as its width.

    Raises:
        ConfigError: an option is unknown, of the wrong type or out of range, images are
            smaller than a patch, or a ``RelativePositions2d`` does not fit the patches.

    Example:
        >>> import evolving_attention as ea
        >>> config = ea.ViTConfig(image_size=[32, 48], patch_size=8)
        >>> config.grid, config.tokens
        ((4, 6), 25)
    """

    model_type = "vit"
    rules = _RULES
    marks_evolving = True
    sides = ("image_size", "patch_size")
    defaults: ClassVar[dict[str, Any]] = {
        "image_size": 224,
        "patch_size": 16,
        "num_channels": 3,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-12,
        "qkv_bias": True,
        "use_class_token": True,
        "pooling": None,
        "layer_scale": None,
        "add_pooling_layer": True,
        "pooler_output_size": None,
        "pooler_act": "tanh",
    }

    def _check_attention(self) -> None:
        """Rejects an image without a patch, and relative positions of another grid."""
        if 0 in self.grid:
            raise ConfigError(
                f"{type(self).__name__}: patch_size = {self.patch_size} is larger than "
                f"image_size = {self.image_size}; take smaller patches, or enlarge the "
                "images"
            )
        for one in layers_of(self._fulls()["attention"]):
            if not isinstance(one.bias, RelativePositions2d):
                continue
            where, columns = f"{type(self).__name__}: {one.bias!r}", self.grid[1]
            if self.use_class_token:
                raise ConfigError(
                    f"{where} with a class token, which it would take for the first "
                    "patch, expected patches alone; set use_class_token=False, or take "
                    "ea.attention.RelativePositions(max_distance)"
                )
            if one.bias.width != columns:
                raise ConfigError(
                    f"{where}: the width is {one.bias.width}, but images of "
                    f"{self.image_size} have {columns} columns of patches of "
                    f"{self.patch_size}; expected RelativePositions2d(*config.grid): "
                    f"height {self.grid[0]}, width {columns}"
                )

    @property
    def grid(self) -> tuple[int, int]:
        """Patches of an image: (rows, columns)."""
        (height, width), patch = self.side("image_size"), self.side("patch_size")
        return height // patch[0], width // patch[1]

    @property
    def reads_mean(self) -> bool:
        """Whether tasks read the mean of the patches."""
        return self.pooling == "mean" or not (self.pooling or self.use_class_token)

    @property
    def least_side(self) -> tuple[int, int]:
        """(height, width) of a patch."""
        return self.side("patch_size")

    @property
    def tokens(self) -> int:
        """Rows and columns of the maps: the patches and the class token."""
        rows, columns = self.grid
        return rows * columns + bool(self.use_class_token)

    @classmethod
    def _differs(cls, values: Mapping[str, Any]) -> bool:
        """Whether it differs from transformers' ViT (class token read, no scales)."""
        return (
            values.get("layer_scale") is not None
            or values.get("use_class_token") is False
            or values.get("pooling") == "mean"
        )


class _ViT(ImageModel):
    config_class = ViTConfig
    table = VIT

    @classmethod
    def _translated(
        cls, folder: CheckpointFolder, overrides: Mapping[str, Any]
    ) -> CheckpointFolder:
        from evolving_attention.interop.vit_folders import as_vit

        return as_vit(folder, overrides)

    @classmethod
    def _resized(
        cls, folder: CheckpointFolder, config: PretrainedConfig
    ) -> Mapping[str, np.ndarray]:
        """Resizes the position table for the images of ``config``."""
        held = ViTConfig.from_dict(folder.config, attention="vanilla")  # its sizes
        target = cast(ViTConfig, config).grid
        if held.grid == target:
            return folder.tensors
        tensors = dict(folder.tensors)
        for name, table in folder.tensors.items():
            own = name.removeprefix(VIT.prefix) == POSITIONS
            if own and table.shape[1:2] == (held.tokens,):
                tensors[name] = resized_positions(table, held.grid, target)
        return tensors

    def interpolate_positions(self: _Self, image_size: int | Sequence[int]) -> _Self:
        """Adapts the model to another image size, in place; returns the model.

        The table of positions is interpolated linearly to the new grid of patches
        (:func:`~evolving_attention.interop.positions.resized_positions`).
        Parameters become new tensors: create optimizers afterwards.
        ``from_pretrained(name, image_size=384)`` does the same while loading.

        Args:
            image_size: pixels of an image's side, or [height, width].

        Raises:
            ConfigError: it is not a valid size, is smaller than a patch, or has another
                number of columns than a bias ``RelativePositions2d``.

        Example:
            >>> import evolving_attention as ea
            >>> sizes = {"image_size": 8, "patch_size": 4, "hidden_size": 16}
            >>> heads = {"num_attention_heads": 2, "num_hidden_layers": 1}
            >>> model = ea.ViTModel(ea.ViTConfig(**sizes, **heads))
            >>> model.interpolate_positions([8, 20]).config.grid
            (2, 5)
        """
        values = {**self.config.to_dict(), "image_size": image_size}
        values.pop("attention", None)
        config = ViTConfig.from_dict(values, attention=self.config.attention)
        held = dict(self._named)
        name = POSITIONS if POSITIONS in held else f"{VIT.prefix}{POSITIONS}"
        grid = cast(ViTConfig, self.config).grid
        table = resized_positions(host_array(held[name]), grid, config.grid)
        self._become(self._rebuilt(config, self.dtype, {name: table}))
        return self

    def save_timm(self, folder: str | Path) -> None:
        """Writes config.json and model.safetensors with timm's names.

        ``timm.create_model("local-dir:FOLDER", pretrained=True)`` reads the folder, as
        does from_pretrained. timm's norms have an epsilon of 1e-6; a smaller
        ``layer_norm_eps``, such as the default 1e-12, is kept only by from_pretrained.

        Raises:
            ConfigError: timm's ViT computes something else: this one has another
                attention, another activation, a pooler, or a greater
                ``layer_norm_eps``.
            CheckpointError: the folder is a file, or cannot be written.
        """
        from evolving_attention.durable import make_folder
        from evolving_attention.interop.safetensors_io import save_safetensors
        from evolving_attention.interop.vit_folders import timm_config, to_timm

        config, tensors = timm_config(self.config), to_timm(self.state_dict())
        if "head.weight" not in tensors:
            config["num_classes"] = config["pretrained_cfg"]["num_classes"] = 0
        root = make_folder(folder)
        save_safetensors(root, tensors, beside={"config.json": config})


class ViTModel(_ViT):
    """States of the class token and all patches: ``last_hidden_state`` [B, T, hidden].

    With a pooler, also ``pooler_output`` [B, hidden].
    """

    head = "base"

    @classmethod
    def _adapt(
        cls, config: PretrainedConfig, tensors: Mapping[str, np.ndarray]
    ) -> PretrainedConfig:
        """Keeps the pooler only if the checkpoint has one."""
        if not any("pooler." in name for name in tensors):
            config.add_pooling_layer = False
        return config


class ViTForImageClassification(_ViT):
    """Classifies images; the loss is cross entropy.

    With ``num_labels=1`` it predicts a value; the loss is the mean squared error.
    """

    head = "image_classification"
    output_class = ImageClassifierOutput


_BASE: dict[str, Any] = {
    "image_size": 384,
    "num_labels": 1000,
    "hidden_dropout_prob": 0.1,
    "layer_norm_eps": 1e-6,
}
_LARGE: dict[str, Any] = {
    **_BASE,
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
for _size, _sizes in (("b", _BASE), ("l", _LARGE)):
    for _patch in (32, 16):
        _options = {**_sizes, "patch_size": _patch}
        _name, _task = f"vit_{_size}{_patch}", "image_classification"
        register_sizes(_name, ViTConfig, ("", "pa_"), _task, **_options)
        # Wang et al., TPAMI 2023, Table 10
        _evolving = Evolving(alpha=0.1, beta=0.3)
        register_sizes(
            _name, ViTConfig, ("ea_",), _task, attention=_evolving, **_options
        )
