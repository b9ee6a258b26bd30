// Tensor's methods that are functions of evolving_attention.functional, and
// what sets its type or its gradient.
#include <string>

#include "bindings/numpy.h"
#include "bindings/ops.h"
#include "bindings/tensor.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/linear.h"
#include "ops/selection.h"
#include "ops/shape_ops.h"
#include "ops/softmax.h"

namespace ea {

namespace {

struct Pointwise {
  const char* name;
  Activation kind;
  const char *summary, *formula, *given, *result;
};

constexpr Pointwise kPointwise[] = {
    {"relu", Activation::relu, "Sets negative elements to 0.", "y = max(x, 0)",
     "[-1.0, 2.0]", "[0.0, 2.0]"},
    {"sigmoid", Activation::sigmoid, "Computes the logistic function.",
     "y = 1 / (1 + exp(-x))", "[0.0]", "[0.5]"},
    {"tanh", Activation::tanh, "Computes the hyperbolic tangent.",
     "y = tanh(x)", "[0.0]", "[0.0]"},
    {"exp", Activation::exp, "Computes the exponential.", "y = e^x", "[0.0]",
     "[1.0]"},
    {"log", Activation::log, "Computes the natural logarithm.", "y = ln x",
     "[1.0]", "[0.0]"},
    {"sqrt", Activation::sqrt, "Computes the square root.", "y = sqrt(x)",
     "[4.0, 9.0]", "[2.0, 3.0]"},
};

void bind_pointwise(py::class_<Var>& c, const Pointwise& f) {
  const std::string doc = std::string(f.summary) + "\n\n    " + f.formula +
                          R"(

Returns:
    [...] in the shape and type of x.

Raises:
    DTypeError: the type is no floating one.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor()" + f.given +
                          ")." + f.name + "().tolist()\n    " + f.result;
  c.def(
      f.name, [kind = f.kind](const Var& x) { return activation(x, kind); },
      Release(), doc.c_str());
}

void bind_products(py::class_<Var>& c) {
  c.def("softmax", &softmax_along, py::arg("axis") = py::none(), py::kw_only(),
        py::arg("dim") = py::none(), Release(),
        R"(Normalises one axis to probabilities.

    y_i = exp(x_i) / sum of exp(x_j) over j

Args:
    axis, dim: the axis; negative numbers count from the last; None: the last.

Returns:
    [...] in the shape and type of x.

Raises:
    ShapeError: there is no such axis.
    DTypeError: the type is no floating one.
    ConfigError: axis and dim are both given.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([0.0, 0.0]).softmax(-1).tolist()
    [0.5, 0.5])");
  c.def(
      "matmul",
      [](const Var& self, const py::object& other) {
        const Var rhs = operand_of(other, self);
        const py::gil_scoped_release release;
        return matmul(self, rhs);
      },
      py::arg("other"),
      R"(Multiplies matrices, as x @ other does.

    y = x other

Args:
    other: [k, n], or [batch, k, n] for x [batch, m, k].

Returns:
    [m, n] or [batch, m, n].

Raises:
    ShapeError: the shapes do not fit.
    DTypeError: the types differ, or theirs is no floating one.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[1.0, 2.0]]).matmul([[3.0], [4.0]]).tolist()
    [[11.0]])");
  c.def(
      "masked_fill",
      [](const Var& self, const py::object& mask, const py::object& value) {
        const Var holds = var_of(mask), filling = operand_of(value, self);
        const py::gil_scoped_release release;
        return where(holds.data(), filling, self);
      },
      py::arg("mask"), py::arg("value"),
      R"(Puts a number where a mask holds.

    y = value where mask is not 0, else x

Args:
    mask: [...] of any type that broadcasts with x: what a comparison gives, or booleans.
    value: the number.

Returns:
    [...] of the broadcast shape, in the type of x.

Raises:
    ShapeError: the shapes do not broadcast.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([1.0, 2.0])
    >>> x.masked_fill(x > 1, 0.0).tolist()
    [1.0, 0.0])");
}

void bind_type(py::class_<Var>& c, const char* name, DType dtype) {
  const std::string type(name_of(dtype));
  const std::string doc = "Converts the values to " + type + R"(.

    y = x, rounded to the nearest value of the type; differentiable

Returns:
    [...] in the shape of x; this tensor itself where nothing changes.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([1.5]).)" + name +
                          "().dtype\n    '" + type + "'";
  c.def(
      name, [dtype](const Var& x) { return cast(x, dtype); }, Release(),
      doc.c_str());
}

void bind_limits(py::class_<Var>& c) {
  c.def("clamp", &clip, py::arg("min") = py::none(),
        py::arg("max") = py::none(), Release(),
        R"(Does what clip() does, by PyTorch's name.

    y = min where x < min, max where x > max, else x

Args:
    min: the lower bound; None: there is none.
    max: the upper bound; None: there is none.

Returns:
    [...] in the shape and type of x.

Raises:
    ConfigError: both bounds are None, or min is above max.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([-1.0, 2.0]).clamp(min=0).tolist()
    [0.0, 2.0])");
  c.def(
      "astype",
      [](const Var& self, const py::object& dtype) {
        const DType wanted = dtype_of_python(dtype);
        const py::gil_scoped_release release;
        return self.dtype() == wanted ? copied(self) : cast(self, wanted);
      },
      py::arg("dtype"),
      R"(Returns the values in an element type, in memory of their own.

    y = x, rounded to the nearest value of the type; differentiable

Args:
    dtype: the type, as for Tensor().

Returns:
    [...] in the shape of x.

Raises:
    DTypeError: the type is not known.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([1.5]).astype("float64").dtype
    'float64')");
}

void bind_copies(py::class_<Var>& c) {
  c.def("clone", &copied, Release(),
        R"(Returns the same values in memory of their own.

    y = x; differentiable

Returns:
    [...] in the shape and type of x.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([1.0])
    >>> y = x.clone()
    >>> y.copy_([2.0])
    >>> x.tolist()
    [1.0])");
  c.def(
      "contiguous",
      [](const Var& x) { return x.data().is_contiguous() ? x : copied(x); },
      Release(),
      R"(Returns the values in row-major memory.

    y = x; differentiable

Returns:
    [...] in the shape and type of x; this tensor itself where its memory is so.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[1.0, 2.0]]).T.contiguous().tolist()
    [[1.0], [2.0]])");
  c.def(
      "requires_grad_",
      [](const py::object& self, const py::object& requires_grad) {
        self.attr("requires_grad") = requires_grad;
        return self.cast<Var>();
      },
      py::arg("requires_grad") = true,
      R"(Sets whether backward() gives the tensor a gradient, in place.

    self.requires_grad = requires_grad

Args:
    requires_grad: True or False.

Returns:
    This tensor.

Raises:
    InputError: an operation has made the tensor, or the value is no bool.
    DTypeError: the element type has no gradient.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([1.0]).requires_grad_().requires_grad
    True)");
}

}  // namespace

void bind_methods(py::class_<Var>& c) {
  for (const Pointwise& f : kPointwise) bind_pointwise(c, f);
  bind_products(c);
  bind_type(c, "float", DType::f32);
  bind_type(c, "double", DType::f64);
  bind_type(c, "bfloat16", DType::bf16);
  bind_limits(c);
  bind_copies(c);
}

}  // namespace ea
