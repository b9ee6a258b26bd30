"""Estimator options by name: an error for an unknown one suggests the nearest name."""

from __future__ import annotations

import inspect
from typing import Any

from evolving_attention.errors import ConfigError, suggestion


class NamedOptions:
    """A base class that refuses unknown options when an estimator is created.

    scikit-learn requires options as arguments of ``__init__``. Python's own error for
    an unknown argument names neither the class nor the intended option.
    """

    def __new__(cls, *_: Any, **options: Any) -> Any:
        """Checks only the names; scikit-learn checks values when a fit begins.

        Raises:
            ConfigError: an option is unknown; the message names the nearest known one.
        """
        _self, *parameters = inspect.signature(cls.__init__).parameters.values()
        known = [one.name for one in parameters]
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
        for name in options:
            if name not in known and not takes_any:  # a subclass may take **options
                raise ConfigError(
                    f"{cls.__name__}: unknown option {name!r}, expected one of "
                    f"{', '.join(known)}; {suggestion(name, known, 'leave it out')}"
                )
        return super().__new__(cls)
