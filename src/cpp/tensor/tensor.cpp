// Tensor construction, views and element access.
#include "tensor/tensor.h"

#include <cstring>

#include "runtime/check.h"
#include "tensor/device_copies.h"

namespace ea {

Tensor::Tensor(StoragePtr storage, std::int64_t offset, Shape shape,
               Shape strides, DType dtype)
    : storage_(std::move(storage)),
      offset_(offset),
      shape_(shape),
      strides_(strides),
      dtype_(dtype) {}

bool Tensor::is_contiguous() const {
  std::int64_t step = 1;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    if (shape_[axis] != 1 && strides_[axis] != step) return numel() == 0;
    step *= shape_[axis];
  }
  return true;
}

void* Tensor::raw() const {
  EA_CHECK_AS(InputError, storage_ != nullptr, "tensor",
              "a tensor of shape {} has no memory yet; call allocate()",
              shape_);
  return static_cast<char*>(storage_->data()) +
         offset_ * static_cast<std::int64_t>(size_of(dtype_));
}

void Tensor::not_on_host() const {
  fail<DeviceError>("tensor",
                    "the values are on {}, where the host cannot read them; "
                    "use .to(\"cpu\")",
                    device());
}

double Tensor::item() const {
  EA_CHECK(numel() == 1, "item", "expected one element, got shape {}", shape_);
  if (!device().is_cpu()) return to_device(*this, kCpu).item();
  return visit_dtype(dtype_, "item", [&](auto tag) -> double {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bfloat16>) {
      return static_cast<float>(*data<T>());
    } else {
      return static_cast<double>(*data<T>());
    }
  });
}

Tensor::operator TensorView() const {
  // A declared parameter has a shape but no memory; it is not an omitted
  // tensor.
  if (!defined() && shape_ == Shape()) return {};
  return {raw(), shape_, strides_, dtype_, device()};
}

Tensor empty(const Shape& shape, DType dtype, Device device) {
  const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  return {std::make_shared<Storage>(bytes, device), 0, shape,
          contiguous_strides(shape), dtype};
}

Tensor empty_like(const Tensor& t) {
  return empty(t.shape(), t.dtype(), t.device());
}

Tensor zeros(const Shape& shape, DType dtype, Device device) {
  if (!device.is_cpu()) return full(shape, dtype, 0.0, device);
  Tensor t = empty(shape, dtype);
  std::memset(t.raw(), 0, static_cast<std::size_t>(t.numel()) * size_of(dtype));
  return t;
}

Tensor full(const Shape& shape, DType dtype, double value, Device device) {
  Tensor t = empty(shape, dtype, device);
  if (!device.is_cpu()) {
    device_copies().fill(t, value);
    return t;
  }
  visit_dtype(dtype, "full", [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = t.data<T>();
    T element;
    if constexpr (std::is_same_v<T, bfloat16>) {
      element = bfloat16(static_cast<float>(value));
    } else {
      element = static_cast<T>(value);
    }
    for (std::int64_t i = 0; i < t.numel(); ++i) out[i] = element;
  });
  return t;
}

Tensor from_values(std::span<const std::int64_t> values) {
  Tensor t = empty({static_cast<std::int64_t>(values.size())}, DType::i64);
  if (!values.empty()) std::memcpy(t.raw(), values.data(), values.size_bytes());
  return t;
}

Tensor reshape_view(const Tensor& t, const Shape& shape) {
  EA_CHECK(t.is_contiguous() && shape.numel() == t.numel(), "reshape",
           "shape {} cannot be viewed as {}", t.shape(), shape);
  return {t.storage(), t.offset(), shape, contiguous_strides(shape), t.dtype()};
}

Tensor transpose_view(const Tensor& t, int axis_a, int axis_b) {
  const int a = normalize_axis(axis_a, t.rank(), "transpose");
  const int b = normalize_axis(axis_b, t.rank(), "transpose");
  Shape shape = t.shape();
  Shape strides = t.strides();
  std::swap(shape[a], shape[b]);
  std::swap(strides[a], strides[b]);
  return {t.storage(), t.offset(), shape, strides, t.dtype()};
}

Tensor permute_view(const Tensor& t, const std::vector<int>& axes,
                    const char* op) {
  EA_CHECK(static_cast<int>(axes.size()) == t.rank(), op,
           "{} axes for a tensor of shape {}, expected {}", axes.size(),
           t.shape(), t.rank());
  Shape shape = t.shape(), strides = t.strides();
  std::vector<bool> seen(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int from = normalize_axis(axes[i], t.rank(), op);
    EA_CHECK(!seen[static_cast<std::size_t>(from)], op,
             "axis {} stands twice, expected each of the {} axes once", axes[i],
             t.rank());
    seen[static_cast<std::size_t>(from)] = true;
    shape[static_cast<int>(i)] = t.shape()[from];
    strides[static_cast<int>(i)] = t.strides()[from];
  }
  return {t.storage(), t.offset(), shape, strides, t.dtype()};
}

Tensor slice_view(const Tensor& t, int axis, std::int64_t begin,
                  std::int64_t end) {
  const int a = normalize_axis(axis, t.rank(), "slice");
  EA_CHECK(0 <= begin && begin <= end && end <= t.shape()[a], "slice",
           "range {}:{} does not fit axis {} of shape {}", begin, end, a,
           t.shape());
  Shape shape = t.shape();
  shape[a] = end - begin;
  return {t.storage(), t.offset() + begin * t.strides()[a], shape, t.strides(),
          t.dtype()};
}

Tensor expand_view(const Tensor& t, const Shape& shape) {
  EA_CHECK(broadcast_shapes(t.shape(), shape, "expand") == shape, "expand",
           "shape {} cannot be expanded to {}", t.shape(), shape);
  Shape strides = shape;
  const int lead = shape.rank() - t.rank();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool kept = axis >= lead && t.shape()[axis - lead] != 1;
    strides[axis] = kept ? t.strides()[axis - lead] : 0;
  }
  return {t.storage(), t.offset(), shape, strides, t.dtype()};
}

}  // namespace ea
