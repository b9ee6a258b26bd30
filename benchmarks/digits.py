"""Digits of 8 x 8 pixels over resamples: ViT and EA-ViT.

Each resample draws 1,000 digits to train on, 297 to choose an update with and 500 to
test on, stratified by class. Both arms use the same recipe (AdamW at a constant rate,
label smoothing) and the same number of updates. They share the split, the order, all
initial values they have in common, and the named random streams. α and β are the
paper's values and were not tuned. Scores at equal seconds are read from the same
curves.

Writes each run to a JSON file and the table to docs/images.md, between its markers.
Runs that are already in the JSON are not repeated.

    python -m benchmarks.digits [--arms vit ea_vit] [--seeds 20]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import curves

MARKER = "digits-seeds"
ALPHA, BETA = 0.1, 0.3
ARMS = ("vit", "ea_vit")
SIZES: dict[str, int] = {
    "image_size": 8,
    "num_channels": 1,
    "num_labels": 10,
    "num_attention_heads": 4,
}
RECIPE: dict[str, float] = {"lr": 1e-3, "weight_decay": 0.05}
SMOOTHING = 0.1
PARTS = (1_000, 297, 500)


def data() -> tuple[curves.Array, curves.Array]:
    """Returns pixels [1,797, 8, 8, 1] from 0 to 16, and classes."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return found.images[..., None].astype(np.float32), found.target.astype(np.int64)


def split(labels: curves.Array, seed: int) -> list[curves.Array]:
    """Returns the digits to train on, to choose with and to test on."""
    from sklearn.model_selection import train_test_split

    left, parts = np.arange(len(labels)), []
    for count in PARTS[:-1]:
        taken, left = train_test_split(
            left, train_size=count, random_state=seed, stratify=labels[left]
        )
        parts.append(taken)
    return [*parts, left[: PARTS[-1]]]


def model_of(arm: str, options: Any) -> Any:
    """Builds a new model of an arm."""
    import evolving_attention as ea

    kinds = {"vit": None, "ea_vit": ea.attention.Evolving(ALPHA, BETA)}
    config = ea.ViTConfig(
        **SIZES,
        patch_size=options.patch,
        hidden_size=options.width,
        num_hidden_layers=options.layers,
        intermediate_size=2 * options.width,
        attention=kinds[arm],
    )
    return ea.ViTForImageClassification(config)


def run(arm: str, seed: int, options: Any) -> dict[str, Any]:
    """Trains once on a resample."""
    import evolving_attention as ea
    from evolving_attention.data.image_transforms import Normalize

    pixels, labels = data()
    parts = split(labels, seed)
    mean = [float(pixels[parts[0]].mean())]
    change = Normalize(mean, [float(pixels[parts[0]].std())])
    train, val, test = (
        curves.rows_of(pixels[part], labels[part], change) for part in parts
    )
    ea.manual_seed(seed)
    model = model_of(arm, options)
    groups = ea.optim.decay_groups(model.named_parameters(), RECIPE["weight_decay"])
    optimizer = ea.optim.AdamW(groups, **RECIPE)
    return curves.train(
        model,
        optimizer,
        (train, val, test),
        updates=options.updates,
        batch=options.batch,
        every=options.every,
        seed=seed,
        label_smoothing=SMOOTHING,
    )


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line."""
    parser = curves.parser(__doc__, ARMS, batch=50, seeds=20, updates=700, every=20)
    parser.add_argument("--patch", type=int, default=2, help="pixels of its side")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=6)
    options = parser.parse_args(arguments)
    runs = curves.over_seeds(
        MARKER,
        options,
        lambda arm, seed: run(arm, seed, options),
        **RECIPE,
        label_smoothing=SMOOTHING,
        alpha=ALPHA,
        beta=BETA,
    )
    curves.tell(MARKER, options, curves.table("digits", runs, [("ea_vit", "vit")]))


if __name__ == "__main__":
    main()
