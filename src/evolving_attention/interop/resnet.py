"""Tensor names of image networks: Hugging Face's, and torchvision's mapped to them."""

from __future__ import annotations

from evolving_attention.interop.rules import NameTable

_BLOCK = r"^(resnet\.encoder\.stages\.\d+\.layers\.\d+)\."
_STEM = "resnet.embedder.embedder."
_TORCHVISION = (
    (r"^conv1\.", f"{_STEM}convolution."),
    (r"^bn1\.", f"{_STEM}normalization."),
    *(
        (rf"^layer{stage}\.(\d+)\.", rf"resnet.encoder.stages.{stage - 1}.layers.\1.")
        for stage in (1, 2, 3, 4)
    ),
    *(
        (rf"{_BLOCK}conv{layer}\.", rf"\1.layer.{layer - 1}.convolution.")
        for layer in (1, 2, 3)
    ),
    *(
        (rf"{_BLOCK}bn{layer}\.", rf"\1.layer.{layer - 1}.normalization.")
        for layer in (1, 2, 3)
    ),
    (rf"{_BLOCK}downsample\.0\.", r"\1.shortcut.convolution."),
    (rf"{_BLOCK}downsample\.1\.", r"\1.shortcut.normalization."),
    (r"^fc\.", "classifier.1."),
)
_HEADS = (r"classifier\..+",)


def _table(architecture: str) -> NameTable:
    return NameTable(
        architecture=architecture,
        prefix="resnet.",
        renames=_TORCHVISION,
        ignored=(r".*num_batches_tracked",),
        allowed_new=_HEADS,
        allowed_unexpected=_HEADS,
    )


RESNET = _table("resnet")
AA_RESNET = _table("aa_resnet")
CIFAR_NET = NameTable(
    architecture="cifar_net",
    prefix="cifar_net.",
    allowed_new=_HEADS,
    allowed_unexpected=_HEADS,
)
