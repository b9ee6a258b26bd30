"""Classifier of pictures, with the conventions of scikit-learn."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from evolving_attention.data.image_transforms import Normalize
from evolving_attention.data.images import (
    ImageRows,
    Pictures,
    labels_of_npz,
    read_pictures,
    scale_of,
    small,
)
from evolving_attention.errors import (
    ConfigError,
    InputError,
    ShapeError,
    require,
)
from evolving_attention.estimators import files, fitting, image_models, rules, targets
from evolving_attention.estimators.image_views import ImageViews
from evolving_attention.estimators.named import NamedOptions
from evolving_attention.estimators.randomness import seed_of
from evolving_attention.estimators.targets import PICTURES
from evolving_attention.estimators.weights import sample_weights
from evolving_attention.metrics.images import confusion_matrix, top_k
from evolving_attention.metrics.probabilities import softmax
from evolving_attention.modeling.images import pair_of
from evolving_attention.optim.factory import check_options
from evolving_attention.training.schedules import multiplier

_WHY = "for the classifier of pictures"
_sklearn = require("sklearn.base", extra="image", why=_WHY)
_Classifier: Any = _sklearn.ClassifierMixin
_Estimator: Any = _sklearn.BaseEstimator
_validation: Any = require("sklearn.utils.validation", extra="image", why=_WHY)

Array = np.ndarray[Any, Any]
_Self = TypeVar("_Self", bound="ImageClassifier")

_ERRORS = ("raise", "skip")
_OPTIMIZERS = ("radam", "adamw", "sgd")
_RANGES: dict[str, tuple[float, float]] = {
    **rules.TRAINING,
    "crop": (0, 65_536),
    "cutout": (0, 65_536),
    "resized_crop": (0.001, 1.0),
    "label_smoothing": (0.0, 1.0),
}


@dataclass(kw_only=True, eq=False, repr=False)
class ImageClassifier(NamedOptions, ImageViews, _Classifier, _Estimator):  # type: ignore[misc]
    """Classifies pictures with a Vision Transformer, or another image network.

    Pictures are given as an array [n, height, width] or [n, height, width, channels] of
    uint8 (0 to 255), booleans or floats; as a list of such arrays, of files or of
    Pillow images; as a folder that has a subfolder of pictures for each class; or as an
    npz file with ``X`` and ``y``. Pixels keep their scale, which must be the same in
    training and later: files are 0 to 255, booleans 0 and 255. Pictures are resized to
    one size, read into memory once, and augmented at random in training. NaN and
    infinity are errors, and so are files that are damaged, truncated or animated;
    ``data.image_files.decode`` describes how other formats become RGB.

    Args:
        architecture: ``"vit"``, whose sizes are the options below; ``"resnet"`` and
            ``"aa_resnet"``, by default with 50 layers; or an image model's name from
            :func:`list_models`, such as ``"ea_aa_resnet34"`` or ``"pa_cifar_net"``,
            which sets its sizes and its attention.
        attention: an attention kind of ``ea.attention``, its dict or name, or a list
            with one for each layer; None: for ``"vit"`` ``Evolving(alpha=0.1,
            beta=0.3)``, or what ``pretrained`` has, unless that is vanilla; otherwise
            the architecture's own. ``Vanilla()`` is the plain network.
        image_size: pixels of a side, or [height, width]; None: the size of the pictures
            if all have the same one, else 224.
        patch_size: size of a patch, in the same format; None: 16 for sides from 128
            pixels, else an eighth of the shorter side, or the nearest size that divides
            both sides (4 for 28 pixels). If none does, pictures are resized to a
            multiple, unless ``image_size`` is given. The model does not see pixels
            beyond the last whole patch: ``fit`` warns about them. Only ``"vit"`` has
            this option and those up to ``pooling``.
        hidden_size, num_hidden_layers, num_attention_heads: sizes of the model.
        intermediate_size: feed-forward width; None: twice ``hidden_size``.
        dropout: in [0, 1), for embeddings and residuals.
        pooling: whether the classifier reads the class ``"token"`` or the ``"mean"``.
        model_options: dict of further options of the architecture's config, such as
            ``ea.ViTConfig``.
        pretrained: folder or name of a checkpoint of the architecture to start from
            (for ViT Hugging Face's, timm's or DINOv2's format; positions are resized to
            ``image_size``). The checkpoint determines the model's sizes; None: a new
            model.
        flip: in training, mirror half of the pictures left to right at random.
        crop: in training, shift pictures by up to this many pixels.
        cutout: in training, blank a square whose side is this many pixels.
        resized_crop: in training, cut out a part with at least this share of the
            picture's area, at random, and resize it to ``image_size``, as for ImageNet
            (0.05); later the picture's centre is resized, 7/8 of its shorter side.
            None: the whole picture is stretched to ``image_size``.
        normalize: ``"dataset"``: to mean 0 and deviation 1 over the training part;
            ``"half"``: from 0 … 255 to -1 … 1, as most published ViTs; ``"imagenet"``:
            from 0 … 255 by ImageNet's mean and deviation, as DINOv2; ``"none"``.
        on_error: how ``fit`` and ``evaluate`` handle unusable pictures: ``"raise"``, or
            ``"skip"`` them with a warning that counts them.
        n_epochs: passes over the training part.
        batch_size: pictures per step.
        optimizer: ``"radam"``, ``"adamw"`` or ``"sgd"``.
        optimizer_options: dict of further options of its class in ``ea.optim``; None:
            for SGD a Nesterov momentum of 0.9, for RAdam the betas 0.9 and 0.99.
        learning_rate: learning rate of the optimizer.
        lr_schedule: ``"cosine"``, or another schedule of ``ea.TrainingArguments``.
        lr_schedule_options: dict of its options; ``{"num_cycles": 3, "cycle_growth": 2,
            "lr_end": 1e-4}`` of ``"cosine_with_restarts"`` makes cycles of 10, 20 and
            40 of 70 epochs.
        weight_decay: >= 0, decoupled; for SGD an L2 penalty, unless its options say
            otherwise. Not applied to biases and norms.
        label_smoothing: share of each label that is spread evenly over all classes,
            below 1.
        validation_fraction: share of the pictures held out to choose the best epoch,
            whose weights are kept; 0: train on all and keep the last weights.
        patience: stop after this many epochs without a better one; None: never.
        random_state: int, RandomState or None: seeds the split, weights, dropout,
            augmentation and order. The same number gives bit-identical results for any
            number of threads.
        device: device of fit and predict: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        verbose: 1 shows progress.

    Attributes:
        classes_: the labels, in the order of ``predict_proba``'s columns.
        model_: the fitted model, such as an ``ea.ViTForImageClassification``.
        size_: (height, width) of the pictures that the model receives.
        centred_: whether it receives their centre (``resized_crop``).
        history_: one dict per epoch: losses, learning rate, validation scores.
        best_epoch_: the epoch whose weights are kept.
        interrupted_: "SIGINT", if Ctrl-C ended training after some epochs; None:
            training was not interrupted.
        skipped_: (picture, reason) of the pictures that ``on_error="skip"`` left out of
            fit.
        mean_, deviation_: of each channel, used to normalise pictures.
        in_bytes_: whether the training pixels were 0 to 255 (True), or floats up to 1
            or below 0 (False); None: unknown.
        scale_: the least training pixel, and the lowest and the highest of the
            pictures' greatest absolute values; None: unknown. Later pictures on another
            scale are refused (docs/images.md).

    Raises:
        ConfigError: an option is out of range.
        DataError, InputError, ShapeError, DTypeError: pictures or labels cannot be
            used; says which file or index.
        MissingExtraError: scikit-learn, or Pillow for files, is not installed.

    Example::

        clf = ea.ImageClassifier(n_epochs=30, random_state=0).fit("photos/train")
        clf.score("photos/test"); clf.save("vit/")
    """

    architecture: str = "vit"
    attention: Any = None
    image_size: Any = None
    patch_size: Any = None
    hidden_size: int = 64
    num_hidden_layers: int = 6
    num_attention_heads: int = 4
    intermediate_size: int | None = None
    dropout: float = 0.0
    pooling: str = "token"
    model_options: Any = None
    pretrained: Any = None
    flip: bool = False
    crop: int = 0
    cutout: int = 0
    resized_crop: float | None = None
    normalize: str = "dataset"
    on_error: str = "raise"
    n_epochs: int = 30
    batch_size: int = 64
    optimizer: str = "radam"
    optimizer_options: Any = None
    learning_rate: float = 1e-3
    lr_schedule: str = "cosine"
    lr_schedule_options: Any = None
    weight_decay: float = 0.0
    label_smoothing: float = 0.0
    validation_fraction: float = 0.1
    patience: int | None = None
    random_state: Any = None
    device: str = "cpu"
    verbose: bool | int = 0

    # --- fitting ------------------------------------------------------------------

    def check_options(self) -> None:
        """Refuse options of a wrong type or out of range; ``fit`` calls this first.

        Raises:
            ConfigError: names the option, its value and the expected one.
        """
        rules.check_training(self, _RANGES)
        if self.label_smoothing == 1:
            raise ConfigError(
                f"ImageClassifier: label_smoothing={self.label_smoothing!r}, expected "
                "a number from 0, below 1; give a smaller one"
            )
        rules.check_choices(
            self,
            normalize=image_models.NORMALIZE,
            on_error=_ERRORS,
            optimizer=_OPTIMIZERS,
        )
        if self.crop and self.resized_crop is not None:
            raise ConfigError(
                f"ImageClassifier: crop={self.crop} with resized_crop="
                f"{self.resized_crop}, expected one of them; leave crop out"
            )
        image_models.check_architecture(self)
        rules.check_dicts(
            self,
            model_options="of ea.ViTConfig, such as {'layer_scale': 0.1}",
            optimizer_options="such as {'momentum': 0.9}",
            lr_schedule_options="such as {'num_cycles': 3}",
        )
        check_options(self.optimizer, self.optimizer_options or {})
        schedule = self.lr_schedule_options or {}
        multiplier(self.lr_schedule, 0, 1, self.learning_rate, **schedule)
        image_models.check_size(self)

    def fit(self: _Self, X: Any, y: Any = None) -> _Self:
        """Train on pictures and their classes; discards an earlier fit.

        Args:
            X: pictures, in any form that the class description lists.
            y: a label for each picture; None: the names of the folders, or the ``y`` of
                an npz file.

        Raises:
            ConfigError, DataError, InputError, ShapeError, DTypeError: an option, a
                picture or the labels cannot be used; says which.
            OutOfMemory: a batch does not fit in memory; raised before the first step.
        """
        self.check_options()
        seed = seed_of(self)
        given = self._read(X, None, size=None)
        labels = targets.class_targets(
            self._labels(X, y, given), len(given.pixels), PICTURES
        )
        classes = np.unique(labels)
        image_models.check_bytes(self, given)
        size = image_models.size_of(self, given.pixels)
        image_models.check_augmentation(self, size)
        import evolving_attention as ea

        with fitting.kept_randomness():
            ea.manual_seed(seed)
            model = image_models.new(self, size, given.channels, classes)
            image_models.tell_of_unseen(model.config)
            kept = self._large_enough(model.config, given)
            labels = targets.class_targets(labels[kept], len(kept), PICTURES)
            if len(np.unique(labels)) < len(classes):  # no picture of a class is usable
                classes = np.unique(labels)
                ea.manual_seed(seed)
                model = image_models.new(self, size, given.channels, classes)
            numbers = targets.class_numbers(labels, classes, kind=PICTURES)
            self._tell_of_skipped(given)
            sources = [given.pixels[i] for i in kept]
            pixels = image_models.whole(self, sources, size)
            scale = scale_of(pixels)
            training, validation = targets.split(
                len(pixels), self.validation_fraction, seed, numbers, PICTURES, 3
            )
            mean, deviation = image_models.scaling(pixels[training], self.normalize)
            plain_change = Normalize(mean, deviation)
            options = {"tokens": model.config.tokens, "labels": numbers, "seed": seed}
            rows = ImageRows(pixels, plain_change, **options)
            change = image_models.augmentation(self, size, plain_change)
            if self.resized_crop is not None:
                pixels = image_models.originals(sources)
            result = fitting.train(
                model,
                ImageRows(pixels, change, **options).take(training),
                rows.take(validation) if len(validation) else None,
                fitting.FitSettings.of(self, seed),
                stacklevel=4,
            )
        self.classes_, self.model_, self.skipped_ = classes, model, given.skipped
        self.mean_, self.deviation_, self.size_ = mean, deviation, size
        self.centred_ = self.resized_crop is not None
        self.in_bytes_, self.scale_ = given.in_bytes, scale
        self.history_, self.best_epoch_ = result.history, result.best_epoch
        self.interrupted_ = result.interrupted
        fitting.tell(result, self.n_epochs, stacklevel=3, continues=False)
        return self

    def _read(self, X: Any, known: Any, size: tuple[int, int] | None) -> Pictures:
        """Reads pictures and keeps those that can be used."""
        skip = self.on_error == "skip"
        config = None if known is None else self.model_.config
        least = (1, 1) if config is None else config.least_side
        names = None if known is None else [str(one) for one in known]
        centre = config is not None and self._sees_centre
        return read_pictures(
            X, classes=names, skip=skip, least=least, size=size, centre=centre
        )

    @property
    def _sees_centre(self) -> bool:
        """Whether the fitted model sees the centre of pictures."""
        # earlier versions did not save it
        return bool(vars(self).get("centred_", self.resized_crop is not None))

    def _tell_of_skipped(self, given: Pictures, stacklevel: int = 3) -> None:
        """Warn about skipped pictures, at the line that calls the method."""
        if not given.skipped:
            return
        count = len(given.skipped)
        shown = "; ".join(reason for _, reason in given.skipped[:3])
        warnings.warn(
            f"{count} of {given.total} pictures cannot be used and are left out: "
            f"{shown}" + (f"; and {count - 3} more" if count > 3 else ""),
            stacklevel=stacklevel,
        )

    def _labels(self, X: Any, y: Any, given: Pictures) -> Any:
        """Returns the labels of the pictures that can be used."""
        if y is None and given.labels is not None:
            return given.labels
        if y is None and isinstance(X, (str, Path)) and Path(X).suffix == ".npz":
            y = labels_of_npz(X)
        if y is None:
            raise InputError(
                f"{given.names[0]}: y is None, expected a label for each picture, "
                "fit(X, y); of folders the folder of a class gives it, of an npz file "
                "the array y"
            )
        labels = targets.one_dimensional(y, given.total, kind=PICTURES)
        return labels[given.numbers]

    def _large_enough(self, config: Any, given: Pictures) -> list[int]:
        """Returns indices of the pictures that are no smaller than a patch."""
        height, width = config.least_side
        kept = []
        for i, (one, name) in enumerate(zip(given.pixels, given.names, strict=True)):
            if one.shape[0] >= height and one.shape[1] >= width:
                kept.append(i)
                continue
            reason = small(one, name, (height, width))
            if self.on_error == "raise":
                raise InputError(reason)
            given.skipped.append((name, reason))
        if not kept:
            raise InputError(given.skipped[0][1])
        return kept

    # --- prediction ---------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """Returns the class of each picture, [n].

        Raises:
            NotFittedError: the estimator is not fitted.
            DataError, InputError, ShapeError, DTypeError: a picture cannot be used;
                names it. No picture is skipped here; :meth:`read` can skip.
        """
        found: Array = self.classes_of(self.predict_proba(X))
        return found

    def predict_proba(self, X: Any) -> Array:
        """Returns the probability of each class for each picture, float64 [n, classes].

        Raises:
            NotFittedError, DataError, InputError, ShapeError, DTypeError: as for
                :meth:`predict`.
        """
        return self._probabilities(self._rows_of(X))

    def read(self, X: Any, skip: bool = False) -> Pictures:
        """Reads pictures as ``predict`` does: checked, resized, with names.

        ``predict`` and the like accept the result in place of X, also those of another
        classifier that reads alike. Its ``names`` are those of the pictures that can be
        used, in order.

        Args:
            X: pictures, as for :meth:`predict`.
            skip: leave out pictures that cannot be used, with a warning; the result's
                ``skipped`` names them.

        Raises:
            NotFittedError, DataError, InputError, ShapeError, DTypeError: as for
                :meth:`predict`.
        """
        _validation.check_is_fitted(self)
        given = self._resized(X, skip)
        self._tell_of_skipped(given)
        return given

    def _resized(self, X: Any, skip: bool = False) -> Pictures:
        least = self.model_.config.least_side
        return read_pictures(
            X, skip=skip, least=least, size=self.size_, centre=self._sees_centre
        )

    def classes_of(self, probabilities: Array) -> Array:
        """Returns the label with the highest probability in each row."""
        found: Array = self.classes_[probabilities.argmax(axis=1)]
        return found

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Returns the accuracy on pictures.

        Args:
            X, y: as in :meth:`fit`.
            sample_weight: a weight >= 0 for each picture of X; None: equal weights.

        Raises:
            NotFittedError, DataError, InputError, ShapeError, DTypeError: as for
                :meth:`predict`; also for labels that training did not see, and for
                weights that cannot be used.
        """
        given, numbers, probabilities = self._scored(X, y)
        weight = sample_weights(sample_weight, given.total, 1, PICTURES, given.numbers)
        hits = probabilities.argmax(axis=1) == numbers
        return float(np.average(hits, weights=weight))

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Any]:
        """Returns scores on pictures; ``y`` as in :meth:`fit`.

        Returns:
            ``top1`` and ``top5`` (the share of pictures whose true class is the most
            probable one, or among the five most probable), ``loss`` (cross entropy),
            ``confusion`` (int64 [classes, classes], true classes in rows), and the
            numbers of ``pictures`` and ``skipped`` ones.

        Raises:
            NotFittedError, DataError, InputError, ShapeError, DTypeError: as for
                :meth:`score`; with ``on_error="skip"`` pictures that cannot be used
                are left out and counted.
        """
        given, numbers, odds = self._scored(X, y)
        own = odds[np.arange(len(odds)), numbers]
        return {
            "top1": top_k(odds, numbers, 1),
            "top5": top_k(odds, numbers, 5),
            "loss": float(-np.log(np.maximum(own, 1e-300)).mean()),
            "confusion": confusion_matrix(
                odds.argmax(axis=1), numbers, len(self.classes_)
            ),
            "pictures": len(given.pixels),
            "skipped": len(given.skipped),
        }

    def _scored(self, X: Any, y: Any) -> tuple[Pictures, Array, Array]:
        """Returns pictures, the numbers of their classes, and probabilities."""
        _validation.check_is_fitted(self)
        given = self._read(X, self.classes_, self.size_)
        self._tell_of_skipped(given, stacklevel=4)
        labels = np.asarray(self._labels(X, y, given))
        if labels.dtype.kind == "U" and self.classes_.dtype.kind != "U":
            known = {str(label): label for label in self.classes_.tolist()}
            labels = np.array([known.get(label, label) for label in labels.tolist()])
        numbers = targets.class_numbers(labels, self.classes_, kind=PICTURES)
        return given, numbers, self._probabilities(self._rows_of(given))

    def _rows_of(self, X: Any) -> ImageRows:
        """Returns pictures, or what :meth:`read` returned, checked and normalised."""
        _validation.check_is_fitted(self)
        given = self._resized(X)
        if given.channels != self.model_.config.num_channels:
            raise ShapeError(
                f"{given.names[0]}: {given.channels} channels, expected "
                f"{self.model_.config.num_channels} as in training; convert the "
                "pictures; one picture alone is X[None]"
            )
        given.check_scale(vars(self).get("in_bytes_"), vars(self).get("scale_"))
        return ImageRows(
            np.stack(given.pixels),
            Normalize(self.mean_, self.deviation_),
            tokens=self.model_.config.tokens,
        )

    def _probabilities(self, rows: ImageRows) -> Array:
        return softmax(fitting.outputs(self.model_, rows, self.device))

    # --- files --------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write the fitted estimator: the model's files and ``estimator.json``.

        Nothing is pickled. ``random_state`` is saved if it is a number; ``device`` is
        not saved.

        Raises:
            NotFittedError: the estimator is not fitted.
            CheckpointError: the folder cannot be written.
        """
        _validation.check_is_fitted(self)
        record = {
            **files.heading(self, attention=None),  # the model's config has it in full
            "classes": self.classes_.tolist(),
            "kind": self.classes_.dtype.str,
            "size": self.size_,
            "centred": self._sees_centre,
            "mean": self.mean_,
            "deviation": self.deviation_,
            "in_bytes": vars(self).get("in_bytes_"),
            "scale": vars(self).get("scale_"),
            "skipped": self.skipped_,
        }
        files.write(folder, self.model_, record)

    @classmethod
    def load(cls: type[_Self], folder: str | Path, device: str = "cpu") -> _Self:
        """Load an estimator that :meth:`save` wrote, on any device.

        Raises:
            CheckpointError: the folder is missing, damaged, or another estimator's.
            ConfigError, BackendUnavailable: the device does not exist.
        """
        import evolving_attention as ea

        root = Path(folder)
        record = files.read_own(cls, root, device)
        model = files.read_model(ea.AutoModelForImageClassification, root, device)
        files.check_files(root, record)
        with files.usable(root):
            found = cls(**{**record["options"], "device": device})
            if record["options"]["attention"] is None:
                found.attention = model.config.attention
            found.classes_ = files.labels_of(root, record, model)
            if "size" not in record:  # files from when ViT was the only architecture
                record["size"] = model.config.image_size
            found.size_ = pair_of(record["size"], "size", cls.__name__)
            if "image_size" in model.config.defaults:
                taken = model.config.side("image_size")
                if found.size_ != taken:
                    expected = f"{[*taken]}, as the model has"
                    raise files.misfit(root, "size", record["size"], expected)
            found.centred_ = record.get("centred", found._sees_centre)
            found.mean_ = [float(value) for value in record["mean"]]
            found.deviation_ = [float(value) for value in record["deviation"]]
            found.in_bytes_ = record.get("in_bytes")
            scale = record.get("scale")
            found.scale_ = None if scale is None else tuple(map(float, scale))
            files.set_fit(found, record)
            found.skipped_ = [(name, reason) for name, reason in record["skipped"]]
            Normalize(found.mean_, found.deviation_)
        channels = model.config.num_channels
        finite = all(math.isfinite(value) for value in found.mean_)
        if not finite or len(found.mean_) != channels:
            expected = f"{channels} numbers, one for each channel of the model"
            raise files.misfit(root, "mean", record["mean"], expected)
        found.model_ = model
        return found
