// A typed, strided view of a storage, without mathematics.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/dtype.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/tensor_view.h"

namespace ea {

class Tensor {
 public:
  Tensor() = default;  // undefined: means "none"
  Tensor(StoragePtr storage, std::int64_t offset, Shape shape, Shape strides,
         DType dtype);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }
  std::int64_t dim(int axis) const { return shape_.at(axis); }
  int rank() const { return shape_.rank(); }
  std::int64_t numel() const { return shape_.numel(); }
  DType dtype() const { return dtype_; }
  const StoragePtr& storage() const { return storage_; }
  std::int64_t offset() const { return offset_; }  // in elements
  Device device() const { return storage_ ? storage_->device() : kCpu; }
  bool is_contiguous() const;

  // Pointer to the first element, in the memory of device(), which the host may
  // not be able to read.
  void* raw() const;
  // raw() for the host. Throws DeviceError unless the tensor is on the CPU.
  template <typename T>
  T* data() const {
    check_on_host();
    return static_cast<T*>(raw());
  }
  // Reads the only element of a one-element tensor as a double, on any device;
  // synchronises with the device.
  double item() const;

  // Implicit on purpose: kernels take views, callers hold tensors.
  operator TensorView() const;  // NOLINT(google-explicit-constructor)
  operator Output() const { return {TensorView(*this)}; }  // NOLINT
  operator InOut() const { return {TensorView(*this)}; }   // NOLINT
  operator Number() const { return {TensorView(*this)}; }  // NOLINT

 private:
  void check_on_host() const {
    if (!device().is_cpu()) not_on_host();
  }
  [[noreturn]] void not_on_host() const;

  StoragePtr storage_;
  std::int64_t offset_ = 0;
  Shape shape_;
  Shape strides_;
  DType dtype_ = DType::f32;
};

// Construction. `empty` is uninitialised.
Tensor empty(const Shape& shape, DType dtype, Device device = kCpu);
Tensor empty_like(const Tensor& t);  // contiguous; shape, dtype, device of t
Tensor zeros(const Shape& shape, DType dtype, Device device = kCpu);
Tensor full(const Shape& shape, DType dtype, double value,
            Device device = kCpu);
Tensor from_values(std::span<const std::int64_t> values);  // i64, 1-D, CPU

// Views: metadata only, never a copy.
Tensor reshape_view(const Tensor& t, const Shape& shape);  // contiguous only
Tensor transpose_view(const Tensor& t, int axis_a, int axis_b);
// Axis i of the view is axis axes[i] of t; `axes` names each once.
Tensor permute_view(const Tensor& t, const std::vector<int>& axes,
                    const char* op = "permute");
Tensor slice_view(const Tensor& t, int axis, std::int64_t begin,
                  std::int64_t end);
Tensor expand_view(const Tensor& t, const Shape& shape);

// Copies.
Tensor contiguous(const Tensor& t);  // t itself if it already is
Tensor clone(const Tensor& t);       // always new memory, contiguous
void copy_into(const Tensor& from, const Tensor& to);  // same shape and dtype,
                                                       // any two devices
Tensor cast(const Tensor& t, DType dtype);             // t itself if equal
Tensor to_device(const Tensor& t, Device device);      // t itself if there

}  // namespace ea
