// NumPy's ufuncs and functions on tensors: operators keep the gradient; other
// functions must not lose it.
#include <string>
#include <string_view>

#include "autograd/grad_mode.h"
#include "bindings/numpy.h"
#include "bindings/tensor.h"
#include "bindings/within.h"
#include "ops/arithmetic.h"
#include "ops/gemm.h"
#include "runtime/check.h"

namespace ea {

namespace {

using BinaryFn = Var (*)(const Var&, const Var&);

// Returns the operator for a ufunc: `array + tensor` calls np.add.
BinaryFn operator_of(std::string_view ufunc) {
  if (ufunc == "add") return &add;
  if (ufunc == "subtract") return &sub;
  if (ufunc == "multiply") return &mul;
  if (ufunc == "divide" || ufunc == "true_divide") return &div;
  if (ufunc == "floor_divide") return &floor_divide;
  if (ufunc == "remainder") return &remainder;
  if (ufunc == "matmul") {
    return [](const Var& a, const Var& b) { return matmul(a, b); };
  }
  return nullptr;
}

// Whether the ufunc only returns booleans (comparisons, isfinite, ...), where
// no gradient can be lost.
bool gives_booleans(const py::object& ufunc) {
  for (const py::handle type : ufunc.attr("types")) {
    const auto signature = type.cast<std::string>();  // "dd->?"
    if (signature.find('O') != std::string::npos) continue;
    if (signature.back() != '?') return false;
  }
  return true;
}

void check_kept(bool kept, const std::string& name) {
  EA_CHECK_AS(
      InputError, kept, "tensor",
      "np.{} would lose the gradient of a tensor; expected one without: "
      "use ea.functional or the tensor's own operators and methods, or "
      "pass .detach() or .numpy(); for a += t write a = a + t",
      name);
}

// NumPy calls this for every ufunc with a tensor among its arguments.
py::object array_ufunc(const Var& self, const py::object& ufunc,
                       const std::string& method, const py::args& inputs,
                       const py::kwargs& options) {
  const auto name = ufunc.attr("__name__").cast<std::string>();
  const BinaryFn fn = operator_of(name);
  if (fn != nullptr && method == "__call__" && options.empty() &&
      is_floating(self.dtype())) {
    const Var a = operand_of(inputs[0], self);
    const Var b = operand_of(inputs[1], self);
    Var result;
    {
      const ReleasedGil release;
      result = fn(a, b);
    }
    return py::cast(result);
  }
  if (name == "power" && method == "__call__" && options.empty() &&
      is_floating(self.dtype())) {
    const bool left = py::isinstance<Var>(inputs[0]);
    return inputs[left ? 0 : 1].attr(left ? "__pow__"
                                          : "__rpow__")(inputs[left ? 1 : 0]);
  }
  const bool loses = grad_enabled() && !gives_booleans(ufunc);
  py::tuple arrays(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    arrays[i] = inputs[i];
    if (!py::isinstance<Var>(inputs[i])) continue;
    const Var t = inputs[i].cast<Var>();
    check_kept(!loses || !t.requires_grad(), name);
    arrays[i] = to_numpy(t.data());
  }
  if (options.contains("out")) {
    for (const py::handle out : options["out"]) {
      EA_CHECK_AS(InputError, !py::isinstance<Var>(out), "tensor",
                  "out of np.{} is a tensor, expected an array; use .copy_()",
                  name);
    }
  }
  return ufunc.attr(method.c_str())(*arrays, **options);
}

bool is_real(const py::handle& object) {
  if (!py::hasattr(object, "dtype") || py::isinstance<Var>(object))
    return false;
  return object.attr("dtype").attr("kind").cast<std::string>() == "f";
}

// NumPy calls this for its other functions. Functions that call a method of the
// same name return tensors. Any other result from a tensor with a gradient must
// not contain real numbers: equality, positions and text are allowed.
py::object array_function(const Var& /*self*/, const py::object& function,
                          const py::object& /*types*/, const AnyTuple& inputs,
                          const AnyDict& options) {
  const auto name = function.attr("__name__").cast<std::string>();
  py::object result;
  try {
    result = function.attr("__wrapped__")(*inputs, **options);
  } catch (const py::error_already_set& e) {
    const auto text = py::str(e.value()).cast<std::string>();
    const bool of_method = text.find("] cannot be called") != text.npos;
    if (!of_method || options.empty()) throw;
    fail<ConfigError>("tensor",
                      "np.{} of a tensor does not take all of the options {}; "
                      "leave them out, use the tensor's own methods, or pass "
                      ".numpy()",
                      name, py::str(py::list(options)).cast<std::string>());
  }
  if (!grad_enabled() || !any_within(result, is_real)) return result;
  const bool fresh = name.size() > 5 && name.substr(name.size() - 5) == "_like";
  check_kept(fresh || (!any_within(inputs, has_gradient) &&
                       !any_within(options, has_gradient)),
             name);
  return result;
}

}  // namespace

void bind_ufuncs(py::class_<Var>& tensor) {
  tensor
      .def("__array_ufunc__", &array_ufunc, py::arg("ufunc"), py::arg("method"),
           "Called by NumPy's functions and by arrays on the left of an "
           "operator: + - * / // % @ ** return a tensor and keep the gradient.")
      .def("__array_function__", &array_function, py::arg("func"),
           py::arg("types"), py::arg("args"), py::arg("kwargs"),
           "Called by NumPy's functions; raises InputError where the gradient "
           "of "
           "a tensor would be lost.");
}

}  // namespace ea
