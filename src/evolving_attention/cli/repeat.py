"""``--seeds``: runs a training command once per seed, with one table at the end.

Each seed has its own folder, ``seed-N``, with the files of a single run. A record is
written when the run ends; a run without a record resumes from its checkpoint.
"""

from __future__ import annotations

import gc
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from evolving_attention import distributed, durable
from evolving_attention.cli.attention_arguments import refuse
from evolving_attention.cli.common import set_up_logging
from evolving_attention.cli.contents import content_hashes, other_contents
from evolving_attention.cli.options import Fields
from evolving_attention.cli.repeat_arguments import RepeatArguments
from evolving_attention.cli.repeat_results import (
    RESULTS,
    RUN,
    check_comparable,
    collected,
    read_record,
    read_run,
    scores_of,
)
from evolving_attention.durable.files import reported, sync_folder
from evolving_attention.errors import ConfigError, DataError

_LOGGER = logging.getLogger("evolving_attention")
_Made = TypeVar("_Made")
SETTINGS = "settings.json"
# Options that do not affect results: a later command may change them when it continues.
_FREE = {"seeds", "compare", "output_dir", "overwrite_output_dir", "json"}
_FREE |= {"num_threads", "log_level", "disable_tqdm", "verbose"}
_CONTENT = "content"  # key of the files' hashes in SETTINGS


class Once:
    """Values shared by the runs of one command; the first run creates them.

    Holds values that do not depend on the seed: data, tokenised rows. Runs must not
    modify them.

    Example:
        >>> once = Once()
        >>> once("rows", lambda: [1, 2]) is once("rows", lambda: [3])
        True
    """

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __call__(self, name: str, make: Callable[[], _Made]) -> _Made:
        """Returns the result of the first call of ``make()`` under this name."""
        if name not in self._made:
            self._made[name] = make()
        made: _Made = self._made[name]
        return made


_Run = Callable[[dict[str, Any], Once], "dict[str, Any] | None"]


def repeated(
    options: Fields, given: dict[str, Any], run: _Run
) -> dict[str, Any] | None:
    """Returns the results of one run, or with ``--seeds`` of one run per seed.

    Args:
        options: options of the command; with RepeatArguments it accepts --seeds.
        given: the values that were given, by name.
        run: one run, in the folder ``output_dir`` with the seed ``seed``: called with
            its options, and with the values that the runs share.

    Returns:
        The result of ``run``; for several seeds ``runs``, ``summary`` (mean and sd),
        ``comparison`` and ``table``, which are also in ``results.json``.

    Raises:
        ConfigError: the folder holds runs with other options or other content of their
            files, or an option contradicts --seeds.
        Interrupted: a signal came; finished seeds are not repeated later.
    """
    from evolving_attention.durable import plain

    names = ("seeds", "compare")
    repeat = RepeatArguments(**{name: given.get(name) for name in names})
    if repeat.seeds is None:
        return run({k: v for k, v in given.items() if k not in names}, Once())
    seeds: Any = repeat.seeds  # the arguments' check has made it a list
    for name in ("seed", "resume_from_checkpoint"):
        if given.get(name) is not None:
            fix = "leave it out: every seed goes on from its own folder"
            raise refuse(name, given[name], "no --seeds with it", fix)
    set_up_logging(given.get("log_level") or "passive")
    if repeat.compare is not None:
        check_comparable(repeat.compare, seeds)
    folder = given.get("output_dir") or options.options["output_dir"].default
    if not folder:
        raise ConfigError("--output_dir is missing: expected a folder; add it")
    root, fresh = Path(folder), bool(given.get("overwrite_output_dir"))
    once = Once()
    content = once(_CONTENT, lambda: content_hashes(given))
    with locked_folder(root):
        own_folder(root, settings_of(options, given), fresh, content)
        records = (
            {} if fresh else {s: read_run(root / f"seed-{s}" / RUN, s) for s in seeds}
        )
        done = agreed([seed for seed, record in records.items() if record is not None])
        for seed in seeds:
            if seed not in done:
                own = _of_seed(options, given, root / f"seed-{seed}", seed)
                records[seed] = _one(run, own, once)
                gc.collect()  # keep only one of two models in memory
            shown = scores_of(records[seed] or {}).items()
            text = ", ".join(f"{name} {value:.4f}" for name, value in shown)
            _LOGGER.info("seed %d%s: %s", seed, " (kept)" * (seed in done), text)
        if not distributed.is_first():
            return None
        results = collected([records[s] or {} for s in seeds], compare=repeat.compare)
        durable.write_json(root / RESULTS, plain(results))
        return results


def agreed(value: Any) -> Any:
    """Returns the first process's value in all processes."""
    world = distributed.world()
    return value if world is None else world.values(value)[0]


def settings_of(options: Fields, given: dict[str, Any]) -> dict[str, Any]:
    """Returns the given options that affect the results and are not defaults."""
    from evolving_attention.durable import plain

    settings: dict[str, Any] = plain(
        {
            name: value
            for name, value in given.items()
            if name not in _FREE and value != options.options[name].default
        }
    )
    return settings


@contextmanager
def claim_folder(once: Once, *groups: Any) -> Iterator[None]:
    """Keep the model in ``output_dir`` that other options gave, and other runs out.

    For a command without checkpoints: fit, and save the model, in the block. See
    :func:`own_folder`.

    Args:
        once: the values that the runs share; the data files are hashed once.
        groups: the dataclasses of all options of a run.
    """
    options = Fields([(type(group), "") for group in groups])
    given = {name: value for group in groups for name, value in vars(group).items()}
    root, fresh = Path(given["output_dir"]), given["overwrite_output_dir"]
    content = once(_CONTENT, lambda: content_hashes(given))
    with locked_folder(root):
        own_folder(root, settings_of(options, given), fresh, content)
        yield


@contextmanager
def locked_folder(root: Path) -> Iterator[None]:
    """Keep other runs out of a folder for results, which must be writable.

    Of several processes, only the first one creates, locks and tests it.

    Raises:
        ConfigError: another run is in its block.
        OSError: the folder cannot be created or written.
    """
    if not distributed.is_first():
        yield
        return
    with durable.locked(root, _in_use(root)):
        root.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=root).close()
        yield


def own_folder(
    root: Path,
    settings: dict[str, Any],
    fresh: bool | None = None,
    content: dict[str, list[str]] | None = None,
    parts: Sequence[str] = (),
) -> None:
    """Create a folder for runs with these settings, or check that it belongs to them.

    A folder whose runs wrote no file, as after a mistake in an option, is free.

    Args:
        root: the folder.
        settings: options that decide the results.
        fresh: whether to replace runs with other settings; None: the command has no
            such option.
        content: hashes of files by option.
        parts: names of its folders with settings or runs of their own.

    Raises:
        ConfigError: the folder has runs with other settings or other content of files,
            or a fitted estimator whose settings are unknown; or it is to be replaced
            while a run trains there.
        DataError: the settings in it are damaged.
        CheckpointError, OSError: it cannot be written.
    """
    from evolving_attention.estimators.files import FILE as ESTIMATOR

    file = root / SETTINGS
    more = "" if fresh is None else " or add --overwrite_output_dir"
    before, content = None if fresh else read_record(file), content or {}
    theirs = dict(before or {})
    hashes = theirs.pop(_CONTENT, {})
    if not isinstance(hashes, dict):
        raise DataError(
            f"{_CONTENT} is {hashes!r:.80}, expected hashes of files by option; choose "
            f"another --output_dir{more}",
            str(file),
        )
    changed = [k for k in {**theirs, **settings} if theirs.get(k) != settings.get(k)]
    changed += [
        f"content of {name}"
        for name in other_contents(hashes, content)
        if name not in changed
    ]
    if before is None and not fresh and (root / ESTIMATOR).exists():
        raise ConfigError(
            f"{root / ESTIMATOR}: a model whose options are not recorded, expected a "
            f"folder without; choose another --output_dir{more}"
        )
    if before is not None and changed and _has_files(root):
        raise ConfigError(
            f"{file}: runs with other options ({', '.join(sorted(changed))}), expected "
            f"the same; choose another --output_dir{more}"
        )
    if not changed:
        content = {**hashes, **content}
    if (before is None or changed or content != hashes) and distributed.is_first():
        root.mkdir(parents=True, exist_ok=True)
        if fresh:
            _clear(root, parts)
        hashed = {_CONTENT: content} if content else {}
        durable.write_json(file, {**settings, **hashed})


def _clear(root: Path, parts: Sequence[str]) -> None:
    """Remove what a command would keep or resume of the runs before it.

    Call it before the settings are written: an interruption leaves no old run that
    seems to have the new settings. Models stay until others replace them.

    Raises:
        CheckpointError: a file cannot be removed.
        ConfigError: a run trains in one of the folders.
    """
    owners = [folder for part in parts if (folder := root / part).is_dir()]
    found = [run for one in (root, *owners) for run in sorted(one.glob("seed-*"))]
    runs = [run for run in found if run.is_dir()]
    with reported(f"cannot clear {root}", "some of its runs may be removed"):
        for run in (*runs, *owners):
            with durable.locked(run, _in_use(run)) as is_locked:
                durable.clean_stale(run, alone=is_locked)  # may restore a checkpoint
                (run / RUN).unlink(missing_ok=True)
                for checkpoint in durable.list_checkpoints(run):
                    shutil.rmtree(checkpoint)
            sync_folder(run)
        for owner in owners:
            (owner / SETTINGS).unlink(missing_ok=True)
        for owner in (*owners, root):
            (owner / RESULTS).unlink(missing_ok=True)
            sync_folder(owner)


def _in_use(folder: Path) -> ConfigError:
    return ConfigError(
        f"{folder}: another run trains into this folder now, expected none; wait for "
        "its end, or choose another --output_dir"
    )


def _has_files(root: Path) -> bool:
    """Whether the folder has any file but settings, locks and leftovers of saves."""
    files = (one for one in root.rglob("*") if one.is_file())
    return any(f.name != SETTINGS and not durable.is_leftover(f.name) for f in files)


def _of_seed(
    options: Fields, given: dict[str, Any], folder: Path, seed: int
) -> dict[str, Any]:
    """Returns the options of the run of one seed."""
    own = {k: v for k, v in given.items() if k not in ("seeds", "compare")}
    own |= {"seed": seed, "output_dir": str(folder)}
    return resumable(options, own, folder)


def _one(run: _Run, own: dict[str, Any], once: Once) -> dict[str, Any]:
    """Run one seed in its folder, and write its record there."""
    from evolving_attention.durable import plain

    folder = Path(own["output_dir"])
    results = run(own, once) or {}
    record: dict[str, Any] = plain({k: v for k, v in results.items() if k != "table"})
    record["seed"] = own["seed"]
    if distributed.is_first():
        folder.mkdir(parents=True, exist_ok=True)
        durable.write_json(folder / RUN, record)
    return record


def resumable(options: Fields, given: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Returns the options with which a run continues in its own folder.

    A run that ended before its first save left files without a checkpoint; they are
    overwritten. Commands without checkpoints train again with the same options.

    Raises:
        CheckpointError: it has checkpoints, and none can be read.
    """
    if given.get("overwrite_output_dir"):
        return given
    from evolving_attention.training.checkpoint import newest, recover

    if "resume_from_checkpoint" not in options.options or not folder.is_dir():
        return given
    recover(folder)
    if newest(folder) is None:
        return {**given, "overwrite_output_dir": True}
    return given
