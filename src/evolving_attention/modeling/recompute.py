"""Gradient checkpointing: a model's switch, with Hugging Face's names."""

from __future__ import annotations

from typing import Any, ClassVar

from evolving_attention.errors import ConfigError


class RecomputeMixin:
    """Saves memory at the cost of time: backward recomputes each layer's activations.

    A training pass keeps each layer's input and carried map, and runs the layer again,
    with the same dropout, when its gradients are due. In image networks the unit is the
    block. Outputs, gradients, running statistics and the generator's state are
    bit-identical either way. Evaluation and passes under ``ea.no_grad()`` are not
    affected.
    """

    supports_gradient_checkpointing: ClassVar[bool] = True
    _core: Any

    def gradient_checkpointing_enable(
        self, gradient_checkpointing_kwargs: dict[str, Any] | None = None
    ) -> None:
        """Makes training passes keep few activations, from the next one on.

        Args:
            gradient_checkpointing_kwargs: None; torch's options do not apply here.

        Raises:
            ConfigError: ``gradient_checkpointing_kwargs`` is given.
        """
        self._enable("gradient_checkpointing", gradient_checkpointing_kwargs)

    def gradient_checkpointing_disable(self) -> None:
        """Makes training passes keep all activations again, from the next one on."""
        self._core.set_recompute(False)

    @property
    def is_gradient_checkpointing(self) -> bool:
        """Whether backward recomputes activations."""
        return bool(self._core.recomputes)

    def activation_checkpointing_enable(
        self, activation_checkpointing_kwargs: dict[str, Any] | None = None
    ) -> None:
        """Newer name of :meth:`gradient_checkpointing_enable`."""
        self._enable("activation_checkpointing", activation_checkpointing_kwargs)

    def activation_checkpointing_disable(self) -> None:
        """Newer name of :meth:`gradient_checkpointing_disable`."""
        self.gradient_checkpointing_disable()

    @property
    def is_activation_checkpointing(self) -> bool:
        """Newer name of :attr:`is_gradient_checkpointing`."""
        return self.is_gradient_checkpointing

    def _enable(self, name: str, options: dict[str, Any] | None) -> None:
        if options is not None:
            raise ConfigError(
                f"{type(self).__name__}.{name}_enable: {name}_kwargs={options!r}, "
                "expected None: there is one way to recompute here, none of torch's; "
                "leave it out"
            )
        self._core.set_recompute(True)
