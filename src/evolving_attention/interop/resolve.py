"""Finds a model's folder by name: on disk, in an installed package, cache or Hub."""

from __future__ import annotations

import fnmatch
import importlib.util
import os
import queue
import re
import sys
import threading
from pathlib import Path

from evolving_attention.errors import CheckpointError
from evolving_attention.interop.hf import CONFIG_NAME, WEIGHT_NAMES
from evolving_attention.interop.paths import is_inside

_PACKAGE = "package:"
_REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)
_REVISION = re.compile(r"[0-9a-f]{4,64}")
_YES = frozenset(("1", "ON", "YES", "TRUE"))
_HUB_SECONDS = 2.5  # without a network, the whole search must end within three seconds
_SMALL_FILES = (
    "*.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
)
_WEIGHT_PATTERNS = (
    (
        "model.safetensors",
        "model-*.safetensors",
        "evolving_model.safetensors",
        "evolving_model-*.safetensors",
    ),
    ("pytorch_model.bin", "pytorch_model-*.bin"),
)


def resolve(name: str | os.PathLike[str], *, local_files_only: bool = False) -> Path:
    """Find the folder of a model.

    Searches in this order: a folder with that path; ``package:NAME/PATH``, a folder in
    an installed Python package, which is not imported; a snapshot in the local Hub
    cache; the Hub, with a download and a progress bar.

    With ``HF_HUB_OFFLINE=1`` or ``local_files_only`` the network is not used. The cache
    is the folder of ``HF_HUB_CACHE``, ``HF_HOME`` or the default.

    Args:
        name: path, ``package:NAME/PATH``, or a model of the Hub such as
            ``bert-base-uncased`` or ``org/model``.
        local_files_only: do not use the network.

    Returns:
        An existing folder.

    Raises:
        CheckpointError: not found; lists every place searched and what to do.
    """
    if not isinstance(name, (str, os.PathLike)):
        raise CheckpointError(
            f"model name is {name!r:.60}, a {type(name).__name__}, expected a folder, "
            "package:NAME/PATH or a model of the Hub"
        )
    text = os.fspath(name)
    if not text or "\0" in text:
        raise CheckpointError(
            f"model name {text!r} is empty or has NUL characters; expected a folder, "
            "package:NAME/PATH or a model of the Hub"
        )
    if text.startswith(_PACKAGE):
        return _in_package(text)
    folder = Path(os.path.expanduser(text))
    if folder.is_dir():
        return folder
    if folder.exists():
        raise CheckpointError(f"{text}: is a file; give the folder it lies in")
    searched = [f"folder {os.path.abspath(folder)}: there is none"]
    if not _is_repo_id(text):
        searched.append("Hub and its cache: the name is a path, not a model of the Hub")
        raise _not_found(text, searched, "Check the path")
    cached, remark = _in_cache(text)
    if cached is not None:
        return cached
    searched.append(remark)
    if local_files_only or is_offline():
        why = "local_files_only" if local_files_only else "HF_HUB_OFFLINE is set"
        searched.append(f"Hub: not asked ({why})")
        raise _not_found(text, searched, "Download the model where there is a network")
    return _from_hub(text, searched)


def is_offline() -> bool:
    """Whether ``HF_HUB_OFFLINE`` or ``TRANSFORMERS_OFFLINE`` forbids the network."""
    return any(
        os.environ.get(key, "").upper() in _YES
        for key in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    )


def hub_cache() -> Path:
    """Returns the folder of the local Hub cache, as huggingface_hub finds it."""
    for key in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if value := os.environ.get(key):
            return Path(os.path.expanduser(value))
    if value := os.environ.get("HF_HOME"):
        return Path(os.path.expanduser(value)) / "hub"
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(base)) / "huggingface" / "hub"


def is_hub_id(name: str) -> bool:
    """Whether a name for :func:`resolve` refers to a model on the Hub."""
    return _is_repo_id(name) and not os.path.exists(os.path.expanduser(name))


def _in_package(text: str) -> Path:
    """Finds ``package:NAME/PATH`` through sys.path, without an import."""
    package, _, inner = text.removeprefix(_PACKAGE).partition("/")
    module = package.replace("-", "_")
    if not module.isidentifier():
        raise CheckpointError(f"{text}: expected package:NAME/PATH")
    try:
        spec = importlib.util.find_spec(module)
    except ValueError:  # an in-memory module that has no origin
        spec = None
    roots = list(spec.submodule_search_locations or ()) if spec is not None else []
    searched = []
    for root in map(Path, roots):
        folder = root / inner
        if not is_inside(folder, root):
            raise CheckpointError(
                f"{text}: leads out of the package; give a path in it"
            )
        if folder.is_dir():
            return folder
        searched.append(f"folder {folder}: there is none")
    advice = "Check PATH, the folder in the package"
    if spec is None:
        searched.append(f"Python package {module}: not installed in {sys.prefix}")
        advice = f"Run: pip install {package.replace('_', '-')}, or check NAME"
    elif not roots:
        searched.append(f"Python module {module}: is a file, not a package")
        advice = "Check NAME"
    raise _not_found(text, searched, advice)


def _is_repo_id(text: str) -> bool:
    return (
        _REPO_ID.fullmatch(text) is not None
        and ".." not in text
        and "--" not in text
        and not text.endswith((".", "-", ".git"))
    )


def _in_cache(repo_id: str) -> tuple[Path | None, str]:
    """Returns a cached snapshot with config and weights, or the reason for none."""
    root = hub_cache() / f"models--{repo_id.replace('/', '--')}"
    try:
        revision = (root / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None, f"Hub cache {root}: the model is not there"
    snapshot = root / "snapshots" / revision
    if not _REVISION.fullmatch(revision) or not snapshot.is_dir():
        return None, f"Hub cache {root}: has no snapshot {revision[:64]!r}"
    if not (snapshot / CONFIG_NAME).is_file() or not _has_weights(snapshot):
        return None, f"Hub cache {snapshot}: lacks {CONFIG_NAME} or the weights"
    return snapshot, ""


def _has_weights(folder: Path) -> bool:
    return any((folder / name).is_file() for name in WEIGHT_NAMES)


def _from_hub(repo_id: str, searched: list[str]) -> Path:
    """Download a model: config, tokenizer and weights, preferably safetensors."""
    endpoint = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    try:
        names = _file_names(repo_id, endpoint)
        for patterns in _WEIGHT_PATTERNS:
            if any(fnmatch.filter(names, pattern) for pattern in patterns):
                from huggingface_hub import snapshot_download

                folder = snapshot_download(
                    repo_id,
                    allow_patterns=[*_SMALL_FILES, *patterns],
                    cache_dir=hub_cache(),
                    endpoint=endpoint,
                )
                return Path(folder)
    except ImportError as error:
        searched.append(f"Hub: huggingface_hub cannot be imported ({error})")
        advice = 'Run: pip install "evolving-attention[hub]"'
        raise _not_found(repo_id, searched, advice) from error
    except Exception as error:  # the client's error classes differ between releases
        first = str(error).strip().split("\n")[0][:300]
        searched.append(f"Hub {endpoint}: {type(error).__name__}: {first}")
        advice = "Check the network, or give a folder"
        if getattr(error, "response", None) is not None:
            advice = "Check the name, and log in if the model is private"
        raise _not_found(repo_id, searched, advice) from error
    searched.append(f"Hub {endpoint}: the model has none of {', '.join(WEIGHT_NAMES)}")
    raise _not_found(repo_id, searched, "Choose a model with weights of this kind")


def _file_names(repo_id: str, endpoint: str) -> list[str]:
    """Returns the names of a model's files on the Hub, within a time limit.

    This is the first request. The system resolves host names without a time limit, so a
    thread sends the request. The client's own limit is longer, so this limit ends
    first.

    Raises:
        TimeoutError: no answer came in time; otherwise the client's error.
    """
    import huggingface_hub

    answers: queue.SimpleQueue[list[str] | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            api = huggingface_hub.HfApi(endpoint=endpoint)
            found = api.model_info(repo_id, timeout=2 * _HUB_SECONDS).siblings
            answers.put([file.rfilename for file in found or ()])
        except Exception as error:
            answers.put(error)

    threading.Thread(target=ask, name="hub", daemon=True).start()
    try:
        answer = answers.get(timeout=_HUB_SECONDS)
    except queue.Empty:
        raise TimeoutError(f"no answer in {_HUB_SECONDS:g} seconds") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _not_found(name: str, searched: list[str], advice: str) -> CheckpointError:
    places = "\n".join(f"  - {place}" for place in searched)
    return CheckpointError(
        f"{name!r} is no model that can be found.\n{places}\n{advice}."
    )
