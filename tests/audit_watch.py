"""Watches, by an audit hook, whether a reader of files does anything but read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Events = list[tuple[str, tuple[Any, ...]]]

WATCHED = """
os.system os.exec os.posix_spawn os.fork os.forkpty os.startfile os.remove os.rename
os.mkdir os.rmdir os.link os.symlink os.truncate os.chmod os.utime os.putenv os.unsetenv
subprocess.Popen pty.spawn exec compile import marshal.loads pickle.find_class
code.__new__ function.__new__ builtins.breakpoint builtins.input ctypes.dlopen
socket.connect socket.getaddrinfo socket.bind urllib.Request webbrowser.open
shutil.rmtree shutil.copyfile
""".split()  # noqa: SIM905

_active: list[Events] = []


def writes(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether a file is opened for writing; os.open() has flags and no mode."""
    if event != "open":
        return False
    flags = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    by_mode = set(str(arguments[1] or "")) & set("wax+")
    return bool(by_mode or (arguments[2] or 0) & flags)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _active and (event in WATCHED or writes(event, arguments)):
        _active[-1].append((event, arguments))


sys.addaudithook(_hook)  # stays for the life of the process, idle outside of watching


@contextmanager
def watching() -> Iterator[Events]:
    """The list of programs run, code executed, files written, … inside the block."""
    _active.append([])
    try:
        yield _active[-1]
    finally:
        _active.pop()
