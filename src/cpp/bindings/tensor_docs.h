// Docstrings of Python's Tensor: summary, formula, arguments with shapes,
// errors, and a runnable example.
#pragma once

namespace ea::docs {

inline constexpr const char* kTensor =
    R"(An array with an element type, a device and a gradient.

Wherever a function takes a Tensor, an array, a number, a list or an object with
__dlpack__ will do. The operators + - * / % @ **, unary minus and abs() are differentiable,
as is indexing; // has no gradient. Their other operand is read in this tensor's type.
Comparisons give bool by element; tensors hash by identity. Binary operators broadcast as
NumPy does. x += y changes x in place, unless the result is recorded or has another shape
or type; a tensor that requires a gradient changes only within no_grad().

Args:
    data: an array, a number, a nested list, a Tensor, or an object with __dlpack__.
        The values are copied; from_numpy() shares an array's memory. Other integers
        become int64, floats of lists float32.
    dtype: "float32", "bfloat16", "float64", "int64", "int32", "uint8" or "bool", or
        NumPy's type of that name; None: that of the data.
    requires_grad: whether backward() gives it a gradient.
    device: "cpu", "cuda", "cuda:1"; None: where the data lies.

Raises:
    DTypeError: the data is not numeric, a number of a list does not fit into the
        integer type, or the type is not known or has no gradient.
    ShapeError: rows of a nested list differ in length.
    ConfigError, BackendUnavailable: there is no such device.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    Tensor([[2., 4.],
            [6., 8.]], dtype=float32))";

inline constexpr const char* kShape = R"(The sizes of the axes.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[1.0, 2.0, 3.0]]).shape
    (1, 3))";

inline constexpr const char* kDtype = R"(The name of the element type.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([1.0]).dtype
    'float32')";

inline constexpr const char* kDevice =
    R"(The name of the device that holds the values.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([1.0]).device
    'cpu')";

inline constexpr const char* kNdim = R"(The number of axes.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[1.0, 2.0, 3.0]]).ndim
    2)";

inline constexpr const char* kRequiresGrad =
    R"(Whether backward() gives the tensor, or what it is made of, a gradient.

Can be set on tensors that no operation has made. InputError: on others; DTypeError: the
element type has no gradient.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([1.0], requires_grad=True)
    >>> (x * 2.0).requires_grad, x.detach().requires_grad
    (True, False))";

inline constexpr const char* kIsLeaf =
    R"(Whether no operation that was recorded has made the tensor.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([1.0], requires_grad=True)
    >>> x.is_leaf, (x * 2.0).is_leaf
    (True, False))";

inline constexpr const char* kDetach =
    R"(Returns a tensor on the same memory that requires no gradient.

Returns:
    [...] in the shape and type of this tensor.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([1.0], requires_grad=True)
    >>> x.detach()
    Tensor([1.], dtype=float32))";

inline constexpr const char* kCopy =
    R"(Overwrites the values in place, without a gradient.

    self = source, converted to this tensor's type

Args:
    source: a tensor or an array in the shape of this tensor.

Raises:
    ShapeError: shapes differ.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([1.0, 2.0])
    >>> x.copy_([3.0, 4.0])
    >>> x
    Tensor([3., 4.], dtype=float32))";

inline constexpr const char* kNumpy =
    R"(Returns the values as an array on the same memory; bfloat16 by ml_dtypes.

Returns:
    numpy.ndarray in the shape and type of this tensor.

Raises:
    DeviceError: the values are not the CPU's; use .to("cpu").

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([1.0, 2.0]).numpy().tolist()
    [1.0, 2.0])";

inline constexpr const char* kSum =
    R"(Sums elements over one axis, several or all.

    y[...] = sum of x[..., i, ...] over i

Args:
    axis, dim: the axis, or several; negative numbers count from the last; None: all.
    keepdims, keepdim: keep the axes with size 1.
    dtype, out: None, as np.sum(tensor) hands them over.

Returns:
    Tensor without the axes; of all elements a 0-d one. Integers have sums of int64.

Raises:
    ShapeError: there is no such axis.
    ConfigError: axis and dim are both given, an axis stands twice, or dtype or out is
        not None.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[1.0, 2.0], [3.0, 4.0]]).sum(axis=0)
    Tensor([4., 6.], dtype=float32))";

inline constexpr const char* kMean =
    R"(Averages elements over one axis, several or all.

    y[...] = sum of x[..., i, ...] over i, divided by the size of the axis

Args:
    axis, dim: the axis, or several; negative numbers count from the last; None: all.
    keepdims, keepdim: keep the axes with size 1.
    dtype, out: None, as np.mean(tensor) hands them over.

Returns:
    Tensor without the axes; of all elements a 0-d one. Integers have means of float32.

Raises:
    ShapeError: there is no such axis, or nothing to average.
    ConfigError: axis and dim are both given, an axis stands twice, or dtype or out is
        not None.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[1.0, 2.0], [3.0, 4.0]]).mean().item()
    2.5)";

inline constexpr const char* kMatMul =
    R"(Multiplies vectors, matrices and batches of them, as x @ other does.

    y = x other

Args:
    other: [..., k, n], or [k], for x [..., m, k] or [k], by the rules of np.matmul.

Returns:
    [..., m, n], without m or n where x or other is a vector; the leading axes
    broadcast.

Raises:
    ShapeError: the shapes do not fit.
    DTypeError: the types differ or are not floating-point.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[1.0, 2.0]]).matmul([[3.0], [4.0]]).tolist()
    [[11.0]])";

inline constexpr const char* kFromDlpack =
    "Wraps a contiguous object with __dlpack__ without copying. Another one is "
    "copied.";

inline constexpr const char* kTo =
    R"(Returns the tensor in an element type, on a device, or both.

    y = x, rounded to the nearest value of a floating type, truncated to an integer

Args:
    *args: a type, a device, or both in any order.
    dtype: the type by name.
    device: the device by name.
    non_blocking: changes nothing: a copy to the CPU always waits for the device.

Returns:
    Tensor; this one itself where nothing changes.

Raises:
    ConfigError: neither is given, or one is given twice.
    DTypeError: there is no such type.
    BackendUnavailable: there is no such device.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([1.0]).to("float64").dtype
    'float64')";

inline constexpr const char* kGrad =
    R"(The gradient that backward() has accumulated, or None.

Can be set to a tensor of the same shape, type and device, and to None to forget it.
ShapeError, DeviceError: what is set does not fit.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([3.0], requires_grad=True)
    >>> (x * x).backward()
    >>> x.grad
    Tensor([6.], dtype=float32))";

inline constexpr const char* kRetainGrad =
    R"(Keeps the gradient of this result in backward(), as torch's retain_grad().

Only leaves keep theirs otherwise; for them this changes nothing. The states and maps
that a model returns need no call: they have a gradient after backward().

Raises:
    InputError: the tensor does not require a gradient.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([3.0], requires_grad=True)
    >>> y = x * x
    >>> y.retain_grad()
    >>> (y * 2).backward()
    >>> y.grad
    Tensor([2.], dtype=float32))";

inline constexpr const char* kRetainsGrad =
    R"(Whether this result of an operation keeps its gradient; see retain_grad().

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([3.0], requires_grad=True).retains_grad
    False)";

inline constexpr const char* kIsTable =
    R"(Whether rows of the tensor were looked up, so that row_grad may be there.

Example:
    >>> from evolving_attention import Tensor, functional as F
    >>> table = Tensor([[1.0], [2.0]], requires_grad=True)
    >>> _ = F.embedding(table, [1])
    >>> table.is_table
    True)";

inline constexpr const char* kRowGrad =
    R"(The gradient of a table of which few rows were used: (ids, rows), or None.

ids [k] increase, rows are [k, width], and all other rows have gradient 0. None where
there is no gradient or it is whole; reading grad makes it whole.

Example:
    >>> from evolving_attention import Tensor, functional as F
    >>> table = Tensor([[1.0], [2.0], [3.0]], requires_grad=True)
    >>> F.embedding(table, [2]).sum().backward()
    >>> ids, rows = table.row_grad
    >>> ids.numpy().tolist(), rows.numpy().tolist()
    ([2], [[1.0]]))";

inline constexpr const char* kAddRowGrad =
    R"(Adds to the gradient of a table as backward() would.

    grad[ids[i]] += rows[i]

Args:
    ids: int64 [k] on the CPU, increasing, k > 0.
    rows: [k, width] in the type and on the device of this table [n, width].

Raises:
    ShapeError: shapes do not fit.
    DTypeError, DeviceError: types or devices do not.
    InputError: ids do not increase, or lie outside the table; says which.

Example:
    >>> from evolving_attention import Tensor
    >>> table = Tensor([[1.0], [2.0]], requires_grad=True)
    >>> table.add_row_grad(Tensor([1]), Tensor([[5.0]]))
    >>> table.grad.numpy().tolist()
    [[0.0], [5.0]])";

inline constexpr const char* kAdd =
    R"(Adds a tensor in place, with the rounding of accumulated gradients.

    self += source

Args:
    source: a tensor in the shape and type, and on the device, of this one.

Raises:
    ShapeError: shapes or types differ, or this tensor is not contiguous.
    DeviceError: devices differ.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([1.0, 2.0])
    >>> x.add_(Tensor([10.0, 10.0]))
    >>> x
    Tensor([11., 12.], dtype=float32))";

inline constexpr const char* kBackward =
    R"(Adds the gradients of this tensor to those of the leaves it was made of.

    leaf.grad += (d self / d leaf)^T gradient

Args:
    gradient: [...] in the shape of this tensor; None: 1, for one element.
    leaves: those that on_complete is called for.
    on_complete: called with i when leaves[i] will get no more in this pass.
    retain_graph: only False: a graph is freed as it is used.
    create_graph: only False: there are no gradients of gradients.

Raises:
    InputError: nothing that the tensor was made of requires a gradient; a tensor
        that backward reads was written since (an optimizer, copy_, x += y, but
        not through NumPy, which nobody sees); backward ran before; or
        retain_graph or create_graph is true.
    ShapeError: a gradient is needed, or does not fit.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> (x * 3.0).backward(Tensor([1.0, 10.0]))
    >>> x.grad.numpy().tolist()
    [3.0, 30.0])";

}  // namespace ea::docs
