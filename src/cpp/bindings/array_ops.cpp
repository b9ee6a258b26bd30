// Functions on arrays for Python: arithmetic, activations, shapes and sums.
#include <pybind11/stl.h>

#include <string>

#include "bindings/ops.h"
#include "bindings/tensor.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/dropout.h"
#include "ops/reduce.h"
#include "ops/shape_ops.h"

namespace ea {

namespace {

// Docstring text shared by a family of functions; `what` is the summary and the
// formula.
void bind_binary(py::module_& m, const char* name,
                 Var (*function)(const Var&, const Var&),
                 const std::string& what, const std::string& example) {
  const std::string doc = what + R"(

Args:
    a: [...] of any type.
    b: [...] of the same type, or integers beside floating numbers; the shapes
        broadcast as NumPy's do.

Returns:
    [...] of the broadcast shape, in the type of a and b, or the floating one.

Raises:
    DTypeError: a and b have two integer types or two floating types.
    ShapeError: the shapes do not broadcast.

Example:
    >>> from evolving_attention import functional as F
    >>> )" + example;
  m.def(name, function, py::arg("a"), py::arg("b"), Release(), doc.c_str());
}

void bind_arithmetic(py::module_& m) {
  bind_binary(m, "add", &add, R"(Adds two tensors.

    y = a + b)",
              R"(F.add([[1.0], [2.0]], [10.0, 20.0]).numpy().tolist()
    [[11.0, 21.0], [12.0, 22.0]])");
  bind_binary(m, "sub", &sub, R"(Subtracts the second tensor from the first.

    y = a - b

Masks have no difference: two of them are a DTypeError.)",
              R"(F.sub([5.0, 7.0], [1.0, 2.0]).numpy().tolist()
    [4.0, 5.0])");
  bind_binary(m, "mul", &mul, R"(Multiplies two tensors element by element.

    y = a * b)",
              R"(F.mul([2.0, 3.0], [4.0, 5.0]).numpy().tolist()
    [8.0, 15.0])");
  bind_binary(m, "div", &div, R"(Divides the first tensor by the second.

    y = a / b

Division by zero gives infinity or NaN; integers give float32.)",
              R"(F.div([1.0, 9.0], [2.0, 3.0]).numpy().tolist()
    [0.5, 3.0])");
}

void bind_combinations(py::module_& m) {
  m.def("scale", &scale, py::arg("x"), py::arg("alpha"), Release(),
        R"(Multiplies a tensor by a number.

    y = alpha x

Args:
    x: [...] of a floating type.
    alpha: the number.

Returns:
    [...] in the shape and type of x.

Raises:
    DTypeError: x is not a floating-point tensor.

Example:
    >>> from evolving_attention import functional as F
    >>> F.scale([1.0, 2.0], 0.5).numpy().tolist()
    [0.5, 1.0])");
  m.def("axpby", &axpby, py::arg("alpha"), py::arg("x"), py::arg("beta"),
        py::arg("z"), Release(),
        R"(Adds two tensors of one shape, each multiplied by a number.

    y = alpha x + beta z

Args:
    alpha: factor of x.
    x: [...] of a floating type.
    beta: factor of z.
    z: [...] in the shape and type of x.

Returns:
    [...] in the shape and type of x.

Raises:
    DTypeError: x and z differ in type or are not floating-point tensors.
    ShapeError: the shapes differ; add() broadcasts.

Example:
    >>> from evolving_attention import functional as F
    >>> F.axpby(2.0, [1.0, 2.0], 0.5, [4.0, 8.0]).numpy().tolist()
    [4.0, 8.0])");
  m.def(
      "cast",
      [](const Var& x, const std::string& dtype) {
        return cast(x, parse_dtype(dtype));
      },
      py::arg("x"), py::arg("dtype"), Release(),
      R"(Converts a tensor to another element type.

    y = x, rounded to the nearest value of a floating type, truncated to an integer

The gradient comes back in the type of x.

Args:
    x: [...] of any type.
    dtype: "float32", "bfloat16", "float64", "int64", "int32", "uint8" or
        "bool".

Returns:
    [...] in the shape of x.

Raises:
    DTypeError: there is no such type.

Example:
    >>> from evolving_attention import functional as F
    >>> F.cast([1, 2], "float32").numpy().tolist()
    [1.0, 2.0])");
}

void bind_leaky_relu(py::module_& m) {
  m.def(
      "leaky_relu",
      [](const Var& x, double slope) {
        return activation(x, Activation::leaky_relu, slope);
      },
      py::arg("x"), py::arg("slope") = 0.01, Release(),
      R"(Scales negative elements by a small slope.

    y = x where x > 0, else slope x

Args:
    x: [...] of a floating type.
    slope: factor of the negative elements.

Returns:
    [...] in the shape and type of x.

Raises:
    DTypeError: x is not a floating-point tensor.

Example:
    >>> from evolving_attention import functional as F
    >>> F.leaky_relu([-2.0, 2.0], slope=0.5).numpy().tolist()
    [-1.0, 2.0])");
}

void bind_dropout(py::module_& m) {
  m.def(
      "dropout",
      [](const Var& x, double p, bool training) {
        return dropout(x, dropout_rate(p, training));
      },
      py::arg("x"), py::arg("p"), py::arg("training") = true, Release(),
      R"(Sets elements to zero at random and scales the others.

    y = x m / (1 - p), each m being 0 with probability p, else 1

Args:
    x: [...] of a floating type.
    p: probability of zero, in [0, 1).
    training: False: y = x.

Returns:
    [...] in the shape and type of x.

Raises:
    ConfigError: p is out of range.
    DTypeError: x is not a floating-point tensor where elements are dropped.

Example:
    >>> from evolving_attention import functional as F
    >>> sorted(set(F.dropout([1.0] * 1000, 0.5).numpy().tolist()))
    [0.0, 2.0]

Source: Srivastava et al., JMLR 2014.)");
}

template <Var (*Fn)(const Var&, std::optional<int>, bool)>
Var reduced(const Var& x, const AxesArgument& axis, bool keepdims,
            const AxesArgument& dim, bool keepdim) {
  return over_axes(Fn, x, axis, dim, keepdims || keepdim);
}

void bind_views(py::module_& m) {
  m.def(
      "reshape",
      [](const Var& x, const std::vector<std::int64_t>& sizes) {
        Shape shape;
        for (std::size_t i = 0; i < sizes.size(); ++i) {
          shape.append(0);
          shape[static_cast<int>(i)] = sizes[i];
        }
        return reshape(x, shape);
      },
      py::arg("x"), py::arg("shape"), Release(),
      R"(Gives a tensor another shape with the same elements in row-major order.

    y[k] = x[k], k counting through all elements

Args:
    x: any shape and type.
    shape: the new sizes; one of them may be -1 and is computed from the others.

Returns:
    Tensor of that shape.

Raises:
    ShapeError: the sizes do not make up the number of elements of x, or two are
        -1.

Example:
    >>> from evolving_attention import functional as F
    >>> F.reshape([1.0, 2.0, 3.0, 4.0], [2, -1]).numpy().tolist()
    [[1.0, 2.0], [3.0, 4.0]])");
  m.def("transpose", &transpose, py::arg("x"), py::arg("axis_a"),
        py::arg("axis_b"), Release(),
        R"(Exchanges two axes of a tensor.

    y[..., j, ..., i, ...] = x[..., i, ..., j, ...]

Args:
    x: any shape and type.
    axis_a: one of the axes; negative numbers count from the last.
    axis_b: the other one.

Returns:
    Tensor with the sizes of the two axes exchanged.

Raises:
    ShapeError: x has no such axis.

Example:
    >>> from evolving_attention import functional as F
    >>> F.transpose([[1.0, 2.0], [3.0, 4.0]], 0, 1).numpy().tolist()
    [[1.0, 3.0], [2.0, 4.0]])");
}

void bind_parts(py::module_& m) {
  m.def("slice", &slice, py::arg("x"), py::arg("axis"), py::arg("begin"),
        py::arg("end"), Release(),
        R"(Takes a range of one axis.

    y = x[..., begin:end, ...]

Args:
    x: any shape and type.
    axis: the axis; negative numbers count from the last.
    begin: first index that is taken, 0 or more.
    end: index after the last one that is taken, at most the size of the axis.

Returns:
    Tensor in the shape of x but for the axis, which has size end - begin.

Raises:
    ShapeError: x has no such axis, or the range does not fit it.

Example:
    >>> from evolving_attention import functional as F
    >>> F.slice([1.0, 2.0, 3.0, 4.0], 0, 1, 3).numpy().tolist()
    [2.0, 3.0])");
  m.def(
      "concat",
      [](const std::vector<Var>& xs, const AxisArgument& axis,
         const AxisArgument& dim) {
        const Var y = concat(xs, axis_of(axis, dim).value_or(0));
        return xs.size() == 1 ? copied(y) : y;
      },
      py::arg("xs"), py::arg("axis") = py::none(), py::kw_only(),
      py::arg("dim") = py::none(), Release(),
      R"(Joins tensors along an axis.

    y = [xs[0], xs[1], ...] one after another along the axis

Args:
    xs: one tensor or more, of one type and on one device, their shapes equal but
        for the axis.
    axis, dim: the axis; negative numbers count from the last; None: 0.

Returns:
    Tensor whose axis has the sum of the tensors' sizes.

Raises:
    ShapeError: xs is empty, there is no such axis, or other sizes differ.
    DTypeError: types differ.
    DeviceError: devices differ.
    ConfigError: axis and dim are both given.

Example:
    >>> from evolving_attention import functional as F
    >>> F.concat([[1.0, 2.0], [3.0]], axis=0).numpy().tolist()
    [1.0, 2.0, 3.0])");
}

}  // namespace

void bind_array_ops(py::module_& ops) {
  bind_arithmetic(ops);
  bind_combinations(ops);
  bind_pointwise_ops(ops);
  bind_leaky_relu(ops);
  bind_dropout(ops);
  bind_views(ops);
  bind_parts(ops);
  def_reduction(ops, "sum", &reduced<sum>,
                R"(Sums elements over one axis, several or all.

    y[...] = sum of x[..., i, ...] over i

Args:
    x: [...] of any type.
    axis, dim: the axis, or several; negative numbers count from the last; None: all.
    keepdims, keepdim: keep the axes with size 1.

Returns:
    Tensor in the type of x, without the axes; of all elements a 0-d one. Integers have
    sums of int64.

Raises:
    ShapeError: x has no such axis.
    ConfigError: axis and dim are both given, or an axis stands twice.

Example:
    >>> from evolving_attention import functional as F
    >>> F.sum([[1.0, 2.0], [3.0, 4.0]], axis=0).numpy().tolist()
    [4.0, 6.0])");
  def_reduction(ops, "mean", &reduced<mean>,
                R"(Averages elements over one axis, several or all.

    y[...] = sum of x[..., i, ...] over i, divided by the size of the axis

Args:
    x: [...] of any type.
    axis, dim: the axis, or several; negative numbers count from the last; None: all.
    keepdims, keepdim: keep the axes with size 1.

Returns:
    Tensor in the type of x, without the axes; of all elements a 0-d one. Integers have
    means of float32.

Raises:
    ShapeError: x has no such axis, or there is nothing to average.
    ConfigError: axis and dim are both given, or an axis stands twice.

Example:
    >>> from evolving_attention import functional as F
    >>> F.mean([[1.0, 2.0], [3.0, 4.0]], axis=1).numpy().tolist()
    [1.5, 3.5])");
}

}  // namespace ea
