// The Tensor class of Python: data, gradient, arithmetic, interchange.
#include <pybind11/stl.h>

#include <algorithm>
#include <sstream>

#include "autograd/grad_mode.h"
#include "bindings/arguments.h"
#include "bindings/devices.h"
#include "bindings/numpy.h"
#include "bindings/tensor.h"
#include "bindings/tensor_docs.h"
#include "ops/arithmetic.h"
#include "ops/gemm.h"
#include "ops/reduce.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

// An array of NumPy; other objects raise a typed error.
struct ArrayArgument {
  py::array value;
};

}  // namespace ea

namespace pybind11::detail {

template <>
struct type_caster<ea::ArrayArgument> {
  PYBIND11_TYPE_CASTER(ea::ArrayArgument, handle_type_name<array>::name);

  bool load(handle source, bool) {
    EA_CHECK_AS(DTypeError, isinstance<array>(source), "from_numpy",
                "expected an array of NumPy to share, got {}; Tensor(values) "
                "copies",
                ea::described(source));
    value.value = reinterpret_borrow<array>(source);
    return true;
  }
};

}  // namespace pybind11::detail

namespace ea {

namespace {

using Sizes = py::typing::Tuple<py::int_, py::ellipsis>;

Sizes shape_tuple(const Shape& shape) {
  py::tuple out(shape.rank());
  for (int axis = 0; axis < shape.rank(); ++axis) out[axis] = shape[axis];
  return out;
}

Var make(const py::object& data, const py::object& dtype, bool requires_grad,
         const py::object& device) {
  const Tensor given = from_python(data, /*exact=*/!dtype.is_none());
  const DType type = dtype.is_none() ? given.dtype() : dtype_of_python(dtype);
  check_fits(data, given, type);
  const Tensor t = cast(given, type);
  const Device place = device.is_none() ? t.device() : device_of_python(device);
  const ReleasedGil release;
  // A tensor that changed neither type nor device may still share the caller's
  // memory.
  const bool same = t.storage() == given.storage() && t.device() == place;
  return Var(same ? clone(t) : to_device(t, place), requires_grad);
}

// Implements .to("float32"), .to("cuda"), .to("cuda", "float32"), also with
// keywords.
Var to(const Var& self, const py::args& targets, const py::object& dtype,
       const py::object& device, bool /*non_blocking*/) {
  py::object type = dtype, place = device;
  for (const py::handle target : targets) {
    py::object& which = names_device(target) ? place : type;
    EA_CHECK_AS(ConfigError, which.is_none(), "to",
                "expected one dtype and one device at most, got {} too",
                described(target));
    which = py::reinterpret_borrow<py::object>(target);
  }
  EA_CHECK_AS(ConfigError, !type.is_none() || !place.is_none(), "to",
              "expected a dtype such as 'float32' or a device such as 'cpu'");
  const DType wanted = type.is_none() ? self.dtype() : dtype_of_python(type);
  const Device where =
      place.is_none() ? self.device() : device_of_python(place);
  const ReleasedGil release;  // may synchronise with a device
  return to_device(type.is_none() ? self : cast(self, wanted), where);
}

using BinaryFn = Var (*)(const Var&, const Var&);

Var product(const Var& a, const Var& b) { return matmul(a, b); }

// A number next to a mask keeps its type: True + 1 is 2.
Var next_to(const Var& self, const py::object& other) {
  const bool mask = self.dtype() == DType::boolean;
  return mask ? var_of(other) : operand_of(other, self);
}

template <BinaryFn Fn>
Var forward_op(const Var& self, const py::object& other) {
  const Var rhs = next_to(self, other);
  const ReleasedGil release;
  return Fn(self, rhs);
}

template <BinaryFn Fn>
Var reflected_op(const Var& self, const py::object& other) {
  const Var lhs = next_to(self, other);
  const ReleasedGil release;
  return Fn(lhs, self);
}

// Whether several elements lie in one place of the memory.
bool repeats(const Tensor& t) {
  for (int axis = 0; axis < t.rank(); ++axis) {
    if (t.strides()[axis] == 0 && t.shape()[axis] > 1) return true;
  }
  return false;
}

// x op= y. As in PyTorch, leaves change in place: a parameter only where
// nothing is recorded. Where the result is recorded, or has another shape or
// type, Python binds the name to a new tensor.
template <BinaryFn Fn>
py::object in_place_op(const py::object& self, const py::object& other) {
  const Var& x = self.cast<const Var&>();
  const bool parameter = x.requires_grad() && x.is_leaf();
  EA_CHECK_AS(InputError, !parameter || !grad_enabled(), "tensor",
              "a tensor that requires a gradient changes in place only within "
              "ea.no_grad(); write x = x + y for a new tensor");
  const Var y = forward_op<Fn>(x, other);
  const bool fits = y.shape() == x.shape() && y.dtype() == x.dtype();
  EA_CHECK(fits || !parameter, "tensor",
           "the result of shape {} does not fit into the tensor of shape {}",
           y.shape(), x.shape());
  if (!fits || !x.is_leaf() || y.requires_grad() || repeats(x.data())) {
    return py::cast(y);
  }
  copy_into(y.data(), x.data());
  return self;
}

std::string repr(const Var& v) {
  std::ostringstream out;
  const py::module_ np = py::module_::import("numpy");
  py::object values = to_numpy(to_device(v.data(), kCpu));
  if (v.dtype() == DType::bf16) values = values.attr("astype")("float32");
  out << "Tensor("
      << py::str(np.attr("array2string")(values, py::arg("separator") = ", ",
                                         py::arg("prefix") = "Tensor(",
                                         py::arg("threshold") = 64))
             .cast<std::string>()
      << ", dtype=" << v.dtype();
  if (!v.device().is_cpu()) out << ", device='" << v.device() << "'";
  if (v.requires_grad()) out << ", requires_grad=True";
  out << ")";
  return out.str();
}

py::array as_numpy_array(const Var& self, const py::object& dtype,
                         const py::object& copy) {
  const py::array array = to_numpy(self.data());
  const bool converts =
      !dtype.is_none() && !py::dtype::from_args(dtype).equal(array.dtype());
  if (copy.is_none() || copy.cast<bool>()) {
    if (converts) return array.attr("astype")(dtype);
    return copy.is_none() ? array : array.attr("copy")().cast<py::array>();
  }
  if (converts) {
    throw py::value_error(
        "[tensor] another dtype needs a copy, and copy=False");
  }
  return array;
}

py::buffer_info buffer(const Var& self) {
  const Tensor& t = self.data();
  // The buffer protocol has no format for bfloat16; np.asarray() then calls
  // __array__, which has a type for it.
  if (t.dtype() == DType::bf16) {
    throw py::buffer_error(
        "bfloat16 has no buffer format; use .numpy() or .to('float32')");
  }
  if (!t.device()
           .is_cpu()) {  // np.asarray() then calls __array__, which says so
    throw py::buffer_error("the values are on a device; use .to('cpu')");
  }
  // The array, and with it the loan, lives until the reader releases the
  // buffer.
  return to_numpy(t).request(/*writable=*/true);
}

void copy_from(const Var& self, const py::object& source) {
  const Tensor t = from_python(source, self.dtype());
  const ReleasedGil release;
  copy_into(t, self.data());
}

// Returns the argument that was given under either of its names.
template <typename Argument>
const Argument& only_one(const Argument& axis, const Argument& dim) {
  EA_CHECK_AS(ConfigError, !axis || !dim, "axis",
              "axis and dim name the same argument; expected only one of them");
  return axis ? axis : dim;
}

// Returns the axes from the last to the first. Throws ConfigError if one
// stands twice.
std::vector<int> axes_from_last(const std::vector<Whole<"axis">>& given,
                                int rank) {
  std::vector<int> axes;
  for (const auto& one : given) {
    const int a = normalize_axis(narrow(one.value), rank, "axis");
    EA_CHECK_AS(ConfigError,
                std::find(axes.begin(), axes.end(), a) == axes.end(), "axis",
                "axis {} stands twice; expected each once", one.value);
    axes.push_back(a);
  }
  std::sort(axes.rbegin(), axes.rend());  // the others stay valid
  return axes;
}

constexpr const char* kFloorDivide =
    R"(Divides and rounds down, as Python does.

    y = floor(x / other)

y is constant between its jumps, so it has no gradient.

Args:
    other: a tensor, an array or a number, in the type of x; the shapes broadcast.

Returns:
    Tensor of the broadcast shape, in the type of x, which may be an integer type.

Raises:
    InputError: an integer is divided by 0; floats give infinity or NaN.
    DTypeError: a tensor `other` has another type.
    ShapeError: the shapes do not broadcast.

Example:
    >>> from evolving_attention import Tensor
    >>> (Tensor([7, -7]) // 2).tolist()
    [3, -4])";

constexpr const char* kRemainder =
    R"(Computes the remainder of floor division, which has the sign of the divisor.

    y = x - other floor(x / other)

Args:
    other: a tensor, an array or a number, in the type of x; the shapes broadcast.

Returns:
    Tensor of the broadcast shape, in the type of x, which may be an integer type.

Raises:
    InputError: an integer is divided by 0; floats give NaN.
    DTypeError: a tensor `other` has another type.
    ShapeError: the shapes do not broadcast.

Example:
    >>> from evolving_attention import Tensor
    >>> (Tensor([7, -7]) % 3).tolist()
    [1, 2])";

void bind_arithmetic(py::class_<Var>& c) {
  c.def("__add__", &forward_op<add>, py::is_operator())
      .def("__radd__", &reflected_op<add>, py::is_operator())
      .def("__sub__", &forward_op<sub>, py::is_operator())
      .def("__rsub__", &reflected_op<sub>, py::is_operator())
      .def("__mul__", &forward_op<mul>, py::is_operator())
      .def("__rmul__", &reflected_op<mul>, py::is_operator())
      .def("__truediv__", &forward_op<div>, py::is_operator())
      .def("__rtruediv__", &reflected_op<div>, py::is_operator())
      .def("__iadd__", &in_place_op<add>, py::is_operator())
      .def("__isub__", &in_place_op<sub>, py::is_operator())
      .def("__imul__", &in_place_op<mul>, py::is_operator())
      .def("__itruediv__", &in_place_op<div>, py::is_operator())
      .def("__floordiv__", &forward_op<floor_divide>, py::arg("other"),
           py::is_operator(), kFloorDivide)
      .def("__ifloordiv__", &in_place_op<floor_divide>, py::is_operator())
      .def("__imod__", &in_place_op<remainder>, py::is_operator())
      .def("__rfloordiv__", &reflected_op<floor_divide>, py::is_operator())
      .def("__mod__", &forward_op<remainder>, py::arg("other"),
           py::is_operator(), kRemainder)
      .def("__rmod__", &reflected_op<remainder>, py::is_operator())
      .def("__neg__", &negative)
      .def("__matmul__", &forward_op<product>, py::is_operator())
      .def("__rmatmul__", &reflected_op<product>, py::is_operator())
      .def("matmul", &forward_op<product>, py::arg("other"), docs::kMatMul)
      .def("to", &to, py::arg("dtype") = py::none(),
           py::arg("device") = py::none(), py::arg("non_blocking") = false,
           docs::kTo);
  def_numpy_reduction<over_axes, sum>(c, "sum", docs::kSum);
  def_numpy_reduction<over_axes, mean>(c, "mean", docs::kMean);
}

void bind_interchange(py::class_<Var>& c) {
  c.def(
       "numpy", [](const Var& self) { return to_numpy(self.data()); },
       docs::kNumpy)
      .def("__array__", &as_numpy_array, py::arg("dtype") = py::none(),
           py::arg("copy") = py::none())
      .def("__dlpack__", &lend_dlpack)
      .def("__dlpack_device__", &dlpack_device)
      .def_buffer(&buffer);
}

}  // namespace

int narrow(std::int64_t axis) {
  return static_cast<int>(std::clamp<std::int64_t>(axis, -1000, 1000));
}

std::optional<int> axis_of(const AxisArgument& axis, const AxisArgument& dim) {
  const AxisArgument& given = only_one(axis, dim);
  if (!given) return {};
  return narrow(given->value);
}

// Reduces one axis or all elements by `reduction`, and a list of axes, from the
// last to the first, by `several`.
template <typename Reduction, typename Several>
Var reduced(const Reduction& reduction, const Var& x, const AxesArgument& given,
            bool keepdims, const Several& several) {
  if (!given) return reduction(x, {}, keepdims);
  if (const auto* single = std::get_if<Whole<"axis">>(&*given)) {
    return reduction(x, narrow(single->value), keepdims);
  }
  return several(
      axes_from_last(std::get<std::vector<Whole<"axis">>>(*given), x.rank()));
}

Var over_axes(AxisReduction reduction, const Var& x, const AxesArgument& axis,
              const AxesArgument& dim, bool keepdims) {
  const auto one_by_one = [&](const std::vector<int>& axes) {
    if (axes.empty()) return copied(x);
    // Rounds once: between two axes, sums are kept in float32.
    const bool narrow_sums = x.dtype() == DType::bf16 && axes.size() > 1;
    Var y = narrow_sums ? cast(x, DType::f32) : x;
    for (const int a : axes) y = reduction(y, a, keepdims);
    return narrow_sums ? cast(y, DType::bf16) : y;
  };
  return reduced(reduction, x, only_one(axis, dim), keepdims, one_by_one);
}

Var over_joined(const JoinedReduction& reduction, const Var& x,
                const AxesArgument& axis, const AxesArgument& dim,
                bool keepdims) {
  const auto joined = [&](const std::vector<int>& axes) {
    std::vector<int> order;  // the others first
    Shape dropped, kept;
    std::int64_t size = 1;
    for (int a = 0; a < x.rank(); ++a) {
      const bool joins = std::find(axes.begin(), axes.end(), a) != axes.end();
      kept.append(joins ? 1 : x.dim(a));
      if (joins) {
        size *= x.dim(a);
        continue;
      }
      order.push_back(a);
      dropped.append(x.dim(a));
    }
    Shape matrix = dropped;
    matrix.append(size);
    order.insert(order.end(), axes.begin(), axes.end());
    return reshape(reduction(reshape(permute(x, order), matrix), -1, false),
                   keepdims ? kept : dropped);
  };
  return reduced(reduction, x, only_one(axis, dim), keepdims, joined);
}

void check_unused(const py::object& word, const char* name) {
  EA_CHECK_AS(
      ConfigError, word.is_none(), name,
      "results take the tensor's type and memory of their own; leave {}= "
      "out, and convert with .to() or .numpy()",
      name);
}

// Functions that make tensors, and the switch of recording.
static void bind_makers(py::module_& m) {
  m.def(
      "operand",
      [](const py::object& x) {
        return py::isinstance<Var>(x) ? x.cast<Var>()
                                      : Var(clone(var_of(x).data()));
      },
      py::arg("x"),
      "Reads an array, a list or a tensor as functions read their operands: a "
      "list of tensors that have gradients is refused. Arrays are copied.");
  m.def(
      "from_dlpack",
      [](const py::object& object) { return Var(from_dlpack(object)); },
      py::arg("object"), docs::kFromDlpack);
  m.def(
      "from_numpy",
      [](const ArrayArgument& given) {
        const py::array& array = given.value;
        Tensor t = from_python(array);
        EA_CHECK_AS(
            InputError, t.raw() == array.data() || t.numel() == 0, "from_numpy",
            "this {} array of shape {} cannot be shared: expected a "
            "C-contiguous, writable array of one of {}; Tensor(array) copies",
            py::str(array.dtype()).cast<std::string>(), t.shape(), kDTypeNames);
        return Var(std::move(t));
      },
      py::arg("array"),
      "Wraps an array without copying: both share the memory.");
  m.def("set_grad_enabled", &set_grad_enabled, py::arg("enabled"),
        "Switches recording for this thread; returns what it was.");
  m.def("is_grad_enabled", &grad_enabled);
}

void bind_tensor(py::module_& m) {
  py::class_<Var> c(m, "Tensor", py::buffer_protocol(), docs::kTensor);
  c.def(py::init(&make), py::arg("data"), py::arg("dtype") = py::none(),
        py::arg("requires_grad") = false, py::arg("device") = py::none())
      .def_property_readonly(
          "shape", [](const Var& self) { return shape_tuple(self.shape()); },
          docs::kShape)
      .def_property_readonly(
          "dtype",
          [](const Var& self) { return std::string(name_of(self.dtype())); },
          docs::kDtype)
      .def_property_readonly(
          "device", [](const Var& self) { return name_of(self.device()); },
          docs::kDevice)
      .def_property_readonly("ndim", &Var::rank, docs::kNdim)
      .def_property(
          "requires_grad", &Var::requires_grad,
          [](Var& self, const py::object& value) {
            EA_CHECK_AS(InputError, py::isinstance<py::bool_>(value),
                        "requires_grad", "expected True or False, got {}",
                        described(value));
            self.set_requires_grad(value.cast<bool>());
          },
          docs::kRequiresGrad)
      .def_property_readonly("is_leaf", &Var::is_leaf, docs::kIsLeaf)
      .def("detach", &Var::detach, docs::kDetach)
      .def("copy_", &copy_from, py::arg("source"), docs::kCopy)
      .def("__len__",
           [](const Var& self) {
             if (self.rank() == 0)
               throw py::type_error("len() of a 0-d tensor");
             return self.dim(0);
           })
      .def("__reduce_ex__",
           [](const py::object& self, int /*protocol*/) {
             return py::object(py::module_::import("evolving_attention.pickled")
                                   .attr("reduced")(self));
           })
      .def("__repr__", &repr);
  bind_gradients(c);
  bind_arithmetic(c);
  bind_interchange(c);
  bind_ufuncs(c);
  bind_indexing(c);
  bind_comparisons(c);
  bind_numbers(c);
  bind_selections(c);
  bind_shapes(c);
  bind_split(c);
  bind_pointwise_methods(c);
  bind_softmax(nullptr, &c);
  bind_log_sums(nullptr, &c);
  bind_statistics(c);
  bind_accumulate(c);
  bind_ordering(c);
  bind_conversions(c);
  bind_masks(c);
  bind_makers(m);
}

}  // namespace ea
