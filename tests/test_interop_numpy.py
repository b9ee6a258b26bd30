"""Exchange with NumPy, memoryview and DLPack: shared memory, lifetimes, refusals."""

from __future__ import annotations

import gc

import ml_dtypes
import numpy as np
import pytest

import evolving_attention as ea

NUMPY_TYPES = {
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "float64": np.float64,
    "int64": np.int64,
    "int32": np.int32,
    "uint8": np.uint8,
}
every_dtype = pytest.mark.parametrize("dtype", NUMPY_TYPES)


def address(array):
    return np.asarray(array).__array_interface__["data"][0]


# --- NumPy ----------------------------------------------------------------------------


@every_dtype
def test_arrays_are_taken_without_a_copy(dtype):
    array = np.arange(6).reshape(2, 3).astype(NUMPY_TYPES[dtype])
    tensor = ea.from_numpy(array)
    assert tensor.dtype == dtype
    assert address(tensor) == address(array)
    array[1, 2] = 9
    assert tensor[1][2].item() == 9


@every_dtype
def test_tensors_are_given_without_a_copy(dtype):
    tensor = ea.Tensor([[1, 2], [3, 4]], dtype=dtype)
    for view in (tensor.numpy(), np.asarray(tensor), np.array(tensor, copy=False)):
        assert view.dtype == NUMPY_TYPES[dtype]
        view[0, 0] += 1
    assert tensor[0][0].item() == 4
    copy = np.array(tensor)
    copy[:] = 0
    assert tensor[1][1].item() == 4


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_reductions_of_numpy_keep_gradients(name, axis):
    array = np.arange(6.0).reshape(2, 3)
    tensor = ea.Tensor(array, requires_grad=True)
    found = getattr(np, name)(tensor, axis=axis)
    assert isinstance(found, ea.Tensor)
    assert np.array_equal(found.detach(), getattr(array, name)(axis=axis))
    found.sum().backward()
    assert tensor.grad.sum().item() > 0
    kept = getattr(np, name)(tensor, axis=axis, keepdims=True)
    assert kept.shape == getattr(array, name)(axis=axis, keepdims=True).shape
    with pytest.raises(ea.ConfigError, match=r"\[out\] .* leave out= out"):
        getattr(np, name)(tensor, axis=axis, out=np.zeros(3))


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_reductions_keep_their_type(name):
    with pytest.raises(ea.ConfigError, match=r"\[dtype\] .* leave dtype= out"):
        getattr(np, name)(ea.Tensor([1.0]), dtype=np.float64)


def test_array_protocol_converts():
    tensor = ea.Tensor([1.5, 2.5])
    assert np.asarray(tensor, dtype=np.float64).tolist() == [1.5, 2.5]
    assert np.asarray(tensor, dtype=np.float32).base is not None
    with pytest.raises(ValueError, match="copy"):
        tensor.__array__(np.float64, copy=False)
    assert address(tensor.__array__(np.float32, copy=False)) == address(tensor)
    assert address(tensor.__array__(copy=True)) != address(tensor)
    wide = np.asarray(ea.Tensor([1.5], dtype="bfloat16"), dtype=np.float32)
    assert wide.tolist() == [1.5]


def unaligned():
    raw = np.zeros(4 * 8 + 1, np.uint8)[1:]
    array = raw.view(np.float64)
    array[:] = [1, 2, 3, 4]
    assert not array.flags.aligned
    return array


def read_only():
    array = np.arange(4.0)
    array.flags.writeable = False
    return array


COPIED = {
    "every other": lambda: np.arange(8.0)[::2] / 2,
    "strided": lambda: np.arange(8.0)[::2],
    "reversed": lambda: np.arange(4.0)[::-1],
    "transposed": lambda: np.arange(6.0).reshape(2, 3).T,
    "Fortran": lambda: np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "broadcast": lambda: np.broadcast_to(np.arange(3.0), (2, 3)),
    "read-only": read_only,
    "big-endian": lambda: np.arange(4.0).astype(">f8"),
    "unaligned": unaligned,
    "strided bfloat16": lambda: np.arange(8).astype(ml_dtypes.bfloat16)[::2],
    "bytes": lambda: np.frombuffer(b"abcd", np.uint8),
}


@pytest.mark.parametrize("case", COPIED)
def test_what_cannot_be_shared_is_copied(case):
    array = COPIED[case]()
    before = array.copy()
    tensor = ea.Tensor(array)
    assert np.array_equal(np.asarray(tensor), before)
    assert tensor.numpy().flags.c_contiguous
    assert tensor.numpy().flags.aligned
    tensor.copy_(np.zeros(array.shape))
    if case != "every other":
        assert np.array_equal(array, before)


def test_slices_and_size_one_axes_are_shared():
    array = np.arange(12.0).reshape(3, 1, 4)
    assert address(ea.from_numpy(array[1:])) == address(array) + 4 * 8
    assert ea.from_numpy(array[:, 0]).shape == (3, 4)
    empty = ea.from_numpy(array[:0])
    assert empty.shape == (0, 1, 4)
    assert np.asarray(empty).shape == (0, 1, 4)


def test_an_array_outlives_its_tensor():
    tensor = ea.from_numpy(np.arange(1000.0) + 1)
    view = np.asarray(tensor * 2.0)  # memory of the core
    shared = tensor.numpy()
    del tensor
    gc.collect()
    churn = [ea.Tensor(np.zeros(1000)) * 1.0 for _ in range(20)]
    assert view.sum() == 2 * shared.sum() == 1001000
    del churn


def test_a_tensor_outlives_its_array():
    array = np.arange(1000.0)
    tensor = ea.from_numpy(array)
    rows = ea.from_numpy(array.reshape(10, 100)[3:5])
    del array
    gc.collect()
    np.zeros(1000)
    assert tensor.sum().item() == 499500
    assert rows.sum().item() == np.arange(300, 500).sum()


def test_results_hold_no_references_they_do_not_need():
    import sys

    array = np.arange(10.0)
    count = sys.getrefcount(array)
    tensor = ea.from_numpy(array)
    view = tensor.numpy()
    assert sys.getrefcount(array) > count
    del tensor
    assert sys.getrefcount(array) > count
    del view
    assert sys.getrefcount(array) == count


def test_parameters_and_gradients_are_views():
    x = ea.Tensor(np.ones(3), requires_grad=True)
    (x * x).sum().backward()
    gradient = np.asarray(x.grad)
    gradient *= 10
    assert np.asarray(x.grad).tolist() == [20, 20, 20]


# --- buffers --------------------------------------------------------------------------


@every_dtype
def test_memoryview(dtype):
    tensor = ea.Tensor(np.arange(6).reshape(2, 3), dtype=dtype)
    if dtype == "bfloat16":
        with pytest.raises(BufferError):
            memoryview(tensor)
        return
    view = memoryview(tensor)
    assert view.shape == (2, 3)
    assert view.itemsize == np.dtype(NUMPY_TYPES[dtype]).itemsize
    assert view.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert not view.readonly
    view[1, 2] = 7
    assert tensor[1][2].item() == 7
    del tensor
    gc.collect()
    assert view[1, 2] == 7
    assert bytes(view) == np.asarray(view).tobytes()


def test_memoryviews_are_data():
    from array import array

    assert ea.Tensor(memoryview(array("d", [1.5, 2]))).numpy().tolist() == [1.5, 2]
    assert ea.Tensor(array("i", [1, 2])).dtype == "int32"


# --- DLPack ---------------------------------------------------------------------------


@every_dtype
def test_dlpack_from_numpy_is_shared(dtype):
    array = np.arange(6).reshape(2, 3).astype(NUMPY_TYPES[dtype])
    if dtype == "bfloat16":
        with pytest.raises(ea.InputError, match=r"ea\.Tensor\(array\)"):
            ea.from_dlpack(array)
        return
    tensor = ea.from_dlpack(array)
    array[0, 0] = 5
    assert tensor[0][0].item() == 5
    assert address(tensor) == address(array)
    del array
    gc.collect()
    assert np.asarray(tensor).astype(int).tolist() == [[5, 1, 2], [3, 4, 5]]


@every_dtype
def test_dlpack_to_numpy_is_shared(dtype):
    tensor = ea.Tensor([1, 2, 3], dtype=dtype)
    if dtype == "bfloat16":  # NumPy's DLPack does not support it
        with pytest.raises(RuntimeError, match="dtype"):
            np.from_dlpack(tensor)
        return
    view = np.from_dlpack(tensor)
    tensor.copy_([4, 5, 6])
    assert view.tolist() == [4, 5, 6]
    del tensor
    gc.collect()
    assert view.tolist() == [4, 5, 6]


def test_dlpack_of_what_is_not_contiguous():
    array = np.arange(12.0).reshape(3, 4)
    for part in (array[:, 1:3], array.T, array[::-1], array[::2], array[:0]):
        assert np.array_equal(np.asarray(ea.from_dlpack(part)), part)


def test_dlpack_options():
    tensor = ea.Tensor([1.0, 2.0])
    assert tensor.__dlpack_device__() == (1, 0)
    assert address(np.from_dlpack(tensor)) == address(tensor)
    copied = np.from_dlpack(tensor, copy=True)
    assert address(copied) != address(tensor)
    assert copied.tolist() == [1, 2]
    tensor.__dlpack__(dl_device=(1, 0), max_version=(1, 0), stream=None)
    with pytest.raises(BufferError, match="CPU"):
        tensor.__dlpack__(dl_device=(2, 0))


def test_an_unused_capsule_is_freed():
    from evolving_attention import _core

    before = _core.current_memory()
    for _ in range(10):
        (ea.Tensor(np.ones(100)) * 2.0).__dlpack__()
    gc.collect()
    assert _core.current_memory() == before


@pytest.mark.parametrize("value", [3, "a", [1.0], None])
def test_what_has_no_dlpack(value):
    with pytest.raises(ea.InputError, match="__dlpack__"):
        ea.from_dlpack(value)


def test_read_only_arrays_are_not_lent():
    with pytest.raises(ea.InputError, match="from_dlpack"):
        ea.from_dlpack(read_only())


def test_types_beyond_ours_are_named():
    with pytest.raises(ea.DTypeError, match="code 0 and 16 bits"):
        ea.from_dlpack(np.zeros(2, np.int16))


# --- torch ----------------------------------------------------------------------------


@every_dtype
def test_torch_both_ways(dtype):
    torch = pytest.importorskip("torch")
    theirs = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    ours = ea.from_dlpack(theirs)
    assert ours.dtype == ea.Tensor(theirs).dtype == dtype
    assert address(ours) == theirs.data_ptr()
    theirs[0, 0] += 2
    assert ours[0][0].item() == theirs[0, 0].item()
    back = torch.from_dlpack(ours)
    assert back.dtype == theirs.dtype
    assert back.data_ptr() == theirs.data_ptr()
    del theirs, ours
    gc.collect()
    assert back.tolist() == [[2, 1, 2], [3, 4, 5]]


def test_torch_forms():
    torch = pytest.importorskip("torch")
    x = torch.arange(6.0).reshape(2, 3)
    assert np.array_equal(np.asarray(ea.Tensor(x.T)), x.T.numpy())
    assert np.array_equal(np.asarray(ea.Tensor(x[:, 1:])), x[:, 1:].numpy())
    assert ea.Tensor(x > 2).dtype == "bool"
    assert ea.Tensor(x.half()).dtype == "float32"
    assert ea.Tensor(x.to(torch.int16)).dtype == "int64"
    with pytest.raises(ea.InputError, match=r"requires a gradient.*pass \.detach\(\)$"):
        ea.Tensor(torch.nn.Parameter(torch.ones(2)))
    assert ea.Tensor(torch.tensor(2.5)).item() == 2.5
    assert ea.Tensor(torch.zeros(0, 3)).shape == (0, 3)


def test_torch_uses_our_gradients():
    torch = pytest.importorskip("torch")
    x = ea.Tensor(np.array([1.0, 2.0]), requires_grad=True)
    (x * x).sum().backward()
    assert torch.from_dlpack(x.grad).tolist() == [2.0, 4.0]
    assert torch.as_tensor(np.asarray(x.grad)).tolist() == [2.0, 4.0]
