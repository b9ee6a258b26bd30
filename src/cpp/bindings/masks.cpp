// Masks, the results of comparisons: &, |, ^,  , any and all.
#include <string>

#include "bindings/numpy.h"
#include "bindings/ops.h"
#include "bindings/tensor.h"
#include "ops/compare.h"
#include "ops/reduce.h"
#include "tensor/tensor.h"

namespace ea {

namespace {

Tensor zero_like(const Tensor& x) {
  return full({}, x.dtype(), 0.0, x.device());
}

template <Logic Op>
Var together(const Var& self, const py::object& other) {
  const Var rhs = var_of(other);
  const ReleasedGil release;
  return Var(combine(Op, self.data(), rhs.data()));
}

Var inverted(const Var& self) {
  return Var(combine(Logic::one, self.data(), full({}, DType::boolean, 1.0)));
}

// any() counts elements that differ from 0: the count must not be 0. all()
// counts elements equal to 0: the count must be 0.
template <bool All>
Var found(const Var& self, const AxesArgument& axis, bool keepdims,
          const AxesArgument& dim, bool keepdim, const py::object& out) {
  check_unused(out, "out");
  const auto op = All ? Comparison::equal : Comparison::not_equal;
  const Var some(compare(op, self.data(), zero_like(self.data())));
  const Tensor count =
      over_axes(&sum, some, axis, dim, keepdims || keepdim).data();
  return Var(compare(op, count, zero_like(count)));
}

template <bool All>
void bind_found(py::class_<Var>& c) {
  const std::string name = All ? "all" : "any";
  const std::string doc =
      std::string(All ? "Tells whether every element"
                      : "Tells whether an element") +
      " differs from 0.\n\n    y = 1 if x[..., i, ...] != 0 for " +
      (All ? "every" : "some") + R"( i, else 0

Args:
    axis, dim: the axis, or several; negative numbers count from the last; None: all.
    keepdims, keepdim: keep the axes with size 1.
    out: None, as np.)" +
      name + R"((tensor) hands it over.

Returns:
    Tensor of bool without the axes; of all elements a 0-d one.

Raises:
    ShapeError: there is no such axis.
    ConfigError: axis and dim are both given, an axis stands twice, or out is not None.

Example:
    >>> from evolving_attention import Tensor
    >>> x = Tensor([[1.0, -2.0], [3.0, 4.0]])
    >>> (x > 0).)" +
      name + "(axis=1).tolist()\n    " +
      (All ? "[False, True]" : "[True, True]");
  def_reduction(c, name.c_str(), &found<All>, doc.c_str(),
                py::arg("out") = py::none());
}

}  // namespace

void bind_masks(py::class_<Var>& c) {
  c.def("__and__", &together<Logic::both>, py::is_operator())
      .def("__rand__", &together<Logic::both>, py::is_operator())
      .def("__or__", &together<Logic::either>, py::is_operator())
      .def("__ror__", &together<Logic::either>, py::is_operator())
      .def("__xor__", &together<Logic::one>, py::is_operator())
      .def("__rxor__", &together<Logic::one>, py::is_operator())
      .def("__invert__", &inverted, Release());
  bind_found<false>(c);
  bind_found<true>(c);
}

}  // namespace ea
