"""Options of estimators by name: one that does not exist is told with the nearest."""

from __future__ import annotations

import inspect
from typing import Any

from evolving_attention.errors import ConfigError, suggestion

__all__ = ["NamedOptions"]


class NamedOptions:
    """A base that refuses unknown options when an estimator is made.

    scikit-learn wants them as arguments of ``__init__``, where Python's own error names
    neither the class nor the option that was meant.
    """

    def __new__(cls, *_: Any, **options: Any) -> Any:
        """Check the names alone; scikit-learn checks values when a fit begins.

        Raises:
            ConfigError: an option is unknown; names the nearest.
        """
        _self, *parameters = inspect.signature(cls.__init__).parameters.values()
        known = [one.name for one in parameters]
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
        for name in options:
            if name not in known and not takes_any:  # of a subclass with **options
                raise ConfigError(
                    f"{cls.__name__}: unknown option {name!r}, expected one of "
                    f"{', '.join(known)}; {suggestion(name, known, 'leave it out')}"
                )
        return super().__new__(cls)
