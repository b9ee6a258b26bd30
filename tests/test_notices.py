"""Notices: shown once, by the first process only, and silenced by the log level."""

from __future__ import annotations

import logging

import pytest

from evolving_attention.notices import say


@pytest.fixture
def logger():
    """Yields the package's logger and restores its level afterwards."""
    found = logging.getLogger("evolving_attention")
    level = found.level
    yield found
    found.setLevel(level)


def test_a_line_is_said_once(caplog):
    said = set()
    for text in ("a", "b", "a"):
        say(text, said)
    say("a")
    assert [record.getMessage() for record in caplog.records] == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("variables", "speaks"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, True),
        ({"RANK": "1", "WORLD_SIZE": "2"}, False),
        ({"RANK": "1"}, True),  # no launcher, or one that the Trainer will reject
    ],
)
def test_the_first_process_speaks(caplog, monkeypatch, variables, speaks):
    addresses = {"MASTER_ADDR": "localhost", "MASTER_PORT": "1234"}
    for name, value in {**addresses, **variables}.items():
        monkeypatch.setenv(name, value)
    say("a")
    assert len(caplog.records) == speaks


def test_log_level_silences(logger, caplog):
    logger.setLevel("ERROR")
    say("a")
    assert caplog.records == []
