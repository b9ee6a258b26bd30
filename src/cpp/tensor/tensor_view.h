// Non-owning pointer, shape, strides, type and device: the only form in which a
// kernel sees a tensor.
#pragma once

#include <cstdint>

#include "runtime/device.h"
#include "runtime/dtype.h"
#include "tensor/shape.h"

namespace ea {

struct TensorView {
  void* data = nullptr;
  Shape shape;
  Shape strides;  // in elements
  DType dtype = DType::f32;
  Device device = {};  // selects the list of kernels

  // Returns false for a default-constructed view: an omitted argument.
  bool defined() const { return data != nullptr; }
  std::int64_t dim(int axis) const { return shape.at(axis); }
  std::int64_t numel() const { return shape.numel(); }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// Access of a kernel to an argument; a plain TensorView is only read.
struct Output : TensorView {};  // written, not read
struct InOut : TensorView {};   // read and written
// One float64 number among tensors of another type; read.
struct Number : TensorView {};

}  // namespace ea
