"""Limits the time of regular expressions that a tokenizer file contains.

The library ends one search after ten million steps, but searches at every character: a
hostile expression can take hours for one text. The search cannot be interrupted, so it
runs in a thread that is abandoned on timeout; the library runs these calls without the
GIL.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from evolving_attention.errors import Error

SECONDS = 10.0
CHARACTERS_PER_SECOND = 20_000  # ordinary expressions process a million

_Result = TypeVar("_Result")


def has_regex(backend: Any) -> bool:
    """Whether a tokenizer contains its own regular expressions."""
    parts = (backend.normalizer, backend.pre_tokenizer, backend.decoder)
    # The pickled state of a part is JSON; quotes inside its values are escaped.
    return any(b'{"Regex":' in p.__getstate__() for p in parts if p is not None)


class TimeLimit:
    """Runs calls; if ``on``, each in a thread and for a limited time.

    Args:
        on: whether the calls are untrusted.
        kind: the class of the error.
        what: the slow part, for the message.
    """

    def __init__(self, on: bool, kind: type[Error], what: str) -> None:
        self.on, self.kind, self.what = on, kind, what
        self._late: threading.Thread | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_late": None}

    def run(self, work: Callable[[], _Result], characters: int) -> _Result:
        """Returns the result of ``work()`` on this many characters of text.

        Raises:
            Error: of class ``kind``: the call takes too long, or an earlier one still
                runs.
        """
        if not self.on:
            return work()
        if self._late is not None and self._late.is_alive():
            raise self._error("is still busy with an earlier text, expected it to end")
        seconds = SECONDS + characters / CHARACTERS_PER_SECOND
        results: list[_Result] = []
        errors: list[BaseException] = []

        def job() -> None:
            try:
                results.append(work())
            except BaseException as error:  # Rust panics derive from it
                errors.append(error)

        thread = threading.Thread(target=job, name="tokenizer", daemon=True)
        thread.start()
        try:
            thread.join(seconds)
        finally:  # also after Ctrl-C
            if thread.is_alive():
                self._late = thread
        if errors:
            raise errors[0]
        if not results:
            raise self._error(
                f"takes longer than {seconds:.0f} s for {characters} characters, "
                "expected far less"
            )
        return results[0]

    def _error(self, text: str) -> Error:
        return self.kind(
            f"{self.what}: a regular expression of the tokenizer's file {text}; do not "
            "use this file, or look at the patterns in its tokenizer.json"
        )
