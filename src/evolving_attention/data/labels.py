"""The number of classes of a task, from the names of its classes."""

from __future__ import annotations

__all__ = ["Labelled"]


class Labelled:
    """Something with ``label_names``: class names by id, or None for regression."""

    label_names: tuple[str, ...] | None

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers to predict rather than classes."""
        return self.label_names is None

    @property
    def num_labels(self) -> int:
        """Number of classes; 1 for regression."""
        return 1 if self.label_names is None else len(self.label_names)
