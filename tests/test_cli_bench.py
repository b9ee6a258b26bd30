"""The bench command and the profile: shares add up, typed errors, complete JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import evolving_attention as ea
from evolving_attention import profiling
from evolving_attention.cli import bench_steps as steps


def run_bench(*words, **variables):
    """Runs the command in its own process; returns (exit code, stdout, stderr)."""
    done = subprocess.run(
        [sys.executable, "-m", "evolving_attention", "bench", *words],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **variables},
    )
    return done.returncode, done.stdout, done.stderr


def test_bench_measures_both_works_of_both_kinds(tmp_path):
    file = tmp_path / "out.json"
    words = ["--size", "tiny", "--dtype", "float32", "--no-compare", "--profile"]
    code, out, error = run_bench(*words, "--num-threads", "1", "--json", str(file))
    assert code == 0, error
    assert "tiny evolving float32 inference" in out
    assert "products of matrices" in out
    found = json.loads(file.read_text())
    assert found["threads"] == 1
    assert len(found["steps"]) == 4
    for one in found["steps"]:
        assert one["ours_s"] > 0
        rate = one["flops"] / one["ours_s"] / 1e9
        best = max(found["gemm_gflops"]["float32"].values())
        assert one["share_of_gemm"] == pytest.approx(rate / best)
    assert set(found["profiles"]) == {"vanilla", "evolving"}


def test_bench_says_what_the_time_did_not_allow():
    words = ["--size", "tiny", "--dtype", "float32", "--no-compare"]
    code, out, error = run_bench(*words, "--seconds", "1e-6")
    assert code == 0, error
    assert "tiny evolving float32 training: not measured, the time was over" in out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--size", "huge"], "--size 'huge' is unknown; expected one of tiny"),
        (["--dtype", "int8"], "--dtype 'int8' is unknown; expected one of float32"),
        (["--seconds", "0"], "--seconds 0; expected a number above 0"),
        (["--json", "no/such/file"], "its folder does not exist"),
        (["--json", "."], "is a folder; name a file"),
    ],
)
def test_bench_refuses_before_any_work(words, expected):
    code, out, error = run_bench(*words)
    assert (code, out) == (2, "")
    assert expected in error


def test_turns_stop_at_the_time_and_alternate():
    calls: list[str] = []
    runs = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    times = steps.turns(runs, 3, 100.0)
    assert "".join(calls) == "ab" + "ba" + "ab" + "ba"
    assert [len(t) for t in times.values()] == [3, 3]
    assert len(steps.turns(runs, 9, -1.0)["a"]) == 1


def test_matrix_flops_of_a_model_counted_by_hand():
    sizes = {"layers": 2, "width": 4, "inner": 8, "heads": 2, "labels": 3}
    found = profiling.matrix_flops([3, 2], kernel_size=3, **sizes)
    # per token and layer: four 4 x 4, one 4 x 8, one 8 x 4; pooler 4 x 4, head 4 x 3
    assert found["dense"] == 2 * (2 * 5 * (4 * 16 + 32 + 32) + 2 * (16 + 12))
    # per layer and pair of tokens: width products for scores, as many for context
    assert found["attention"] == 2 * (2 * (9 + 4) * 2 * 4)
    # the second layer only: heads x heads x 3 x 3 for each pair
    assert found["map_conv"] == 2 * (9 + 4) * 2 * 2 * 9
    assert found["total"] == sum(found[k] for k in ("dense", "attention", "map_conv"))
    trained = profiling.matrix_flops([3, 2], kernel_size=3, training=True, **sizes)
    assert trained["total"] == 3 * found["total"]
    assert profiling.matrix_flops([3, 2], **sizes)["map_conv"] == 0
    with pytest.raises(ea.ConfigError, match="sizes must be positive"):
        profiling.matrix_flops([3], **{**sizes, "heads": 0})


def test_shares_of_a_profile():
    kernels = [("matmul", 4, 2.0), ("attention_scores", 2, 1.0), ("sum", 1, 0.5)]
    found = profiling.Profile(4.0, kernels)
    assert found.shares() == pytest.approx(
        {
            "matmul": 0.5,
            "attention_scores": 0.25,
            "sum": 0.125,
            "outside kernels": 0.125,
        }
    )
    assert (found.matrix_products, found.attention) == (0.5, 0.25)
    lines = str(found).splitlines()
    assert lines[1].split() == ["matmul", "4", "2.000", "50.0%"]
    assert lines[-2].split() == ["outside", "kernels", "0.500", "12.5%"]
    assert profiling.Profile().outside == 1.0


def test_the_profile_knows_the_registrys_names():
    """A renamed or new kernel of these families must be listed in the profile too."""
    from evolving_attention import _core

    known = {kernel for kernel, _, _ in _core.kernel_entries()}
    assert known >= profiling._PRODUCTS | profiling._ATTENTION
    families = {
        "_PRODUCTS": ("matmul", "linear", "gemm"),
        "_ATTENTION": ("attention", "evolve", "map_conv"),
    }
    for which, words in families.items():
        alike = {name for name in known if any(word in name for word in words)}
        assert getattr(profiling, which) == alike


def test_profile_sees_the_kernels_of_its_block_only():
    a = ea.Tensor(np.ones((64, 64), np.float32))
    with ea.profile() as found:
        a @ a
    assert [name for name, _, _ in found.kernels] == ["matmul"]
    assert found.kernels[0][1] == 1
    assert 0 < found.matrix_products <= 1
    a @ a  # timing is off again
    with ea.profile() as second:
        pass
    assert second.kernels == []


SCRIPT = """
import numpy as np, evolving_attention as ea
a = ea.Tensor(np.ones((64, 64), np.float32))
a @ a
with ea.profile(): pass
a @ a
"""


@pytest.mark.parametrize("value", ["1", "0"])
def test_ea_profile_reports_at_the_end_of_the_process(value):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "EA_PROFILE": value},
    )
    assert done.stdout == ""
    assert ("matmul" in done.stderr and "outside kernels" in done.stderr) == (
        value == "1"
    )
