"""CIFAR-10 over seeds: narrow AA-ResNets and the networks of the predictive paper.

3,000 pictures of CIFAR-10 are split by the seed, stratified by class, into 2,600 for
training and 400 that choose the update; 1,000 other pictures are the test set. All arms
use the predictive paper's recipe except for the length: SGD with Nesterov momentum 0.9
and an L2 penalty of 1e-4, rates from 0.05 to 1e-4 by cosine in two cycles (the second
twice as long), batches of 50, and pictures that are moved by up to 4 pixels, mirrored,
and have a square of 8 x 8 cut out. AA-ResNets see pictures of 64 x 64. Arms share the
split, the order, the augmentation, all initial values they have in common, and the
named random streams. α and β are the papers' values and were not tuned.

Scores at equal seconds are read from the same curves. The slower arm of a pair is
therefore read before its last cycle has ended, at a higher rate than the other arm.

Writes each run to a JSON file and the table to docs/images.md, between its markers.
Runs that are already in the JSON are not repeated.

    python -m benchmarks.cifar [--arms cifar_net pa_cifar_net] [--seeds 5]
"""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import curves

FILE = (
    Path(os.environ.get("EVOLVING_ATTENTION_DATA", "data"))
    / "image"
    / "cifar10_jpg"
    / "cifar10_jpg_3000train_1000test.tar.gz"
)
MARKER = "cifar-seeds"
PAIRS = {
    "narrow AA-ResNets": ("ea_aa_resnet34", "aa_resnet34"),
    "nets of CIFAR": ("pa_cifar_net", "cifar_net"),
}
ARMS = tuple(arm for pair in PAIRS.values() for arm in reversed(pair))
SIZES: dict[str, dict[str, Any]] = {  # by the end of an arm's name
    "aa_resnet34": {
        "image_size": 64,
        "embedding_size": 16,
        "hidden_sizes": [16, 32, 64],
        "depths": [1, 2, 2],
        "num_attention_heads": 4,
    },
    "cifar_net": {"image_size": 32, "hidden_sizes": [8, 16, 32, 64]},
}
RECIPE = {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}
SCHEDULE = {"num_cycles": 2, "cycle_growth": 2, "lr_end": 1e-4}
CROP, CUTOUT, VALIDATION = 4, 8, 400


def data(file: Path) -> dict[str, tuple[curves.Array, curves.Array]]:
    """Returns pixels [n, 32, 32, 3] and classes of "train" and "test"."""
    from evolving_attention.data.image_files import decode

    found: dict[str, list[tuple[str, curves.Array]]] = {"train": [], "test": []}
    with tarfile.open(file) as packed:
        for member in sorted(packed.getmembers(), key=lambda one: one.name):
            held = packed.extractfile(member)
            if held is not None:
                part, label, _ = member.name.split("/")
                pixels = decode(held.read(), member.name)
                found[part].append((label, pixels))
    names = sorted({label for label, _ in found["train"]})
    return {
        part: (
            np.stack([pixels for _, pixels in pictures]),
            np.array([names.index(label) for label, _ in pictures]),
        )
        for part, pictures in found.items()
    }


def model_of(arm: str) -> Any:
    """Builds a new model of an arm."""
    import evolving_attention as ea

    sizes = next(own for end, own in SIZES.items() if arm.endswith(end))
    return ea.create_model(arm, num_labels=10, **sizes)


def parts_of(
    pictures: dict[str, tuple[curves.Array, curves.Array]], side: int, seed: int
) -> tuple[Any, Any, Any]:
    """Returns rows to train on (augmented), to choose an update with and to test on."""
    from sklearn.model_selection import train_test_split

    from evolving_attention.data.image_transforms import (
        Compose,
        Cutout,
        HorizontalFlip,
        Normalize,
        RandomCrop,
        Resize,
    )

    pixels, labels = pictures["train"]
    train, val = train_test_split(
        np.arange(len(labels)),
        test_size=min(VALIDATION, len(labels) // 3),
        random_state=seed,
        stratify=labels,
    )
    size = list(pixels.shape[1:3])
    mean = pixels[train].mean(axis=(0, 1, 2), dtype=np.float64).tolist()
    deviation = pixels[train].std(axis=(0, 1, 2), dtype=np.float64).tolist()
    first, last = Normalize(mean, deviation), Resize([side, side])
    changes = [RandomCrop(size, CROP), HorizontalFlip(), Cutout(CUTOUT)]
    plain = Compose([first, last])
    return (
        curves.rows_of(
            pixels[train], labels[train], Compose([first, *changes, last]), seed
        ),
        curves.rows_of(pixels[val], labels[val], plain),
        curves.rows_of(*pictures["test"], plain),
    )


def run(pictures: Any, arm: str, seed: int, options: Any) -> dict[str, Any]:
    """Trains one arm with one seed."""
    import evolving_attention as ea
    from evolving_attention.training.schedules import multiplier

    ea.manual_seed(seed)
    model = model_of(arm)
    side = model.config.side("image_size")[0]
    decay = RECIPE["weight_decay"]
    groups = ea.optim.decay_groups(model.named_parameters(), decay)
    return curves.train(
        model,
        ea.optim.SGD(groups, **RECIPE),
        parts_of(pictures, side, seed),
        updates=options.updates,
        batch=options.batch,
        every=options.every,
        seed=seed,
        factor=multiplier(
            "cosine_with_restarts", 0, options.updates, RECIPE["lr"], **SCHEDULE
        ),
    )


def table(runs: list[dict[str, Any]]) -> list[str]:
    """Returns a Markdown table per pair; its fastest run sets the "equal seconds"."""
    lines = []
    for title, pair in PAIRS.items():
        if own := [one for one in runs if one["arm"] in pair]:
            lines += [*curves.table(title, own, [pair]), ""]
    return lines


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = curves.parser(__doc__, ARMS, batch=50, seeds=5, updates=390, every=39)
    parser.add_argument("--data", type=Path, default=FILE, help="the tar of pictures")
    options = parser.parse_args(arguments)
    pictures = data(options.data)
    runs = curves.over_seeds(
        MARKER,
        options,
        lambda arm, seed: run(pictures, arm, seed, options),
        **RECIPE,
        **SCHEDULE,
        sizes=SIZES,
        crop=CROP,
        cutout=CUTOUT,
    )
    curves.tell(MARKER, options, table(runs))


if __name__ == "__main__":
    main()
