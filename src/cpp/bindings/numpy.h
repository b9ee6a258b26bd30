// Exchange with NumPy and DLPack without copying where types and layout allow.
#pragma once

#include <pybind11/numpy.h>

#include <string>
#include <utility>

#include "autograd/var.h"
#include "bindings/bind.h"

namespace ea {

// A NumPy array on the tensor's own memory; bfloat16 by ml_dtypes. Throws
// DeviceError unless that is the CPU's.
py::array to_numpy(const Tensor& t);

// Any array-like, tensor or DLPack object. Shares memory with C-contiguous,
// writable arrays of our types, copies otherwise. Booleans become uint8, other
// integers int64, float16 and lists of floats float32. Throws DTypeError.
Tensor from_python(const py::handle& object);
// The same, cast to a dtype.
Tensor from_python(const py::handle& object, DType dtype);
// Token ids, labels: None gives an undefined tensor; integers of any width and
// on any device become int64 on the CPU.
Tensor optional_integers(const py::handle& object, const char* name);

// (type, number) as DLPack has them, and __dlpack__ with its options.
std::pair<int, int> dlpack_device(const Var& self);
py::capsule lend_dlpack(const Var& self, const py::kwargs& options);
Tensor from_dlpack(const py::object& object);

// The other operand of an operator: a tensor, or a number or array in this
// tensor's dtype and on its device.
Var operand_of(const py::handle& object, const Var& beside);

DType dtype_of_python(const py::handle& dtype);  // "float32", np.float32, ...
py::dtype numpy_dtype(DType dtype);

}  // namespace ea
