"""Matches a checkpoint's tensors with a model's parameters and reports the result."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from evolving_attention.errors import CheckpointError
from evolving_attention.interop.rules import NameTable, matches

# If a file holds less than this share of a model's parameters, it is for another model.
_LEAST_SHARE = 0.5
_SHOWN = 8
STATE_DICT = "state_dict"  # the source of load_state_dict, which draws nothing anew
# A model may always have 2^26 parameters (256 MB of float32); above that, four per byte
# of its weight files, so that a config.json alone cannot claim the machine's memory.
_FREE_PARAMETERS = 1 << 26
_PARAMETERS_PER_BYTE = 4


@dataclass(frozen=True)
class Mismatch:
    """A tensor whose shape or element type does not fit: found and expected one."""

    name: str
    found: str
    expected: str


@dataclass
class LoadReport:
    """The result of matching a checkpoint with a model.

    Attributes:
        missing: parameters that the checkpoint lacks but should have.
        unexpected: tensors of the checkpoint that the model does not use.
        mismatched: tensors with another shape, or with integers; not loaded.
        new: parameters that the checkpoint may lack; ``from_pretrained`` initialises
            them, ``load_state_dict`` keeps their values.
        loaded: number of parameters loaded from the checkpoint.
        source: the checkpoint's folder or file.
    """

    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    mismatched: list[Mismatch] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    loaded: int = 0
    source: str = "checkpoint"

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yields every finding as (what, name, remark)."""
        for item in self.mismatched:
            yield (
                "mismatched",
                item.name,
                f"is {item.found}, expected {item.expected}",
            )
        for name in self.missing:
            yield "missing", name, "not in the checkpoint"
        for name in self.new:
            keeps = self.source == STATE_DICT
            yield "new", name, "keeps its value" if keeps else "newly initialised"
        for name in self.unexpected:
            yield "unexpected", name, "not used by this model"

    def __repr__(self) -> str:
        lines = [self._title()]
        rows = list(self.rows())
        width = max((len(name) for _, name, _ in rows), default=0)
        lines += [f"  {what:<10}  {name:<{width}}  {note}" for what, name, note in rows]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows()
        )
        table = f"<table><tbody>{body}</tbody></table>" if body else ""
        return f"<div><p>{html.escape(self._title())}</p>{table}</div>"

    def _title(self) -> str:
        counts = "".join(
            f", {len(items)} {name}"
            for name, items in (
                ("new", self.new),
                ("unexpected", self.unexpected),
                ("missing", self.missing),
                ("mismatched", self.mismatched),
            )
            if items
        )
        return f"{self.source}: {self.loaded} loaded{counts}"


def match(
    expected: Mapping[str, Sequence[int]],
    found: Mapping[str, np.ndarray],
    *,
    table: NameTable,
    allowed_new: Sequence[str] | None = None,
    allowed_unexpected: Sequence[str] | None = None,
    strict: bool = True,
    source: str = "checkpoint",
    sizes: Mapping[str, int] | None = None,
) -> tuple[dict[str, np.ndarray], LoadReport]:
    """Match a checkpoint's tensors to a model's parameters through a name table.

    Args:
        expected: the model's parameters, name to shape.
        found: the checkpoint's tensors.
        table: names of the architecture.
        allowed_new: patterns of parameters that may be missing; default: the table's.
            Those of a head, which is allowed to be unused too, must all be missing.
        allowed_unexpected: patterns of tensors that may remain unused; default: the
            table's.
        strict: raise if anything is missing, unused or mismatched without being
            allowed; otherwise only report it and keep the model's initial values there.
        source: the checkpoint's folder or file, for messages.
        sizes: options of the config that define shapes, to name them in messages.

    Returns:
        Model's parameter name to array, and the report.

    Raises:
        CheckpointError: two tensors give one parameter different values; less than half
            of the parameters exist (for any ``strict``), so the file is for another
            model; or, if ``strict``, a case described above.
    """
    new = table.allowed_new if allowed_new is None else tuple(allowed_new)
    extra = (
        table.allowed_unexpected
        if allowed_unexpected is None
        else tuple(allowed_unexpected)
    )
    report = LoadReport(source=source)
    placed, left = _place(expected, found, table, source)
    assigned: dict[str, np.ndarray] = {}
    for name, array in placed.items():
        shape = tuple(expected[name])
        if array.shape != shape or not _is_float(array.dtype):
            text = f"{array.dtype} {array.shape}"
            cause = _asked(shape, array.shape, sizes or {})
            report.mismatched.append(Mismatch(name, text, f"float {shape}{cause}"))
        else:
            assigned[name] = array
    # A head is new as a whole: the file of a part of it is damaged.
    begun = [
        head
        for head in new
        if head in extra and any(matches(name, [head]) for name in placed)
    ]
    for name in expected:
        if name not in placed:
            lacks = matches(name, begun) or not matches(name, new)
            (report.missing if lacks else report.new).append(name)
    report.unexpected = left
    report.loaded = len(assigned)
    _check_related(expected, assigned, report, new)
    if strict:
        _check_strict(report, extra)
    return assigned, report


def check_growth(
    expected: Mapping[str, Sequence[int]],
    report: LoadReport,
    nbytes: int,
    sizes: Mapping[str, int],
) -> None:
    """Refuse a model that is too large in proportion to its file.

    New heads, convolutions and, without ``strict``, tensors whose shape differs are
    initialised at random, in sizes that only the config defines.

    Args:
        expected: the model's parameters, name to shape.
        report: the result of matching the file with them.
        nbytes: bytes of the weight files.
        sizes: as for :func:`match`.

    Raises:
        CheckpointError: more than 2²⁶ parameters, and more than four per byte.
    """
    asked = sum(map(math.prod, expected.values()))
    most = max(_FREE_PARAMETERS, _PARAMETERS_PER_BYTE * nbytes)
    if asked <= most:
        return
    found = {item.name: item.found for item in report.mismatched}
    absent = [*report.new, *report.missing]
    drawn = [*found, *absent] or list(expected)
    name = max(drawn, key=lambda name: math.prod(expected[name]))
    shape = tuple(expected[name])
    there = found.get(name, "none" if name in absent else f"float {shape}")
    raise CheckpointError(
        f"{report.source}: the config asks for {asked:,} parameters, expected at most "
        f"{most:,} for weight files of {nbytes:,} bytes; {name} is {there} there, "
        f"expected float {shape}{_asked(shape, (), sizes)}. Correct config.json; if "
        "the size is meant, make the model from its config and fill it by "
        "load_state_dict(state, strict=False)"
    )


def _asked(shape: Sequence[int], found: Sequence[int], sizes: Mapping[str, int]) -> str:
    """Names the config options that define the axes which differ."""
    axes = [
        size
        for axis, size in enumerate(shape)
        if len(found) != len(shape) or found[axis] != size
    ]
    options = (
        " or ".join(f"{name}={size}" for name in sizes if sizes[name] == size)
        for size in dict.fromkeys(axes)
    )
    text = ", ".join(filter(None, options))
    return f" ({text} in the config)" if text else ""


def _place(
    expected: Mapping[str, Sequence[int]],
    found: Mapping[str, np.ndarray],
    table: NameTable,
    source: str,
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Returns model's name to tensor, and the names that match no parameter."""
    ties = {tie.alias: tie for tie in table.ties if tie.alias not in expected}
    placed: dict[str, np.ndarray] = {}
    origin: dict[str, str] = {}
    tied, left = [], []
    for name, array in found.items():
        today = table.canonical(name)
        if today is None:
            continue
        if today in ties:
            tied.append((name, ties[today], array))
            continue
        place = table.place(today, expected)
        if place is None:
            left.append(name)
        elif place in placed:
            raise CheckpointError(
                f"{source}: both {origin[place]} and {name} are values of {place}; "
                "expected one of them, remove the other"
            )
        else:
            placed[place], origin[place] = array, name
    for name, tie, array in tied:
        target = tie.target
        if target in expected and target not in placed:
            placed[target] = array
        elif tie.repeats:
            if target not in placed or not _same(array, placed[target]):
                left.append(name)
        elif not _has_head(table.canonical(name) or name, expected):
            left.append(name)
        elif not _same(array, placed[target]):
            raise CheckpointError(
                f"{source}: {name} differs from {target}, but the model ties the two; "
                "a model with an output matrix of its own is not supported"
            )
    return placed, left


def _has_head(alias: str, expected: Mapping[str, object]) -> bool:
    """Whether the model has the head that a tied name belongs to."""
    head = alias.split(".decoder.")[0] + "."
    return any(name.startswith(head) for name in expected)


def _same(first: np.ndarray, second: np.ndarray) -> bool:
    return first.shape == second.shape and first.tobytes() == second.tobytes()


def _is_float(dtype: np.dtype) -> bool:
    return dtype == ml_dtypes.bfloat16 or dtype.kind == "f"


def _check_related(
    expected: Mapping[str, Sequence[int]],
    assigned: Mapping[str, np.ndarray],
    report: LoadReport,
    new: Sequence[str],
) -> None:
    due = [name for name in expected if not matches(name, new)]
    have = [name for name in due if name in assigned]
    if len(have) < max(1, _LEAST_SHARE * len(due)):
        raise CheckpointError(
            f"{report.source}: has {len(have)} of the {len(due)} parameters this model "
            f"needs: it lacks {_some(report.missing)}; of another shape or type are "
            f"{_some(_described(report.mismatched))}; it has, without use, "
            f"{_some(report.unexpected)}. It is a checkpoint of another model or size; "
            "check the name and config.json"
        )


def _described(items: Sequence[Mismatch]) -> list[str]:
    return [f"{item.name} ({item.found}, expected {item.expected})" for item in items]


def _check_strict(report: LoadReport, extra: Sequence[str]) -> None:
    problems = []
    if report.mismatched:
        found = _some(_described(report.mismatched))
        problems.append(f"of another shape or type: {found}")
    if report.missing:
        problems.append(f"missing: {_some(report.missing)}")
    surplus = [name for name in report.unexpected if not matches(name, extra)]
    if surplus:
        problems.append(f"not used by this model: {_some(surplus)}")
    if problems:
        keeps = report.source == STATE_DICT
        rest = "keep the model's own values of" if keeps else "reinitialise"
        raise CheckpointError(
            f"{report.source}: does not fit the model. {'; '.join(problems)}. Check "
            "the config (num_labels, sizes, attention), or pass strict=False to "
            f"{rest} what does not fit and leave out the rest"
        )


def _some(names: Sequence[str]) -> str:
    if not names:
        return "none"
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest
