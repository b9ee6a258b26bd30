"""Memory limit and usable CPUs, derived from the control group of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention import _core

GIB = 1 << 30
V2 = "sys/fs/cgroup"
V1 = "sys/fs/cgroup/memory"
# (lines of /proc/self/cgroup, files below the root, bytes of the group)
GROUPS = {
    "a container with its own view": ("0::/", {f"{V2}/memory.max": 8 * GIB}, 8 * GIB),
    "the path of the host": (
        "0::/docker/0123abcd",
        {f"{V2}/memory.max": 8 * GIB},
        8 * GIB,
    ),
    "the smallest above": (
        "0::/user.slice/job/step",
        {
            f"{V2}/user.slice/memory.max": 6 * GIB,
            f"{V2}/user.slice/job/memory.max": 4 * GIB,
            f"{V2}/user.slice/job/step/memory.max": "max",
        },
        4 * GIB,
    ),
    "no limit": ("0::/", {f"{V2}/memory.max": "max"}, 0),
    "version 1": (
        "5:devices:/\n4:cpu,memory:/slurm/job\n0::/",
        {
            f"{V1}/memory.limit_in_bytes": 9223372036854771712,
            f"{V1}/slurm/job/memory.limit_in_bytes": 2 * GIB,
        },
        2 * GIB,
    ),
    "version 1 without a limit": (
        "4:memory:/",
        {f"{V1}/memory.limit_in_bytes": 9223372036854771712},
        0,
    ),
    "another controller": ("4:hugememory:/", {f"{V1}/memory.limit_in_bytes": GIB}, 0),
    "both": (
        "4:memory:/\n0::/",
        {f"{V1}/memory.limit_in_bytes": 3 * GIB, f"{V2}/memory.max": 5 * GIB},
        3 * GIB,
    ),
    "damaged": ("4\n:\n0::\n\n", {f"{V2}/memory.max": "many"}, 0),
    "negative": ("0::/", {f"{V2}/memory.max": -1}, 0),
    "no files": ("0::/a/b", {}, 0),
}


def made(root: Path, groups: str, files: dict[str, object]) -> str:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups + "\n")
    for name, value in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{value}\n")
    return str(root)


@pytest.mark.parametrize("name", GROUPS)
def test_the_limit_of_a_group(name: str, tmp_path: Path) -> None:
    groups, files, group = GROUPS[name]
    limit = _core.memory_limit_within(made(tmp_path, groups, files))
    assert limit == group - max(group // 16, min(256 << 20, group // 4))


HALF = {f"{V2}/cpu.max": "50000 100000"}
V1_CPU = "sys/fs/cgroup/cpu"
# (lines of /proc/self/cgroup, files below the root, CPUs of the quota)
QUOTAS = {
    "half a CPU": ("0::/", HALF, 1),
    "the path of the host": ("0::/docker/0123abcd", HALF, 1),
    "rounded up": ("0::/", {f"{V2}/cpu.max": "150000 100000"}, 2),
    "the smallest above": (
        "0::/pods/one",
        {f"{V2}/pods/cpu.max": "10000 10000", f"{V2}/pods/one/cpu.max": "max 100000"},
        1,
    ),
    "version 1": (
        "3:cpu,cpuacct:/job\n0::/",
        {
            f"{V1_CPU}/job/cpu.cfs_quota_us": 20000,
            f"{V1_CPU}/job/cpu.cfs_period_us": 100000,
        },
        1,
    ),
    "version 1 without a limit": (
        "3:cpu:/",
        {f"{V1_CPU}/cpu.cfs_quota_us": -1, f"{V1_CPU}/cpu.cfs_period_us": 100000},
        None,
    ),
    "another controller": ("3:cpuset:/", {f"{V1_CPU}/cpu.cfs_quota_us": 1}, None),
    "no limit": ("0::/", {f"{V2}/cpu.max": "max 100000"}, None),
    "more than there are": ("0::/", {f"{V2}/cpu.max": f"{1 << 60} 1000"}, None),
    "damaged": ("0::/", {f"{V2}/cpu.max": "50000"}, None),
    "no files": ("0::/a/b", {}, None),
}


@pytest.mark.parametrize("name", QUOTAS)
def test_the_cpus_of_a_group(name: str, tmp_path: Path) -> None:
    groups, files, quota = QUOTAS[name]
    mine = len(os.sched_getaffinity(0))
    usable = _core.usable_cpus(made(tmp_path, groups, files))
    assert usable == min(mine, quota or mine)


def test_out_of_memory_acts_before_the_kernel_does(tmp_path: Path) -> None:
    """In a small container, allocations over the limit fail and smaller ones work."""
    root = made(tmp_path, "0::/", {f"{V2}/memory.max": 64 << 20})
    before, limit = _core.memory_limit(), _core.memory_limit_within(root)
    assert limit == 48 << 20
    x = ea.Tensor(np.ones((1 << 20,), np.float32))
    try:
        _core.set_memory_limit(_core.current_memory() + limit)
        assert _core.memory_limit() == _core.current_memory() + limit
        kept = [x * 1.0]
        with pytest.raises(ea.OutOfMemory, match=r"limit \d+; lower the batch size"):
            kept.extend(x * 1.0 for _ in range(20))
        assert 8 <= len(kept) <= 12
        del kept
        assert float((x * 1.0).mean()) == 1.0
    finally:
        _core.set_memory_limit(before)


PROGRAM = """
from evolving_attention import _core
print(_core.memory_limit() == _core.memory_limit_within(""))
print(_core.get_num_threads() == _core.usable_cpus())
"""


def test_the_defaults_are_those_of_this_machine() -> None:
    command = [sys.executable, "-c", PROGRAM]
    own = {k: v for k, v in os.environ.items() if k != "EA_NUM_THREADS"}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=own)
    assert run.stdout == "True\nTrue\n"


def resident() -> int:
    """Returns the resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_cached_blocks_count_towards_the_limit() -> None:
    """They are released before cached and used blocks together reach the limit."""
    before = _core.memory_limit()
    block = 16 << 20
    _core.release_cached_memory()  # or x below reuses a block left by other tests
    kept = [ea.Tensor(np.ones((block // 4,), np.float32)) for _ in range(6)]
    full, base = resident(), _core.current_memory() - 6 * block
    try:
        _core.set_memory_limit(base + 2 * block)
        del kept
        x = ea.Tensor(np.ones((6 << 18,), np.float32))  # too small to reuse the blocks
        assert resident() < full - 3 * block
        del x
    finally:
        _core.set_memory_limit(before)


def floats(mebibytes: float, value: float = 1.0) -> ea.Tensor:
    count = int(mebibytes * (1 << 18))
    return ea.Tensor(np.full((count,), value, np.float32))


def test_free_memory_serves_blocks_of_other_sizes() -> None:
    """Free neighbours merge into a larger block, and a larger block splits."""
    _core.release_cached_memory()
    kept = [floats(3) for _ in range(40)]
    full = resident()
    for size, count in ((8, 15), (1.5, 80), (3, 40), (60, 2)):
        kept.clear()
        kept.extend(floats(size) for _ in range(count))
        assert resident() < full + (24 << 20)


def test_blocks_in_use_do_not_overlap() -> None:
    """Blocks of random sizes, used and freed in random order, keep their values."""
    rng = np.random.default_rng(0)
    kept: dict[int, ea.Tensor] = {}
    for turn in range(400):
        if kept and rng.random() < 0.48:
            value = int(rng.choice(list(kept)))
            assert np.all(kept.pop(value).numpy() == value)
        else:
            kept[turn] = floats(float(rng.exponential(0.8)) + 1e-5, turn)
        if turn % 100 == 99:
            _core.release_cached_memory()
    for value, x in kept.items():
        assert np.all(x.numpy() == value)


FEW_ADDRESSES = """
import resource
from pathlib import Path
import numpy as np
import evolving_attention as ea

pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + (256 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
x = ea.Tensor(np.ones((8 << 20,), np.float32))
print(float(x.mean()))
kept = [x]
try:
    while len(kept) < 100:
        kept.append(x * 2.0)
except ea.OutOfMemory as error:
    print(error)
"""


def test_a_limit_of_addresses_leaves_what_fits() -> None:
    """Under ulimit -v fewer addresses are reserved; then comes a typed error."""
    command = [sys.executable, "-c", FEW_ADDRESSES]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    mean, error = run.stdout.splitlines()
    assert mean == "1.0"
    assert "the system has no" in error
    assert "lower the batch size" in error


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_step_without_memory_changes_no_parameter(dtype: str) -> None:
    """Wherever memory ends in a step, the step can be repeated with the same bits."""
    config = ea.BertConfig(
        vocab_size=60,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        attention=ea.attention.Evolving(0.1, 0.1),
    )
    ids, labels = np.arange(96).reshape(8, 12) % 60, np.arange(8) % 2

    def start() -> tuple[Any, Any]:
        ea.manual_seed(0)
        model = ea.BertForSequenceClassification(config, dtype).train()
        return model, ea.optim.AdamW(model.parameters(), lr=1e-3)

    def step(model: Any, optimizer: Any) -> None:
        ea.manual_seed(7)
        model(input_ids=ids, labels=labels).loss.backward()
        ea.optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    def weights(model: Any) -> bytes:
        return b"".join(p.float().numpy().tobytes() for p in model.parameters())

    before = _core.memory_limit()
    model, optimizer = start()
    untrained = weights(model)
    step(model, optimizer)
    expected, failed = weights(model), 0
    for extra in (20_000 * 1.5**i for i in range(30)):
        model, optimizer = start()
        _core.release_cached_memory()
        ea.set_memory_limit(ea.memory.current() + int(extra))
        try:
            step(model, optimizer)
            break
        except ea.OutOfMemory:
            failed += 1
        finally:
            ea.set_memory_limit(before)
        assert weights(model) == untrained
        optimizer.zero_grad()
        step(model, optimizer)
        assert weights(model) == expected
    assert failed > 5
    assert weights(model) == expected


def test_a_step_whose_kernel_has_no_memory_is_not_counted() -> None:
    x, frozen = (ea.Tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    optimizer = ea.optim.AdamW([x, frozen], lr=0.1)
    x.sum().backward()
    optimizer.step()
    saved, before = optimizer.state_dict(), _core.memory_limit()
    _core.release_cached_memory()
    ea.set_memory_limit(ea.memory.current())
    try:
        with pytest.raises(ea.OutOfMemory):
            optimizer.step()
    finally:
        ea.set_memory_limit(before)
    again = optimizer.state_dict()
    assert again["step"] == saved["step"] == 1
    np.testing.assert_array_equal(again["missed"], saved["missed"])
