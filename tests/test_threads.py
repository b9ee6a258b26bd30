"""Python threads, the GIL, fork, and errors: the core stays usable and exact."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers_models import arrays_of, assert_same_bits, draw, labels_for, run, tiny

import evolving_attention as ea
from evolving_attention import _core

EVOLVING = ea.attention.Evolving(0.3, 0.4)
BATCH = draw((30, 17, 3, 38, 21, 1, 40, 25))


@pytest.fixture
def threads():
    """Yields the setter of the core's thread count; restores the count afterwards."""
    before = ea.get_num_threads()
    yield ea.set_num_threads
    ea.set_num_threads(before)


@pytest.fixture(scope="module")
def model():
    return tiny(attention=EVOLVING).eval()


def progress_during(work):
    """Returns how often per second another Python thread woke up during ``work``."""
    stop, count = threading.Event(), 0

    def tick():
        nonlocal count
        while not stop.is_set():
            count += 1
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    time.sleep(0.02)
    before, start = count, time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    ticks = count - before
    stop.set()
    ticker.join()
    return ticks / seconds


def long_product():
    x = ea.Tensor(np.ones((1200, 1200)), dtype="float64")  # uses the reference kernel
    return lambda: x @ x


def long_model():
    model = tiny(
        attention=EVOLVING,
        hidden_size=192,
        num_attention_heads=6,
        intermediate_size=768,
        max_position_embeddings=300,
    )
    inputs = {"input_ids": np.full((16, 256), 5), "labels": np.zeros(16, int)}

    def train():
        start = time.perf_counter()
        while time.perf_counter() - start < 0.3:
            model(**inputs).loss.backward()

    return train


def long_update():
    parameter = ea.Tensor(np.ones(4_000_000, np.float32), requires_grad=True)
    parameter.grad = ea.Tensor(np.ones(4_000_000, np.float32))
    optimizer = ea.optim.AdamW([parameter])

    def steps():
        for _ in range(20):
            optimizer.step()
            ea.optim.clip_grad_norm_([parameter], 1.0)

    return steps


@pytest.mark.parametrize("make", [long_product, long_model, long_update])
def test_other_python_threads_go_on_meanwhile(make, threads):
    threads(1)
    # If the work held the GIL throughout, the ticker would count one or two ticks.
    assert progress_during(make()) > 20


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("packed", [True, False])
def test_threads_sharing_a_model_in_eval_get_equal_results(
    model, threads, count, packed
):
    threads(count)
    inputs = {**BATCH.packed(), "output_attentions": True}
    ea.set_fast_path("packed_weights", packed)
    expected = [arrays_of(model(**inputs))]
    with ea.no_grad():
        expected.append(arrays_of(model(**inputs)))
    # Products with packed weights sum in a different order.
    for key, value in expected[0].items():
        np.testing.assert_allclose(expected[1][key], value, rtol=0, atol=2e-5)

    def work(number):
        results = []
        for _ in range(5):
            if number % 2:
                with ea.no_grad():
                    results.append(arrays_of(model(**inputs)))
            else:
                results.append(arrays_of(model(**inputs)))
        return results

    with ThreadPoolExecutor(8) as pool:
        for number, results in enumerate(pool.map(work, range(8))):
            for found in results:
                assert_same_bits(found, expected[number % 2])


def test_threads_training_their_own_models(threads):
    threads(2)

    def train(own):  # without dropout, whose generator all threads share
        inputs = {**BATCH.packed(), "labels": labels_for(own, BATCH)}
        optimizer = ea.optim.AdamW(own.parameters(), lr=1e-3)
        for _ in range(4):
            run(own, **inputs)
            optimizer.step()
        return {k: v.copy() for k, v in own.state_dict().items()}

    models = [tiny(attention=EVOLVING, seed=s).eval() for s in (0, 1, 2, 3) * 2]
    expected = [train(own) for own in models[:4]]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(train, models[4:]))
    for ours, theirs in zip(found, expected, strict=True):
        assert_same_bits(ours, theirs)


def test_no_grad_is_per_thread():
    x = ea.Tensor(np.ones(2), requires_grad=True)
    inside, go_on = threading.Event(), threading.Event()

    def without():
        with ea.no_grad():
            inside.set()
            go_on.wait(10)

    thread = threading.Thread(target=without)
    thread.start()
    assert inside.wait(10)
    recorded = (x * 2.0).requires_grad
    go_on.set()
    thread.join()
    assert recorded


def test_the_number_of_threads_may_change_while_others_compute(model, threads):
    inputs = BATCH.packed()
    expected = arrays_of(model(**inputs))
    done = threading.Event()

    def change():
        number = 0
        while not done.is_set():
            number += 1
            threads(number % 3 + 1)

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for _ in range(30):
            assert_same_bits(arrays_of(model(**inputs)), expected)
    finally:
        done.set()
        changer.join()


@pytest.mark.parametrize("count", [0, -1, 1025])
def test_numbers_of_threads_out_of_range(count):
    before = ea.get_num_threads()
    with pytest.raises(ea.ConfigError, match="1 to 1024"):
        ea.set_num_threads(count)
    assert ea.get_num_threads() == before


# --- fork -----------------------------------------------------------------------------


def in_child(work, seconds=20, others=None):
    """Runs ``work`` in a forked child; returns whether it returned True in time.

    ``others``, an event, lets other threads compute until the fork; then they rest.
    """
    if others is not None:
        others.set()
        time.sleep(0.01)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    if others is not None:
        others.clear()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
# Python warns when a process with threads forks, which these tests do on purpose.
forks = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


@needs_fork
@forks
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_forked_child_computes_the_same(model, threads, count):
    threads(count)
    inputs = {**BATCH.packed(), "labels": labels_for(model, BATCH)}
    expected, gradients = run(model, **inputs)  # the pool is running now

    def work():
        found, found_gradients = run(model, **inputs)
        assert_same_bits(found, expected)
        assert_same_bits(found_gradients, gradients)
        return ea.get_num_threads() == count

    assert in_child(work)
    assert_same_bits(run(model, **inputs)[0], expected)  # the parent still works


@needs_fork
@forks
def test_fork_while_other_threads_compute(model, threads):
    threads(2)
    inputs = BATCH.packed()
    expected = arrays_of(model(**inputs))
    go, done = threading.Event(), threading.Event()

    def whole_models():
        while go.wait() and not done.is_set():
            model(**inputs)

    def small_operations():  # allocates and frees all the time
        x = ea.Tensor(np.ones(8, np.float32))
        while go.wait() and not done.is_set():
            x = x * 1.0

    jobs = [whole_models, whole_models, small_operations, small_operations]
    busy = [threading.Thread(target=job) for job in jobs]
    for thread in busy:
        thread.start()

    def work():
        assert_same_bits(arrays_of(model(**inputs)), expected)
        return True

    try:
        assert all([in_child(work, others=go) for _ in range(30)])
    finally:
        done.set()
        go.set()
        for thread in busy:
            thread.join()


@needs_fork
@forks
def test_fork_while_another_thread_makes_primitives():
    """A child must not wait forever for a primitive that was being created at fork."""
    at, go, done = [0], threading.Event(), threading.Event()

    def product(number):  # bfloat16 creates one primitive per shape
        rows, depth = 16 + 16 * (number // 400), 48 + 4 * (number % 400)
        x = ea.Tensor(np.ones((rows, depth), np.float32)).to("bfloat16")
        y = x @ ea.Tensor(np.ones((depth, 256), np.float32)).to("bfloat16")
        return float(y.numpy()[0, 0]) == pytest.approx(depth, rel=0.01)

    def products():
        while go.wait() and not done.is_set():
            at[0] += 1
            product(at[0])

    busy = threading.Thread(target=products)
    busy.start()
    try:
        for _ in range(40):
            assert in_child(lambda: product(at[0]) and product(at[0] + 1), 10, go)
    finally:
        done.set()
        go.set()
        busy.join()


# --- errors ---------------------------------------------------------------------------


@ea.attention.register("test_threads_failing")
class Failing(ea.attention.CustomEvolve):
    """Raises ``wanted``, if set, in the second layer."""

    wanted = None

    def step(self, scores, previous, context):
        if previous is not None and self.wanted is not None:
            raise self.wanted
        return scores


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("count", [1, 2])
def test_an_exception_inside_a_step_leaves_a_usable_model(error, threads, count):
    threads(count)
    kind = Failing()
    model = tiny(attention=kind)
    inputs = {**BATCH.packed(), "labels": labels_for(model, BATCH)}
    ea.manual_seed(1)
    expected, gradients = run(model, **inputs)
    memory = _core.current_memory()
    model.zero_grad()
    for _ in range(3):
        kind.wanted = error("mine")
        with pytest.raises(error, match="mine"):
            model(**inputs)
        kind.wanted = None
        ea.manual_seed(1)
        found, found_gradients = run(model, **inputs)
        assert_same_bits(found, expected)
        assert_same_bits(found_gradients, gradients)
        del found, found_gradients
    assert _core.current_memory() <= memory


def test_running_out_of_memory_leaves_a_usable_model(model):
    inputs = {**BATCH.packed(), "labels": labels_for(model, BATCH)}
    expected, gradients = run(model, **inputs)
    model.zero_grad()
    try:
        for extra in (0, 100_000, 700_000):
            _core.set_memory_limit(_core.current_memory() + extra)
            with pytest.raises(ea.OutOfMemory, match="batch size"):
                run(model, **inputs)
    finally:
        _core.set_memory_limit(0)
    found, found_gradients = run(model, **inputs)
    assert_same_bits(found, expected)
    assert_same_bits(found_gradients, gradients)


LEAVING = """
import threading, time
import numpy as np
import evolving_attention as ea

x = ea.Tensor(np.ones((300, 300), np.float32))
weight = ea.Tensor(np.ones((300, 300), np.float32), requires_grad=True)
started = threading.Barrier(3)

def multiply():
    started.wait()
    while True:
        x @ x

def train():
    started.wait()
    while True:
        (x @ weight).mean().backward()

for work in (multiply, train):
    threading.Thread(target=work, daemon=True).start()
started.wait()
time.sleep(0.05)
print("done")
"""


CALLING = """
import threading, time
import evolving_attention as ea

def spin(index):
    for _ in range(1_000_000):
        pass

def train(x):
    while True:
        x.sum().backward(leaves=[x], on_complete=spin)

class Slow:
    def __del__(self):  # the thread asks for the GIL while Python ends
        for _ in range(2000):
            pass

kept = [Slow() for _ in range(1500)]
for _ in range(4):
    x = ea.Tensor([1.0], requires_grad=True)
    threading.Thread(target=train, args=(x,), daemon=True).start()
time.sleep(0.1)
print("done")
"""


@pytest.mark.parametrize("program", [LEAVING, CALLING], ids=["compute", "call back"])
def test_the_program_may_end_while_daemon_threads_run(program: str) -> None:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
