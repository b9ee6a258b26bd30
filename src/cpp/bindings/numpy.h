// Exchange with NumPy and DLPack, without a copy where types and layout allow.
#pragma once

#include <pybind11/numpy.h>

#include <string>
#include <utility>

#include "autograd/var.h"
#include "bindings/bind.h"

namespace ea {

// Returns a NumPy array that shares the memory of the tensor; bfloat16 uses
// ml_dtypes. Throws DeviceError unless the memory is the CPU's.
py::array to_numpy(const Tensor& t);

// Converts any array-like, tensor or DLPack object. Shares memory with
// C-contiguous, writable arrays of our types, else copies. Other integers
// become int64, float16 and lists of floats float32; `exact` leaves lists of
// floats float64. Throws DTypeError.
Tensor from_python(const py::handle& object, bool exact = false);
// from_python() with a cast to a dtype; each number is rounded once. Throws
// DTypeError as check_fits() does.
Tensor from_python(const py::handle& object, DType dtype);
// Throws DTypeError if a number of a list, read as `values`, is NaN or beyond
// the integer type `dtype`. Fractions are cut off, as in NumPy; arrays and
// tensors have a type of their own, which the caller may mean to change.
void check_fits(const py::handle& object, const Tensor& values, DType dtype);
// Converts token ids or labels: None gives an undefined tensor; integers of any
// width and on any device become int64 on the CPU. Without `masks` refuses
// bool, which would be read as 0 and 1.
Tensor optional_integers(const py::handle& object, const char* name,
                         bool masks = true);

// DLPack's (device type, index), and __dlpack__ with its options.
std::pair<int, int> dlpack_device(const Var& self);
py::capsule lend_dlpack(const Var& self, const py::kwargs& options);
Tensor from_dlpack(const py::object& object);

// Reads the other operand of an operator: a tensor, or a number or array in the
// dtype and on the device of `beside`.
Var operand_of(const py::handle& object, const Var& beside);

DType dtype_of_python(const py::handle& dtype);  // "float32", np.float32, ...
py::dtype numpy_dtype(DType dtype);

}  // namespace ea
