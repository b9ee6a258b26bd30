"""PreTrainedModel: load, save and train a C++ model as users of transformers do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from evolving_attention._core import Tensor
from evolving_attention.device_names import host_array, resolve_device
from evolving_attention.errors import CheckpointError, ConfigError, InputError
from evolving_attention.interop.rules import NameTable
from evolving_attention.modeling.config import PretrainedConfig
from evolving_attention.modeling.recompute import RecomputeMixin

__all__ = ["PreTrainedModel"]

_Self = TypeVar("_Self", bound="PreTrainedModel")
_DTYPES = ("float32", "bfloat16", "float64")
# Parameters of evolve kinds written in Python, which no checkpoint has before.
_CUSTOM = r"(.+\.)?layer\.\d+\.attention\.self\.evolve\..+"


class PreTrainedModel(RecomputeMixin):
    """A model of the core with a config; the classes below it are called.

    Args:
        config: sizes and attention; see the config class of the architecture.
        dtype: ``"float32"``, ``"bfloat16"`` or ``"float64"`` (reference kernels).
        device: where it computes: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"auto"``.

    Raises:
        ConfigError: the config does not suit the architecture.
        BackendUnavailable: there is no such device.

    New models are in training mode, with random weights drawn from the generator that
    ``ea.manual_seed`` seeds.
    """

    config_class: ClassVar[type[PretrainedConfig]]
    head: ClassVar[str]
    table: ClassVar[NameTable]

    def __init__(
        self,
        config: PretrainedConfig,
        dtype: str = "float32",
        *,
        device: str = "cpu",
    ) -> None:
        where = resolve_device(device)
        self._build(config, dtype)
        self._initialize(name for name, _ in self._named)
        self._core.to(where)

    def _build(self, config: PretrainedConfig, dtype: str) -> None:
        if not isinstance(config, self.config_class):
            raise ConfigError(
                f"{type(self).__name__}: expected a {self.config_class.__name__}, got "
                f"{type(config).__name__}"
            )
        if dtype not in _DTYPES:
            raise ConfigError(
                f"{type(self).__name__}: dtype={dtype!r}; expected one of "
                f"{', '.join(_DTYPES)}"
            )
        self.config, self.dtype = config, dtype
        self._core = self._make_core({**config.core_options(), "head": self.head})
        self._named: list[tuple[str, Tensor]] = self._core.named_parameters()
        self._buffers: list[tuple[str, Tensor]] = self._core.named_buffers()
        self.load_report: Any | None = None

    def _initialize(self, names: Iterable[str]) -> None:
        self._core.initialize(set(names))

    def _make_core(self, options: dict[str, Any]) -> Any:
        """The core's model for the flat settings ``options``."""
        raise NotImplementedError

    def train(self: _Self, mode: bool = True) -> _Self:
        """Training mode: dropout is on. Returns the model."""
        if not isinstance(mode, bool):
            raise ConfigError(
                f"{type(self).__name__}.train: mode={mode!r}, expected True or False"
            )
        self._core.train(mode)
        return self

    def eval(self: _Self) -> _Self:
        """Evaluation mode: no dropout. Returns the model."""
        return self.train(False)

    @property
    def device(self) -> str:
        """Where the parameters lie: ``"cpu"``, ``"cuda:0"``."""
        return self._named[0][1].device

    @property
    def training(self) -> bool:
        """Whether the model is in training mode."""
        return self._core.training

    # --- parameters ------------------------------------------------------------

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """(name, tensor) of every parameter, tied ones once; Hugging Face's names."""
        return iter(self._named)

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """(name, tensor) of what training changes, but no optimizer.

        Running statistics of batch norms; saved and loaded with the parameters.
        """
        return iter(self._buffers)

    def parameters(self) -> Iterator[Tensor]:
        """Every parameter once."""
        return (tensor for _, tensor in self._named)

    def num_parameters(self) -> int:
        """How many numbers the parameters hold."""
        return sum(tensor.size for _, tensor in self._named)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for _, tensor in self._named:
            tensor.grad = None

    def state_dict(self) -> dict[str, np.ndarray]:
        """Name to array, of parameters and buffers, on their own memory.

        Copy what you want to keep. Of a model on another device than the CPU the
        arrays are copies.
        """
        return {name: host_array(tensor) for name, tensor in self._state()}

    def _state(self) -> list[tuple[str, Tensor]]:
        return [*self._named, *self._buffers]

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> Any:
        """Copy values in by name; returns the :class:`LoadReport`.

        Names may have the base model's prefix or not, and Hugging Face's old spellings.

        Raises:
            CheckpointError: tensors are missing, left over or of another shape (unless
                ``strict=False``), or hardly any name fits.
        """
        if not isinstance(state, Mapping):
            raise InputError(
                f"load_state_dict: state is a {type(state).__name__}, expected a dict "
                "of names and arrays, as state_dict() returns"
            )
        arrays = {name: host_array(value) for name, value in state.items()}
        allowed = () if strict else None
        report = self._assign(arrays, strict, "state_dict", allowed, allowed)
        return report

    def _assign(
        self,
        arrays: Mapping[str, np.ndarray],
        strict: bool,
        source: str,
        allowed_new: tuple[str, ...] | None,
        allowed_unexpected: tuple[str, ...] | None,
    ) -> Any:
        from evolving_attention.interop.load_report import match

        shapes = {name: tensor.shape for name, tensor in self._state()}
        assigned, report = match(
            shapes,
            arrays,
            table=self.table,
            allowed_new=allowed_new,
            allowed_unexpected=allowed_unexpected,
            strict=strict,
            source=source,
        )
        self._check_finite(assigned, source)
        for name, tensor in self._state():
            if name in assigned:
                tensor.copy_(assigned[name])
        return report

    @staticmethod
    def _check_finite(arrays: Mapping[str, np.ndarray], source: str) -> None:
        for name, array in arrays.items():
            # A sum is finite unless an element is not (or it overflows float64).
            total = np.sum(array, dtype=np.float64)
            if not np.isfinite(total):
                raise CheckpointError(
                    f"{source}: {name} holds NaN or infinity; the file is damaged or "
                    "comes from a run that diverged"
                )

    def to(
        self: _Self, *targets: str, dtype: str | None = None, device: str | None = None
    ) -> _Self:
        """Another element type, another device, or both, in place; returns the model.

        ``model.to("cuda")`` moves weights and gradients; optimizers go on with them.
        ``model.to("bfloat16")`` rounds weights to the nearest value and forgets
        gradients; the parameters are new tensors: make optimizers afterwards.

        Raises:
            ConfigError: a target is no device and not float32, bfloat16 or float64.
            BackendUnavailable: there is no such device.
        """
        from evolving_attention.modeling.placement import place, sorted_targets

        place(self, *sorted_targets(targets, dtype, device))
        return self

    def copy(self: _Self, dtype: str | None = None) -> _Self:
        """A second model with the same weights, in ``dtype`` if that is given.

        Raises:
            ConfigError: ``dtype`` is not float32, bfloat16 or float64.
        """
        from evolving_attention.modeling.element_type import converted

        return converted(self, dtype or self.dtype)

    # --- files -----------------------------------------------------------------

    @classmethod
    def from_pretrained(
        cls: type[_Self],
        name_or_path: str | Path,
        *,
        num_labels: int | None = None,
        attention: Any = None,
        dtype: str = "float32",
        device: str = "cpu",
        strict: bool = True,
        local_files_only: bool = False,
        **config_overrides: Any,
    ) -> _Self:
        """Load a checkpoint; the model comes in evaluation mode.

        Args:
            name_or_path: a folder, ``package:NAME/PATH``, or a name in the local Hub
                cache or on the Hub, looked up in this order.
            num_labels: classes of a new task head; 1 is regression.
            attention: evolve kind, default what config.json says, else vanilla. New
                convolutions are drawn at random and listed in ``load_report.new``.
            dtype: of parameters and computation.
            device: where it computes: "cpu", "cuda", "cuda:1" or "auto".
            strict: refuse missing, left-over and mismatched tensors.
            local_files_only: do not ask the Hub.
            config_overrides: further options of the config.

        Raises:
            CheckpointError: it is not there, damaged, or of another model.
            UnsafeCheckpointError: a .bin file asks for more than weights need.
            ConfigError: config.json or an option cannot be used.
            BackendUnavailable: there is no such device.
        """
        where = resolve_device(device)  # before a long read
        from evolving_attention.interop.hf import load_folder
        from evolving_attention.interop.resolve import resolve

        folder = load_folder(resolve(name_or_path, local_files_only=local_files_only))
        expected = cls.config_class.model_type
        if folder.model_type not in (None, expected):
            raise CheckpointError(
                f"{folder.path}: is a {folder.model_type} checkpoint, {cls.__name__} "
                f"loads {expected}; use the Auto class, which chooses by config.json"
            )
        overrides = {"attention": attention, **config_overrides}
        if num_labels is not None:
            overrides["num_labels"] = num_labels
        cls._check_overrides(config_overrides)
        config = cls.config_class.from_dict(folder.config, **overrides)
        model = cls.__new__(cls)
        model._build(model._adapt(config, folder.tensors), dtype)
        new = (*cls.table.allowed_new, _CUSTOM)
        report = model._assign(folder.tensors, strict, str(folder.path), new, None)
        mismatched = [item.name for item in report.mismatched]
        model._initialize([*report.new, *report.missing, *mismatched])
        model.load_report = report
        model._core.to(where)
        return model.eval()

    @classmethod
    def _check_overrides(cls, overrides: Mapping[str, Any]) -> None:
        """Refuse options that this class cannot have."""

    @classmethod
    def _adapt(
        cls, config: PretrainedConfig, tensors: Mapping[str, np.ndarray]
    ) -> PretrainedConfig:
        """The config as this class needs it for the tensors of a checkpoint."""
        return config

    def save_pretrained(self, folder: str | Path) -> None:
        """Write config.json and model.safetensors, as transformers reads them.

        Files are written beside and renamed, so an interrupted save leaves what was
        there before.

        Raises:
            CheckpointError: the folder cannot be written.
        """
        from evolving_attention.durable import write_json
        from evolving_attention.interop.safetensors_io import save_safetensors

        root = Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        config = self.config.to_dict()
        config["architectures"] = [type(self).__name__]
        config["dtype"] = self.dtype
        write_json(root / "config.json", config)
        save_safetensors(root, self.state_dict())

    def __repr__(self) -> str:
        where = "" if self.device == "cpu" else f"{self.device}, "
        return (
            f"{type(self).__name__}({self.num_parameters():,} parameters, "
            f"{self.dtype}, {where}attention={self.config.attention!r})"
        )
