"""PreTrainedModel: loads, saves and trains a C++ model as in transformers."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, overload

import numpy as np

from evolving_attention._core import Tensor, create_model, is_grad_enabled
from evolving_attention.device_names import host_array, resolve_device
from evolving_attention.errors import CheckpointError, ConfigError, InputError
from evolving_attention.interop.loading_options import without_loading
from evolving_attention.interop.rules import NameTable
from evolving_attention.modeling.call import call_of
from evolving_attention.modeling.config import (
    CONFIGS,
    PretrainedConfig,
    make_known,
    named_file,
)
from evolving_attention.modeling.outputs import ModelOutput
from evolving_attention.modeling.pickles import PickleMixin
from evolving_attention.modeling.placement import (
    named,
    refuse_overflow,
    sorted_targets,
)
from evolving_attention.modeling.recompute import RecomputeMixin
from evolving_attention.modeling.untrained import NewHead

if TYPE_CHECKING:
    from evolving_attention.interop.hf import CheckpointFolder

# By task, then by model_type; defining a class registers it.
MODELS: dict[str, dict[str, type[PreTrainedModel]]] = {}

_Self = TypeVar("_Self", bound="PreTrainedModel")
_DTYPES = ("float32", "bfloat16", "float64")
_EMBEDDING = re.compile(  # shared: T5's words; positions without .weight: ViT's
    r"(embeddings\.(\w+_embeddings|positions)\.weight|^shared\.weight"
    r"|embeddings\.position_embeddings)$"
)


class PreTrainedModel(RecomputeMixin, PickleMixin):
    """A core model with a config; base of the classes that users call.

    Args:
        config: sizes and attention; see the config class of the architecture.
        dtype: ``"float32"``, ``"bfloat16"`` or ``"float64"`` (reference kernels), or
            NumPy's or PyTorch's type of that name.
        device: where to compute: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"auto"``.

    Raises:
        ConfigError: the config does not suit the architecture.
        BackendUnavailable: there is no such device.

    New models are in training mode, with random weights drawn from the generator that
    ``ea.manual_seed`` seeds.
    """

    config_class: ClassVar[type[PretrainedConfig]]
    head: ClassVar[str]
    tasks: ClassVar[tuple[str, ...]]  # tasks for the Auto classes; by default the head
    table: ClassVar[NameTable]
    output_class: ClassVar[type[ModelOutput]] = ModelOutput
    needed: ClassVar[tuple[str, str]]  # the required input, and a remedy

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Gives an architecture's classes their ``__call__`` and registers them."""
        super().__init_subclass__(**kwargs)
        declared = vars(cls)
        if "config_class" in declared:
            own = call_of(cls.config_class.model_type)
            cls.__call__ = own  # type: ignore[method-assign,assignment]  # its own
        if "head" in declared:
            for task in declared.get("tasks", (cls.head,)):
                classes = MODELS.setdefault(task, {})
                make_known(classes, cls.config_class.model_type, cls)

    if TYPE_CHECKING:  # each architecture has its own signature

        @overload
        def __call__(
            self,
            *inputs: Any,
            return_dict: Literal[True] | None = None,
            **named: Any,
        ) -> ModelOutput: ...
        @overload
        def __call__(
            self, *inputs: Any, return_dict: Literal[False], **named: Any
        ) -> tuple[Any, ...]: ...
        def __call__(
            self, *inputs: Any, return_dict: bool | None = None, **named: Any
        ) -> ModelOutput | tuple[Any, ...]:
            raise NotImplementedError

    def __init__(
        self,
        config: PretrainedConfig,
        dtype: Any = "float32",
        *,
        device: str = "cpu",
    ) -> None:
        where = resolve_device(device)
        # The caller may go on to set the attention of another model.
        self._build(copy.copy(config), dtype)
        self._core.allocate()
        self._initialize(name for name, _ in self._named)
        self._core.to(where)

    def _build(self, config: PretrainedConfig, dtype: Any) -> None:
        """Creates the core model; its parameters have no memory yet."""
        if not isinstance(config, self.config_class):
            raise ConfigError(self._misfit(config))
        dtype = named(dtype)
        if dtype not in _DTYPES:
            raise ConfigError(
                f"{type(self).__name__}: dtype={dtype!r}; expected one of "
                f"{', '.join(_DTYPES)}"
            )
        self.config, self.dtype = config, dtype
        config._check_again()
        self._check_config(config)
        options = {**config.core_options(), "head": self.head}
        self._core = create_model(config.model_type, options, dtype)
        self._named: list[tuple[str, Tensor]] = self._core.named_parameters()
        self._buffers: list[tuple[str, Tensor]] = self._core.named_buffers()
        config._built = True  # from now on it describes this model
        self.load_report: Any | None = None
        self._new_head: NewHead | None = None

    @classmethod
    def _misfit(cls, config: Any) -> str:
        """Returns the error text for a config of another class, with a remedy."""
        own, other = cls.config_class.__name__, type(config)
        package = other.__module__.partition(".")[0]
        remedy = f"pass a {own}"
        if package == "transformers" and other.__name__ == own:
            remedy = f"use {own}.from_dict(config.to_dict())"
        elif isinstance(config, type):
            remedy = f"pass an instance: {own}()"
        where = "" if package == "builtins" else f"{package}."
        return (
            f"{cls.__name__}: expected evolving_attention.{own}, got "
            f"{where}{other.__name__}; {remedy}"
        )

    def _additions(self) -> list[str]:
        """Patterns of the parameters that the attention adds to the model."""
        return [re.escape(name) for name in self._core.additions()]

    def _initialize(self, names: Iterable[str]) -> None:
        self._core.initialize(set(names))

    def _check_config(self, config: PretrainedConfig) -> None:
        """Rejects settings that this class does not support."""

    def _check_inputs(self, inputs: Mapping[str, Any]) -> None:
        """Rejects inputs that this class would ignore."""

    def _given(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the inputs in the form that the core takes."""
        return dict(inputs)

    def train(self: _Self, mode: bool = True) -> _Self:
        """Switches to training mode (dropout on) and returns the model."""
        if not isinstance(mode, bool):
            raise ConfigError(
                f"{type(self).__name__}.train: mode={mode!r}, expected True or False"
            )
        self._core.train(mode)
        return self

    def eval(self: _Self) -> _Self:
        """Switches to evaluation mode (no dropout) and returns the model."""
        return self.train(False)

    @property
    def device(self) -> str:
        """Device of the parameters: ``"cpu"``, ``"cuda:0"``."""
        return self._named[0][1].device

    @property
    def training(self) -> bool:
        """Whether the model is in training mode."""
        return bool(self._core.training)

    # --- parameters ------------------------------------------------------------

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """(name, tensor) of every parameter, Hugging Face's names; tied ones once."""
        return iter(self._named)

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """(name, tensor) of the state that training updates without an optimizer.

        These are running statistics of batch norms; saved and loaded with the
        parameters.
        """
        return iter(self._buffers)

    def parameters(self) -> Iterator[Tensor]:
        """Every parameter once."""
        return (tensor for _, tensor in self._named)

    def num_parameters(
        self, only_trainable: bool = False, exclude_embeddings: bool = False
    ) -> int:
        """Returns the number of parameter elements.

        Args:
            only_trainable: omit frozen parameters, with ``requires_grad`` False.
            exclude_embeddings: omit the tables of words, positions and types.
        """
        return sum(
            tensor.size
            for name, tensor in self._named
            if not (only_trainable and not tensor.requires_grad)
            and not (exclude_embeddings and _EMBEDDING.search(name))
        )

    def requires_grad_(self: _Self, requires_grad: bool = True) -> _Self:
        """Freezes all parameters (False), or trains them, and returns the model."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears all gradients; ``set_to_none=False`` fills them with zeros."""
        from evolving_attention.optim.base import clear_gradients

        clear_gradients(self.parameters(), set_to_none)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Arrays of parameters and buffers by name, sharing the model's memory.

        Copy what you want to keep. If the model is not on the CPU, the arrays are
        copies. In bfloat16 they have ml_dtypes' type, which ``torch.from_numpy`` does
        not take: ``torch.from_dlpack`` does with the tensors of
        :meth:`named_parameters` and :meth:`named_buffers`.
        """
        return {name: host_array(tensor) for name, tensor in self._state()}

    def _state(self) -> list[tuple[str, Tensor]]:
        return [*self._named, *self._buffers]

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> Any:
        """Copies values in by name; returns the :class:`LoadReport`.

        Names may omit the base model's prefix, and may have Hugging Face's old
        spellings. Values are arrays or tensors, PyTorch's too. What ``strict=False``
        cannot load keeps the value it has.

        Raises:
            CheckpointError: tensors are missing, unexpected or of another shape (unless
                ``strict=False``), hardly any name matches, or a value is NaN, infinite
                or more than the model's element type holds.
        """
        if not isinstance(state, Mapping):
            raise InputError(
                f"load_state_dict: state is a {type(state).__name__}, expected a dict "
                "of names and arrays, as state_dict() returns"
            )
        from evolving_attention.interop.load_report import STATE_DICT, match

        allowed = () if strict else None
        assigned, report = match(
            {name: tensor.shape for name, tensor in self._state()},
            {name: host_array(value) for name, value in state.items()},
            table=self.table,
            allowed_new=allowed,
            allowed_unexpected=allowed,
            strict=strict,
            source=STATE_DICT,
            sizes=self.config.sizes(),
        )
        self._assign(assigned, report.source)
        return report

    def _assign(self, arrays: Mapping[str, np.ndarray], source: str) -> None:
        self._check_finite(arrays, source)
        for name, tensor in self._state():
            if name in arrays:
                tensor.copy_(arrays[name])

    def _check_finite(self, arrays: Mapping[str, np.ndarray], source: str) -> None:
        for name, array in arrays.items():
            # The sum is finite unless an element is not (or the sum overflows float64).
            total = np.sum(array, dtype=np.float64)
            if not np.isfinite(total):
                raise CheckpointError(
                    f"{source}: {name} holds NaN or infinity; the file is damaged or "
                    "comes from a run that diverged"
                )
            refuse_overflow(array, self.dtype, f"{source}: {name}", CheckpointError)

    def to(self: _Self, *targets: Any, dtype: Any = None, device: Any = None) -> _Self:
        """Changes element type, device or both, in place; returns the model.

        ``model.to("cuda")`` moves weights and gradients; optimizers remain valid.
        ``model.to("bfloat16")`` rounds weights to the nearest value, drops gradients
        and creates new parameter tensors: create optimizers afterwards. The old ones
        are frozen, and an optimizer that has no others refuses its next step.

        Args:
            targets: an element type, a device, or both: names such as ``"bfloat16"``
                and ``"cuda:1"``, or NumPy's and PyTorch's objects of these names.
            dtype, device: the same by name.

        Raises:
            ConfigError: a target is neither a device nor float32, bfloat16 or float64,
                or a weight is more than the element type holds.
            BackendUnavailable: there is no such device.
            OutOfMemory: the device has too little memory; the model stays where it was.
        """
        dtype, device = sorted_targets(targets, dtype, device)
        where = None if device is None else resolve_device(device)
        if dtype is not None and dtype != self.dtype:
            self._become(self.copy(dtype))
        if where is not None and where != self.device:
            self._core.to(where)
        return self

    def _become(self: _Self, other: _Self) -> None:
        """Takes the state of another model; nothing trains the old parameters again."""
        for parameter in self.parameters():
            parameter.requires_grad = False
        vars(self).update(vars(other))

    def copy(self: _Self, dtype: Any = None) -> _Self:
        """Returns a second model with the same weights, in ``dtype`` if given.

        Weights are rounded to the nearest value; config, modes and device are the
        same, and frozen parameters stay frozen.

        Raises:
            ConfigError: ``dtype`` is not float32, bfloat16 or float64, or a weight is
                more than it holds.
        """
        return self._rebuilt(copy.copy(self.config), dtype or self.dtype, {})

    def _rebuilt(
        self: _Self,
        config: PretrainedConfig,
        dtype: Any,
        changed: Mapping[str, np.ndarray],
    ) -> _Self:
        """Returns a model of another config; weights outside ``changed`` are kept."""
        made = type(self).__new__(type(self))
        made._build(config, dtype)
        made._core.allocate()
        for (name, mine), (_, theirs) in zip(made._state(), self._state(), strict=True):
            values = changed[name] if name in changed else theirs.to("cpu")
            where = f"{type(self).__name__}: {name}"
            refuse_overflow(host_array(values), made.dtype, where, ConfigError)
            mine.copy_(values)
        for (_, mine), (_, theirs) in zip(made._named, self._named, strict=True):
            mine.requires_grad = theirs.requires_grad
        if self.device != "cpu":
            made._core.to(self.device)
        made.load_report, made._new_head = self.load_report, self._new_head
        if self.is_gradient_checkpointing:
            made.gradient_checkpointing_enable()
        return made.train(self.training)

    def _tell_of_new_head(self, labels: Any) -> None:
        """Before a call: says once that the model predicts with an untrained head."""
        trains = self.training or (labels is not None and is_grad_enabled())
        if self._new_head is not None and not trains:
            self._new_head.predicts(self)

    # --- files -----------------------------------------------------------------

    @classmethod
    def from_pretrained(
        cls: type[_Self],
        name_or_path: str | Path,
        *,
        config: PretrainedConfig | None = None,
        num_labels: int | None = None,
        attention: Any = None,
        dtype: Any = "float32",
        device: str = "cpu",
        strict: bool = True,
        local_files_only: bool = False,
        **config_overrides: Any,
    ) -> _Self:
        """Loads a checkpoint; the model is in evaluation mode.

        Args:
            name_or_path: a folder, ``package:NAME/PATH``, or a name in the local Hub
                cache or on the Hub, looked up in this order.
            config: replaces config.json; give no option of the config with it.
            num_labels: classes of a new task head; 1 is regression.
            attention: a kind, or a list of one per layer; default: as in config.json,
                else vanilla. ``load_report.new`` lists new, random convolutions.
            dtype: element type of parameters and computation: one that the class
                takes, or ``"auto"`` for the checkpoint's.
            device: where to compute: "cpu", "cuda", "cuda:1" or "auto".
            strict: reject missing, unexpected and mismatched tensors.
            local_files_only: do not contact the Hub.
            config_overrides: further options of the config.

        Raises:
            CheckpointError: the checkpoint is missing, damaged, or of another model.
            UnsafeCheckpointError: a .bin file would load more than weights.
            ConfigError: config.json or an option is invalid.
            BackendUnavailable: the device is not available.
        """
        where = resolve_device(device)  # fail before a long read
        from evolving_attention.interop.hf import load_folder
        from evolving_attention.interop.load_report import check_growth, match
        from evolving_attention.interop.resolve import resolve

        source = f"{cls.__name__}.from_pretrained"
        config_overrides = without_loading(source, config_overrides)
        folder = cls._translated(
            load_folder(resolve(name_or_path, local_files_only=local_files_only)),
            config_overrides,
        )
        cls._check_type(folder)
        overrides = {"attention": attention, **config_overrides}
        if num_labels is not None:
            overrides["num_labels"] = num_labels
        cls._check_overrides(config_overrides)
        if named(dtype) == "auto":
            dtype = cls._own_dtype(folder)
        with named_file(folder.path, partial(cls._built, folder, {}, "float32")):
            model = cls._built(folder, overrides, dtype, config)
        shapes = {name: tensor.shape for name, tensor in model._state()}
        sizes = model.config.sizes()
        assigned, report = match(
            shapes,
            cls._resized(folder, model.config),
            table=cls.table,
            allowed_new=(*cls.table.allowed_new, *model._additions()),
            strict=strict,
            source=str(folder.path),
            sizes=sizes,
        )
        check_growth(shapes, report, folder.nbytes, sizes)
        model._core.allocate()
        model._assign(assigned, report.source)
        mismatched = [item.name for item in report.mismatched]
        drawn = [*report.new, *report.missing, *mismatched]
        model._initialize(drawn)
        model.load_report = report
        head = [name for name in drawn if not name.startswith(cls.table.prefix)]
        if head and cls.head != "base":
            model._new_head = NewHead(model, head)
        model._read_more(folder.path, config_overrides)
        model._core.to(where)
        return model.eval()

    @classmethod
    def _check_type(cls, folder: CheckpointFolder) -> None:
        """Rejects the folder of another architecture."""
        expected = cls.config_class.model_type
        if folder.model_type not in (None, expected):
            auto = "use the Auto class, which chooses by config.json"
            remedy = auto if folder.model_type in CONFIGS else "no class here loads it"
            raise CheckpointError(
                f"{folder.path}: is a {folder.model_type} checkpoint, {cls.__name__} "
                f"loads {expected}; {remedy}"
            )

    @staticmethod
    def _own_dtype(folder: CheckpointFolder) -> str:
        """Returns the element type of a checkpoint, for ``dtype="auto"``."""
        if (own := folder.dtype) not in _DTYPES:
            raise ConfigError(
                f"{folder.path}: dtype='auto', and the checkpoint has {own!r:.40}, "
                f"expected one of {', '.join(_DTYPES)}; pass dtype='float32'"
            )
        return own

    @classmethod
    def _built(
        cls: type[_Self],
        folder: CheckpointFolder,
        overrides: Mapping[str, Any],
        dtype: Any,
        config: PretrainedConfig | None = None,
    ) -> _Self:
        """Creates a folder's model; its parameters have no memory yet."""
        if config is None:
            config = cls.config_class.from_dict(folder.config, **overrides)
        elif not isinstance(config, cls.config_class):
            raise ConfigError(cls._misfit(config))
        elif given := [name for name, one in overrides.items() if one is not None]:
            raise ConfigError(
                f"{cls.__name__}.from_pretrained: {given[0]} is given with a config, "
                f"expected one of the two; set {given[0]} on the config"
            )
        else:
            config = copy.copy(config)
        model = cls.__new__(cls)
        model._build(cls._adapt(config, folder.tensors), dtype)
        return model

    def _read_more(self, folder: Path, overrides: Mapping[str, Any]) -> None:
        """Reads further files of a folder, besides config and weights."""

    @classmethod
    def _check_overrides(cls, overrides: Mapping[str, Any]) -> None:
        """Rejects options that this class does not support."""

    @classmethod
    def _translated(
        cls, folder: CheckpointFolder, overrides: Mapping[str, Any]
    ) -> CheckpointFolder:
        """Converts another library's folder layout to this architecture's."""
        return folder

    @classmethod
    def _resized(
        cls, folder: CheckpointFolder, config: PretrainedConfig
    ) -> Mapping[str, np.ndarray]:
        """Returns a checkpoint's tensors in the sizes that the config asks for."""
        return folder.tensors

    @classmethod
    def _adapt(
        cls, config: PretrainedConfig, tensors: Mapping[str, np.ndarray]
    ) -> PretrainedConfig:
        """Adapts the config to the tensors of a checkpoint."""
        return config

    def save_pretrained(
        self, folder: str | Path, *, safe_serialization: bool = True
    ) -> None:
        """Writes config.json and model.safetensors, as transformers reads them.

        A text model with other than vanilla attention is saved as ``evolving_bert`` or
        ``evolving_roberta``, with its weights in evolving_model.safetensors:
        transformers, which would compute something else, refuses such a folder.

        All files are written under temporary names before an old one is touched: if the
        disk is full, or the save is interrupted there, the folder stays as it was. Then
        they are renamed, config.json last. If that is interrupted, the folder has the
        old model, the new one, or no config.json and does not load: never a mixture.

        ``safe_serialization`` is transformers' option; no other format is written.

        Raises:
            CheckpointError: the folder is a file, is not writable, or holds a
                pytorch_model.bin that transformers would load for an evolving model.
            ConfigError: ``safe_serialization`` is not True.
        """
        if safe_serialization is not True:
            raise ConfigError(
                f"{type(self).__name__}.save_pretrained: safe_serialization="
                f"{safe_serialization!r}, expected True: weights are saved as "
                "safetensors, which PyTorch's programs read; leave it out"
            )
        from evolving_attention.durable import make_folder
        from evolving_attention.interop.evolving_mark import weights_stem
        from evolving_attention.interop.safetensors_io import save_safetensors

        root = make_folder(folder)
        config = self.config.to_saved()
        stem = weights_stem(config)
        self._refuse_foreign_weights(root, stem)
        config["architectures"] = [type(self).__name__]
        config["dtype"] = self.dtype
        beside = {**self._written_more(), "config.json": config}
        save_safetensors(root, self.state_dict(), stem=stem, beside=beside)

    def _written_more(self) -> dict[str, Any]:
        """Returns further JSON files of a folder by name; None: without that file."""
        return {}

    @staticmethod
    def _refuse_foreign_weights(folder: Path, stem: str) -> None:
        """Rejects a folder with weights that transformers would load instead."""
        for name in ("pytorch_model.bin", "pytorch_model.bin.index.json"):
            if stem != "model" and (folder / name).exists():
                raise CheckpointError(
                    f"{folder}: holds {name}, weights of another model, which "
                    "transformers would load in place of this evolving one; expected "
                    "none: save to another folder, or remove that file"
                )

    def __repr__(self) -> str:
        where = "" if self.device == "cpu" else f"{self.device}, "
        return (
            f"{type(self).__name__}({self.num_parameters():,} parameters, "
            f"{self.dtype}, {where}attention={self.config.attention!r})"
        )
