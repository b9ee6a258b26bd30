// Comparisons of tensors for Python, and positions of extreme elements.
#include <pybind11/stl.h>

#include <cmath>
#include <string>

#include "bindings/numpy.h"
#include "bindings/tensor.h"
#include "ops/compare.h"

namespace ea {

namespace {

// Reads the other operand of a comparison. For floats it is read in their type,
// as for arithmetic; integers are compared with values of any type.
std::optional<Tensor> other_side(const Var& self, const py::object& other) {
  if (py::isinstance<Var>(other)) return other.cast<Var>().data();
  if (other.is_none() || py::isinstance<py::str>(other)) return {};
  try {
    if (is_floating(self.dtype())) return operand_of(other, self).data();
    return from_python(other, /*exact=*/true);
  } catch (const DTypeError&) {
    return {};  // not numeric: Python tries the other operand
  }
}

void bind_comparison(py::class_<Var>& c, const char* name, Comparison op,
                     const char* symbol) {
  const std::string doc = std::string(
                              "Compares element by element.\n\n    y = "
                              "1 where x ") +
                          symbol + R"( other, else 0

Args:
    other: a tensor, an array or a number; the shapes broadcast.

Returns:
    Tensor of bool, which selects as a mask.

Raises:
    ShapeError: the shapes do not broadcast.

Example:
    >>> from evolving_attention import Tensor
    >>> (Tensor([1.0, 2.0, 3.0]) )" +
                          symbol + R"( 2.0).shape
    (3,))";
  c.def(
      name,
      [op](const Var& self, const py::object& other) -> py::object {
        const std::optional<Tensor> rhs = other_side(self, other);
        if (!rhs) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
        Tensor y;
        {
          const ReleasedGil release;
          y = compare(op, self.data(), *rhs);
        }
        return py::cast(Var(y));
      },
      py::arg("other"), doc.c_str());
}

// A property of each number, as one comparison with a bound or two.
struct Kind {
  const char *name, *what, *formula, *example;
  Tensor (*holds)(const Tensor&);
};

Tensor against(Comparison op, const Tensor& x, double bound) {
  return compare(op, x, full({}, DType::f64, bound));
}

constexpr Kind kKinds[] = {
    {"isnan", "Finds elements that are NaN.", "x is NaN",
     "[False, True, False]",
     [](const Tensor& x) { return compare(Comparison::not_equal, x, x); }},
    {"isinf", "Finds elements that are infinite.", "x is inf or -inf",
     "[False, False, True]",
     [](const Tensor& x) {
       return combine(Logic::either, against(Comparison::equal, x, INFINITY),
                      against(Comparison::equal, x, -INFINITY));
     }},
    {"isfinite", "Finds elements that are neither infinite nor NaN.",
     "x is a finite number", "[True, False, False]",
     [](const Tensor& x) {
       return combine(Logic::both, against(Comparison::less, x, INFINITY),
                      against(Comparison::greater, x, -INFINITY));
     }},
};

void bind_kinds(py::class_<Var>& c) {
  for (const Kind& kind : kKinds) {
    const std::string name(kind.name);
    const std::string doc = std::string(kind.what) + "\n\n    y = 1 where " +
                            kind.formula + R"(, else 0

Returns:
    Tensor of bool in the shape of x, which selects as a mask.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([1.0, float("nan"), float("inf")]).)" +
                            name + "().tolist()\n    " + kind.example;
    c.def(
        kind.name,
        [holds = kind.holds](const Var& x) { return Var(holds(x.data())); },
        py::call_guard<ReleasedGil>(), doc.c_str());
  }
}

template <Tensor (*Find)(const Tensor&, std::optional<int>, bool)>
void bind_place(py::class_<Var>& c, const std::string& name) {
  const bool largest = name == "argmax";
  const std::string word = largest ? "largest" : "smallest";
  const std::string doc = "Finds the index of the " + word +
                          R"( element along an axis, or of all elements.

    y[...] = the first i at which x[..., i, ...] is )" +
                          word + R"(

Of all elements, i counts in row-major order. NaN is )" +
                          (largest ? "larger" : "smaller") +
                          R"( than any number.

Args:
    axis, dim: the axis; negative numbers count from the last; None: all elements.
    keepdims, keepdim: keep the axis with size 1.

Returns:
    Tensor of int64 without the axis; of all elements a 0-d one.

Raises:
    ShapeError: there is no such axis, or there are no elements.
    ConfigError: axis and dim are both given.

Example:
    >>> from evolving_attention import Tensor
    >>> Tensor([[1.0, 5.0, 2.0], [4.0, 0.0, 3.0]]).)" +
                          name + "(-1).tolist()\n    " +
                          (largest ? "[1, 0]" : "[0, 1]");
  const auto run = [](const Var& self, const AxisArgument& axis, bool keepdims,
                      const AxisArgument& dim, bool keepdim) {
    return Var(Find(self.data(), axis_of(axis, dim), keepdims || keepdim));
  };
  def_reduction(c, name.c_str(), run, doc.c_str());
}

}  // namespace

void bind_comparisons(py::class_<Var>& c) {
  // Sets and dicts identify tensors by identity.
  c.def("__hash__", [](const py::object& self) {
    return reinterpret_cast<std::intptr_t>(self.ptr()) >> 4;
  });
  bind_comparison(c, "__eq__", Comparison::equal, "==");
  bind_comparison(c, "__ne__", Comparison::not_equal, "!=");
  bind_comparison(c, "__lt__", Comparison::less, "<");
  bind_comparison(c, "__le__", Comparison::less_equal, "<=");
  bind_comparison(c, "__gt__", Comparison::greater, ">");
  bind_comparison(c, "__ge__", Comparison::greater_equal, ">=");
  bind_kinds(c);
  bind_place<argmax>(c, "argmax");
  bind_place<argmin>(c, "argmin");
}

}  // namespace ea
