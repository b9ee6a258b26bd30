// Conversions between tensors and NumPy arrays.
#include "bindings/numpy.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

#include "autograd/grad_mode.h"
#include "bindings/arguments.h"
#include "bindings/within.h"
#include "ops/selection.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Keeps a Python object alive for a storage; the last tensor may be freed on a
// thread without the GIL, or after the interpreter ended.
std::function<void()> holder(py::object owner) {
  auto* raw = owner.release().ptr();
  return [raw] {
    if (Py_IsInitialized() == 0) return;
    const HeldGil gil;
    Py_DECREF(raw);
  };
}

std::optional<DType> shared_dtype(const py::dtype& dtype) {
  return find_dtype(py::str(dtype.attr("name")).cast<std::string>());
}

// Returns the name of our type nearest to another NumPy type.
const char* nearest(const py::dtype& dtype) {
  switch (dtype.kind()) {
    case 'i':
    case 'u':
      return "int64";
    case 'f':
      return "float32";
    default:
      return nullptr;
  }
}

Tensor share(const py::array& array, DType dtype) {
  Shape shape;
  for (py::ssize_t i = 0; i < array.ndim(); ++i) shape.append(array.shape(i));
  auto storage = std::make_shared<Storage>(
      const_cast<void*>(array.data()), static_cast<std::size_t>(array.nbytes()),
      holder(array));
  return {storage, 0, shape, contiguous_strides(shape), dtype};
}

// Whether the tensor of another library is on a device, where NumPy cannot read
// it.
bool lies_on_device(const py::handle& object) {
  if (py::isinstance<py::array>(object)) return false;
  if (!py::hasattr(object, "__dlpack_device__")) return false;
  const py::object device = object.attr("__dlpack_device__")();
  if (!py::isinstance<py::tuple>(device) || py::len(device) != 2) return false;
  const py::object type = device[py::int_(0)];
  return !type.equal(py::int_(1));  // DLPack's number of the CPU
}

py::array as_array(const py::handle& object, bool exact) {
  const py::module_ np = py::module_::import("numpy");
  const bool is_array = py::isinstance<py::array>(object);
  if (!is_array && py::hasattr(object, "__dlpack__")) {
    try {
      return to_numpy(from_dlpack(py::reinterpret_borrow<py::object>(object)));
    } catch (const DTypeError&) {
      // NumPy converts booleans, int16, float16 and other types.
      if (!py::hasattr(object, "__array__")) throw;
    }
  }
  py::array array;
  try {
    array = np.attr("asarray")(object);
  } catch (const py::error_already_set& e) {
    if (!e.matches(PyExc_ValueError)) throw;
    // NumPy's own message is about inhomogeneous shapes.
    fail<ShapeError>("tensor",
                     "the nested list is not rectangular: its rows differ in "
                     "length; pad them to one length (got {})",
                     described(object));
  }
  if (!exact && !is_array && array.dtype().kind() == 'f' &&
      !py::hasattr(object, "__array__")) {
    // A list of Python floats has no element type.
    array = array.attr("astype")("float32");
  }
  return array;
}

// A list of tensors is read as an array, which has no gradient.
void check_no_gradient_within(const py::handle& object) {
  EA_CHECK_AS(InputError,
              !grad_enabled() || py::isinstance<Var>(object) ||
                  !any_within(object, has_gradient),
              "tensor",
              "a list of tensors as an operand would lose their gradients; "
              "expected one tensor: join them by ea.functional.stack, or pass "
              ".detach() of each");
}

}  // namespace

py::dtype numpy_dtype(DType dtype) {
  if (dtype == DType::bf16) {
    const py::module_ ml = py::module_::import("ml_dtypes");
    return py::dtype::from_args(ml.attr("bfloat16"));
  }
  return py::dtype(std::string(name_of(dtype)));
}

DType dtype_of_python(const py::handle& dtype) {
  if (py::isinstance<py::str>(dtype)) {
    return parse_dtype(dtype.cast<std::string>());
  }
  py::dtype converted;
  try {
    converted = py::dtype::from_args(py::reinterpret_borrow<py::object>(dtype));
  } catch (const py::error_already_set&) {
    fail<DTypeError>("dtype", "expected a name such as 'float32', got {}",
                     described(dtype));
  }
  return parse_dtype(py::str(converted.attr("name")).cast<std::string>());
}

py::array to_numpy(const Tensor& t) {
  EA_CHECK_AS(DeviceError, t.device().is_cpu(), "tensor",
              "the values are on {}, where NumPy cannot read them; use "
              ".to('cpu')",
              t.device());
  std::vector<py::ssize_t> shape;
  std::vector<py::ssize_t> strides;
  const auto size = static_cast<py::ssize_t>(size_of(t.dtype()));
  for (int axis = 0; axis < t.rank(); ++axis) {
    shape.push_back(t.shape()[axis]);
    strides.push_back(t.strides()[axis] * size);
  }
  auto* loan = new Loan(t.storage());
  const py::capsule owner(loan, [](void* p) { delete static_cast<Loan*>(p); });
  return py::array(numpy_dtype(t.dtype()), shape, strides, t.raw(), owner);
}

Tensor from_python(const py::handle& object, bool exact) {
  if (py::isinstance<Var>(object)) return object.cast<Var>().data();
  if (lies_on_device(object)) {
    return from_dlpack(py::reinterpret_borrow<py::object>(object));
  }
  py::array array = as_array(object, exact);
  std::optional<DType> dtype = shared_dtype(array.dtype());
  if (!dtype) {
    const char* target = nearest(array.dtype());
    EA_CHECK_AS(DTypeError, target != nullptr, "tensor",
                "expected numbers (an array, a list, a tensor or an object "
                "with __dlpack__), got {}",
                described(object));
    if (array.dtype().kind() == 'u' && array.itemsize() == 8 &&
        array.size() > 0) {
      const auto most = array.attr("max")().cast<std::uint64_t>();
      EA_CHECK_AS(DTypeError, most <= INT64_MAX, "tensor",
                  "{} does not fit into int64, the type of whole numbers; "
                  "expected at most {}",
                  most, INT64_MAX);
    }
    array = array.attr("astype")(target);
    dtype = shared_dtype(array.dtype());
  }
  const bool usable = (array.flags() & py::array::c_style) != 0 &&
                      array.writeable() &&
                      array.attr("flags").attr("aligned").cast<bool>() &&
                      array.attr("dtype").attr("isnative").cast<bool>();
  if (!usable) {
    array = py::module_::import("numpy").attr("array")(
        array, py::arg("dtype") = numpy_dtype(*dtype), py::arg("order") = "C");
  }
  return share(array, *dtype);
}

void check_fits(const py::handle& object, const Tensor& values, DType dtype) {
  const bool typed = py::isinstance<Var>(object) ||
                     py::hasattr(object, "__array__") ||
                     py::hasattr(object, "__dlpack__") ||
                     PyObject_CheckBuffer(object.ptr()) != 0;
  if (typed || values.dtype() == dtype) return;
  if (is_floating(dtype) || dtype == DType::boolean) return;
  const auto [least, most] = range_of(dtype);
  const Tensor wide = cast(to_device(values, kCpu), DType::f64);
  for (std::int64_t i = 0; i < wide.numel(); ++i) {
    const double value = std::trunc(wide.data<double>()[i]);
    EA_CHECK_AS(DTypeError, value >= least && value <= most, "tensor",
                "{} does not fit into {}; use another dtype", value, dtype);
  }
}

Tensor from_python(const py::handle& object, DType dtype) {
  const Tensor exact = from_python(object, /*exact=*/true);
  check_fits(object, exact, dtype);
  return cast(exact, dtype);
}

void check_no_gradient(const py::handle& number) {
  EA_CHECK_AS(InputError, !has_gradient(number) || !grad_enabled(), "tensor",
              "this tensor takes the place of a number and would lose its "
              "gradient; multiply or add it (x * t), or pass float(t)");
}

Var var_of(const py::handle& object) {
  if (py::isinstance<Var>(object)) return object.cast<Var>();
  check_no_gradient_within(object);
  return Var(from_python(object));
}

// Compares the values of two tensors of one shape and dtype.
static bool same_bytes(const Tensor& a, const Tensor& b) {
  const std::size_t bytes =
      static_cast<std::size_t>(a.numel()) * size_of(a.dtype());
  return bytes == 0 || std::memcmp(a.raw(), b.raw(), bytes) == 0;
}

// Whether all numbers are whole and numbers of int64.
static bool all_whole(const Tensor& x) {
  const Tensor wide = cast(to_device(x, kCpu), DType::f64);
  const auto* values = wide.data<double>();
  return std::all_of(values, values + wide.numel(), [](double value) {
    return value == std::rint(value) && std::abs(value) < 0x1p63;
  });
}

Var operand_of(const py::handle& object, const Var& beside) {
  if (py::isinstance<Var>(object)) return object.cast<Var>();
  check_no_gradient_within(object);
  Tensor exact = from_python(object, /*exact=*/true);
  if (!is_floating(beside.dtype()) && is_floating(exact.dtype())) {
    EA_CHECK_AS(DTypeError, all_whole(exact), "tensor",
                "{} beside a tensor of {} would lose its value; use "
                ".to('float32')",
                described(object), beside.dtype());
    exact = cast(exact, DType::i64);
  }
  const Tensor values = cast(exact, beside.dtype());
  if (!is_floating(exact.dtype()) && !is_floating(beside.dtype())) {
    const Tensor back = cast(values, exact.dtype());
    EA_CHECK_AS(DTypeError, same_bytes(exact, back), "tensor",
                "{} beside a tensor of {} would lose its value; use "
                ".to('int64')",
                described(object), beside.dtype());
  }
  const ReleasedGil release;
  return Var(to_device(values, beside.device()));
}

Tensor optional_integers(const py::handle& object, const char* name,
                         bool masks) {
  if (object.is_none()) return {};
  Tensor t;
  try {
    t = from_python(object);
  } catch (const ShapeError&) {
    fail<ShapeError>("forward",
                     "{} is not a rectangular array of integers: its rows "
                     "differ in length (got {}); pad them to one length, or "
                     "pass packed ids with sequence_offsets",
                     name, described(object));
  } catch (const DTypeError&) {
    fail<DTypeError>("forward", "{} must be integers, got {}", name,
                     described(object));
  }
  t = to_device(t, kCpu);
  const bool is_mask = t.dtype() == DType::boolean;
  if (t.numel() == 0) t = cast(t, DType::i64);  // [] has no type
  EA_CHECK_AS(DTypeError, !is_floating(t.dtype()), "forward",
              "{} must be integers, got {}", name, t.dtype());
  EA_CHECK_AS(DTypeError, masks || !is_mask, "forward",
              "{} must be integers, got bool; x[mask] selects rows", name);
  return cast(t, DType::i64);
}

}  // namespace ea
