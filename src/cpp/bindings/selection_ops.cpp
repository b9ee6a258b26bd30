// Functions that choose among elements, and powers, in ops and on Tensor.
#include <pybind11/stl.h>

#include <string>

#include "bindings/numpy.h"
#include "bindings/ops.h"
#include "bindings/tensor.h"
#include "ops/power.h"
#include "ops/selection.h"

namespace ea {

// A tensor, an array or a number, read in the type of another tensor.
struct Operand {
  py::object object;
};

}  // namespace ea

namespace pybind11::detail {

template <>
struct type_caster<ea::Operand> {
  PYBIND11_TYPE_CASTER(ea::Operand,
                       const_name("evolving_attention._core.Tensor"));

  bool load(handle source, bool) {
    value.object = reinterpret_borrow<object>(source);
    return true;
  }
};

}  // namespace pybind11::detail

namespace ea {

namespace {

Var choose(const Var& condition, const Operand& a, const Operand& b) {
  const bool from_b =
      !py::isinstance<Var>(a.object) && py::isinstance<Var>(b.object);
  const py::object& first = from_b ? b.object : a.object;
  const Var guide = var_of(first);
  const Var other = operand_of(from_b ? a.object : b.object, guide);
  const ReleasedGil release;
  return where(condition.data(), from_b ? other : guide,
               from_b ? guide : other);
}

Var raise_to(const Var& x, const Operand& exponent) {
  const py::object& p = exponent.object;
  const bool number =
      PyFloat_Check(p.ptr()) || PyLong_Check(p.ptr()) ||  // quick
      (PyNumber_Check(p.ptr()) != 0 && !PyComplex_Check(p.ptr()) &&
       !py::hasattr(p, "__dlpack__"));  // tensors and arrays have it
  if (!number) {
    const Var other = operand_of(p, x);
    const ReleasedGil release;
    return pow(x, other);
  }
  const double value = PyFloat_AsDouble(p.ptr());
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  const ReleasedGil release;
  return pow(x, value);
}

Var raise_number(const Var& self, const Operand& base) {
  const Var x = operand_of(base.object, self);
  const ReleasedGil release;
  return pow(x, self);
}

constexpr const char* kFloating = "[...] of a floating type.";

void bind_abs(py::module_* m, py::class_<Var>* c) {
  const auto doc = [](bool method) {
    return doc_of(method, R"(Makes negative elements positive.

    y = |x|

The derivative at 0 is 0.)",
                  "[...] of any type.", "",
                  R"(    [...] in the shape and type of x.

Raises:
    DTypeError: x is no tensor, and no array of numbers.
)",
                  method ? R"(    >>> Tensor([-1.0, 2.0]).abs().tolist()
    [1.0, 2.0])"
                         : R"(    >>> F.abs([-1.0, 2.0]).tolist()
    [1.0, 2.0])");
  };
  def_both(m, c, "abs", &abs, doc, Release());
}

Var clip_between(const Var& x, std::optional<double> low,
                 std::optional<double> high, std::optional<double> min,
                 std::optional<double> max) {
  EA_CHECK_AS(
      ConfigError, !(low && min) && !(high && max), "clip",
      "low and min are one bound, and so are high and max; expected one "
      "of each pair");
  return clip(x, low ? low : min, high ? high : max);
}

void bind_clip(py::module_* m, py::class_<Var>* c) {
  const auto doc = [](bool method) {
    return doc_of(
        method, R"(Limits elements to a range.

    y = low where x < low, high where x > high, else x

NaN stays NaN. The gradient passes where x lies within the bounds.)",
        "[...] of any type.",
        R"(    low, min: the lower bound; None: there is none.
    high, max: the upper bound; None: there is none.
)",
        R"(    [...] in the shape and type of x.

Raises:
    ConfigError: both bounds are None or one is given twice, or low is above high.
    DTypeError: x has integers, and a bound has a fraction.
)",
        method ? R"(    >>> Tensor([-1.0, 0.5, 2.0]).clip(0, 1).tolist()
    [0.0, 0.5, 1.0])"
               : R"(    >>> F.clip([-1.0, 0.5, 2.0], low=0, high=1).tolist()
    [0.0, 0.5, 1.0])");
  };
  def_both(m, c, "clip", &clip_between, doc, py::arg("low") = py::none(),
           py::arg("high") = py::none(), py::kw_only(),
           py::arg("min") = py::none(), py::arg("max") = py::none(), Release());
}

using Extreme = Var (*)(const Var&, std::optional<int>, bool);

template <Extreme Fn>
void bind_extreme(py::module_* m, py::class_<Var>* c, const std::string& name) {
  const bool largest = name == "max";
  const std::string word = largest ? "largest" : "smallest";
  const auto doc = [&](bool method) {
    const std::string call =
        method ? "Tensor([[1.0, 5.0], [4.0, 0.0]])." + name + "("
               : "F." + name + "([[1.0, 5.0], [4.0, 0.0]], ";
    return doc_of(
        method,
        "Finds the " + word + R"( element along an axis, or of all.

    y[...] = )" +
            name + R"( of x[..., i, ...] over i

The gradient goes to the first of equal elements; NaN counts as the )" +
            word + " value.\narg" + name +
            "() of a tensor says where the elements are.",
        "[...] of any type.",
        std::string(
            R"(    axis, dim: the axis; negative numbers count from the last; None: all.
    keepdims, keepdim: keep the axis with size 1.
)") + (method ? "    out: None, as np." + name + "(tensor) hands it over.\n"
              : ""),
        R"(    Tensor in the type of x, without the axis; of all elements a 0-d one.

Raises:
    ShapeError: there is no such axis, or there are no elements.
    ConfigError: axis and dim are both given.
)",
        "    >>> " + call + "axis=1).tolist()\n    " +
            (largest ? "[5.0, 4.0]" : "[1.0, 0.0]"));
  };
  const auto run = [](const Var& x, const AxisArgument& axis, bool keepdims,
                      const AxisArgument& dim, bool keepdim) {
    return Fn(x, axis_of(axis, dim), keepdims || keepdim);
  };
  if (m != nullptr) {
    def_reduction(*m, name.c_str(), run, doc(false).c_str());
  }
  if (c != nullptr) {
    const auto method = [](const Var& x, const AxisArgument& axis,
                           bool keepdims, const AxisArgument& dim, bool keepdim,
                           const py::object& out) {
      check_unused(out, "out");
      return Fn(x, axis_of(axis, dim), keepdims || keepdim);
    };
    def_reduction(*c, name.c_str(), method, doc(true).c_str(),
                  py::arg("out") = py::none());
  }
}

void bind_pow(py::module_* m, py::class_<Var>* c) {
  const auto doc = [](bool method) {
    return doc_of(
        method, R"(Raises elements to a power.

    y = x^p

Negative x to a p that is not a whole number gives NaN.)",
        kFloating,
        R"(    exponent: p, a number, or a tensor or array that broadcasts with x.
)",
        R"(    [...] of the broadcast shape, in the type of x.

Raises:
    DTypeError: x is not a floating-point tensor, or a tensor p has another type.
    ShapeError: the shapes do not broadcast.
)",
        method ? R"(    >>> Tensor([1.0, 2.0, 3.0]).pow(2).tolist()
    [1.0, 4.0, 9.0])"
               : R"(    >>> F.pow([1.0, 4.0, 9.0], 0.5).tolist()
    [1.0, 2.0, 3.0])");
  };
  def_both(m, c, "pow", &raise_to, doc, py::arg("exponent"));
  if (c == nullptr) return;
  c->def("__pow__", &raise_to, py::is_operator());
  c->def("__rpow__", &raise_number, py::is_operator());
}

constexpr const char* kWhere =
    R"(Takes elements of one tensor where a condition holds, else of another.

    y = a where condition is not 0, else b

Each element's gradient goes to the tensor it was taken from.

Args:
    condition: [...] of any type: what a comparison gives, or booleans.
    a: [...], or a number in the type of b.
    b: [...], or a number in the type of a; the three shapes broadcast.

Returns:
    [...] of the broadcast shape, in the type of a and b.

Raises:
    DTypeError: a and b are tensors of two types.
    ShapeError: the shapes do not broadcast.

Example:
    >>> from evolving_attention import Tensor, functional as F
    >>> x = Tensor([-1.0, 2.0])
    >>> F.where(x > 0, x, 0.0).tolist()
    [0.0, 2.0])";

void bind_clamp(py::class_<Var>& c) {
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
}

void bind_masked_fill(py::class_<Var>& c) {
  c.def(
      "masked_fill",
      [](const Var& self, const py::object& mask, const py::object& value) {
        const Var holds = var_of(mask), filling = operand_of(value, self);
        const ReleasedGil release;
        return where(holds.data(), filling, self);
      },
      py::arg("mask"), py::arg("value"),
      R"(Replaces the elements where a mask holds by a number.

    y = value where mask is not 0, else x

Args:
    mask: [...] of any type that broadcasts with x: what a comparison gives, or
        booleans.
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

}  // namespace

void bind_selection_ops(py::module_& ops) {
  bind_abs(&ops, nullptr);
  bind_clip(&ops, nullptr);
  bind_extreme<max>(&ops, nullptr, "max");
  bind_extreme<min>(&ops, nullptr, "min");
  bind_pow(&ops, nullptr);
  ops.def("where", &choose, py::arg("condition"), py::arg("a"), py::arg("b"),
          kWhere);
}

void bind_selections(py::class_<Var>& c) {
  bind_abs(nullptr, &c);
  c.def("__abs__", &abs, Release());
  bind_clip(nullptr, &c);
  bind_clamp(c);
  bind_masked_fill(c);
  bind_extreme<max>(nullptr, &c, "max");
  bind_extreme<min>(nullptr, &c, "min");
  bind_pow(nullptr, &c);
}

}  // namespace ea
