"""Walks the instructions of a pickle without executing any of them.

Only instructions that build plain data may occur, only allowed globals may be named,
dictionary keys must be strings (an attacker cannot choose their hashes) and memo
numbers small (the unpickler allocates up to the largest).
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Container
from typing import Any

from evolving_attention.errors import CheckpointError, UnsafeCheckpointError
from evolving_attention.interop.limits import MAX_PICKLE_OPCODES

__all__ = ["damaged", "pickle_end", "unsafe", "unsafe_global"]

Globals = Container[tuple[str, str]]

# fmt: off
_OPCODES = frozenset((
    "PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE",
    "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT",
    "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINSTRING", "SHORT_BINSTRING",
    "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
    "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS",
    "BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET",
    "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "BINPERSID",
))
# fmt: on
_STRINGS = frozenset(
    opcode.name
    for opcode in pickletools.opcodes
    if "UNICODE" in opcode.name or "STRING" in opcode.name
)
_PUTS = frozenset(("PUT", "BINPUT", "LONG_BINPUT"))
_GETS = frozenset(("GET", "BINGET", "LONG_BINGET"))
_MARK = object()
_DATA = object()  # stands for any value on the stack that is not a string


def unsafe(source: str, what: str) -> UnsafeCheckpointError:
    """The error for a file that asks for more than weights need."""
    return UnsafeCheckpointError(
        f"{source}: {what}, which no file of weights needs; nothing of it was run. "
        "Do not trust this file; get the model as model.safetensors"
    )


def unsafe_global(source: str, module: str, name: str) -> UnsafeCheckpointError:
    """The error for a class or function outside of the allow-list, which it names."""
    return unsafe(source, f"asks for {ascii(module + '.' + name)[1:201]}")


def damaged(source: str, error: Exception) -> CheckpointError:
    """The error for a pickle that cannot be understood."""
    return CheckpointError(
        f"{source}: cannot be read as a file of weights: "
        f"{str(error)[:300] or type(error).__name__}; it is truncated or damaged, "
        "get it again"
    )


class _Walk:
    """Follows the opcodes of one pickle on a stack of strings and unknowns."""

    def __init__(self, source: str, allowed: Globals) -> None:
        self.source, self.allowed = source, allowed
        self.stack: list[object] = []
        self.memo: dict[int, object] = {}
        self.problem: CheckpointError | None = None

    def step(self, opcode: pickletools.OpcodeInfo, argument: Any, limit: int) -> None:
        """Apply one opcode; remember the first forbidden one, raise for a global.

        ``limit`` bounds the memo numbers; an honest pickle counts them from 0 or 1.
        """
        name, stack = opcode.name, self.stack
        if name not in _OPCODES and self.problem is None:
            self.problem = self._forbidden(name, argument)
        if name in ("GLOBAL", "INST"):
            module, _, attribute = argument.partition(" ")
            self._check_global(module, attribute)
        elif name == "STACK_GLOBAL":
            self._check_global(_text(stack[-2]), _text(stack[-1]))
        elif name in _PUTS or name == "MEMOIZE":
            slot = len(self.memo) if argument is None else int(argument)
            if slot > limit or stack[-1] is _MARK:
                raise CheckpointError(f"memo number {slot} is out of range")
            self.memo[slot] = stack[-1]
            return
        elif name in _GETS:
            stack.append(self.memo[int(argument)])
            return
        elif name == "STOP" and (len(stack) != 1 or stack[0] is _MARK):
            raise CheckpointError("ends with other than one object on its stack")
        elif name == "SETITEM":
            self._check_keys(stack[-2:-1])
        elif name == "SETITEMS":
            self._check_keys(stack[self._mark() + 1 :: 2])
        self._effect(opcode, argument)

    def _forbidden(self, name: str, argument: object) -> UnsafeCheckpointError:
        detail = f" {ascii(argument)[:80]}" if argument is not None else ""
        return unsafe(self.source, f"uses the pickle instruction {name}{detail}")

    def _check_global(self, module: str, name: str) -> None:
        if (module, name) not in self.allowed:
            raise unsafe_global(self.source, module, name)

    def _check_keys(self, keys: list[object]) -> None:
        if self.problem is None and not all(isinstance(key, str) for key in keys):
            raise CheckpointError("a dictionary has a key that is not a string")

    def _mark(self) -> int:
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise IndexError("no mark on the stack")
        return place

    def _effect(self, opcode: pickletools.OpcodeInfo, argument: Any) -> None:
        before = opcode.stack_before
        if pickletools.stackslice in before:
            del self.stack[self._mark() :]
            before = before[: before.index(pickletools.markobject)]
        first = len(self.stack) - len(before)
        if first < 0 or _MARK in self.stack[first:]:
            raise IndexError("the stack is empty")
        del self.stack[first:]
        for item in opcode.stack_after:
            if item is pickletools.markobject:
                self.stack.append(_MARK)
            else:
                self.stack.append(argument if opcode.name in _STRINGS else _DATA)


def _text(value: object) -> str:
    return value if isinstance(value, str) else "?"


def pickle_end(stream: io.BytesIO, source: str, allowed: Globals) -> int:
    """Check the opcodes of the pickle at the stream's position; return where it ends.

    Nothing is executed or built. More data may follow the pickle.

    Raises:
        UnsafeCheckpointError: it names a global outside of the allow-list or uses an
            instruction that weights do not need.
        CheckpointError: it is truncated, damaged or too long.
    """
    walk = _Walk(source, allowed)
    place = 0
    try:
        for count, (opcode, argument, position) in enumerate(
            pickletools.genops(stream)
        ):
            if count > MAX_PICKLE_OPCODES:
                raise CheckpointError(f"has above {MAX_PICKLE_OPCODES} instructions")
            place = position or 0
            walk.step(opcode, argument, count)
    except UnsafeCheckpointError:
        raise
    except Exception as error:
        raise walk.problem or damaged(source, error) from error
    if walk.problem is not None:
        raise walk.problem
    return place + 1
