// Copies between layouts, element types and devices, by whole rows where both
// sides are contiguous.
#include <cstring>
#include <utility>

#include "runtime/check.h"
#include "runtime/device_backend.h"
#include "runtime/threads.h"
#include "tensor/device_copies.h"
#include "tensor/tensor.h"

namespace ea {

namespace {

constexpr std::int64_t kGrain = 1 << 16;  // elements per job

// Iterates over the element offsets of rows (all axes but the last) in
// row-major order, starting at row `row`.
class RowOffsets {
 public:
  RowOffsets(const Shape& shape, const Shape& strides, std::int64_t row)
      : shape_(shape), strides_(strides) {
    for (int axis = shape.rank() - 2; axis >= 0; --axis) {
      index_[axis] = row % shape[axis];
      offset_ += index_[axis] * strides[axis];
      row /= shape[axis];
    }
  }
  std::int64_t next() {
    const std::int64_t offset = offset_;
    for (int axis = shape_.rank() - 2; axis >= 0; --axis) {
      offset_ += strides_[axis];
      if (++index_[axis] < shape_[axis]) break;
      offset_ -= strides_[axis] * shape_[axis];
      index_[axis] = 0;
    }
    return offset;
  }

 private:
  const Shape &shape_, &strides_;
  std::int64_t index_[Shape::kMaxRank] = {};
  std::int64_t offset_ = 0;
};

// Swaps the last two axes if rows are short and not contiguous, as in images
// that become channels last, so that the inner loop runs over the longer axis.
void turn_short_rows(Shape& shape, Shape& from, Shape& to) {
  constexpr std::int64_t kShort = 16;
  const int last = shape.rank() - 1;
  if (last < 1 || shape[last] >= kShort || shape[last - 1] <= shape[last] ||
      (from[last] == 1 && to[last] == 1)) {
    return;
  }
  for (Shape* one : {&shape, &from, &to}) {
    std::swap((*one)[last], (*one)[last - 1]);
  }
}

template <typename T>
void copy_rows(const Tensor& from, const Tensor& to) {
  Shape shape = from.shape(), from_strides = from.strides();
  Shape to_strides = to.strides();
  turn_short_rows(shape, from_strides, to_strides);
  const int last = shape.rank() - 1;
  const std::int64_t width = last < 0 ? 1 : shape[last];
  const std::int64_t step_from = last < 0 ? 1 : from_strides[last];
  const std::int64_t step_to = last < 0 ? 1 : to_strides[last];
  if (from.numel() == 0) return;
  const std::int64_t rows = from.numel() / width;
  const T* source = from.data<T>();
  T* target = to.data<T>();
  const std::int64_t grain = kGrain / width + 1;
  parallel_chunks(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    RowOffsets sources(shape, from_strides, begin);
    RowOffsets targets(shape, to_strides, begin);
    for (std::int64_t row = begin; row < end; ++row) {
      const T* s = source + sources.next();
      T* t = target + targets.next();
      if (step_from == 1 && step_to == 1) {
        std::memcpy(t, s, static_cast<std::size_t>(width) * sizeof(T));
      } else {
        for (std::int64_t i = 0; i < width; ++i) {
          t[i * step_to] = s[i * step_from];
        }
      }
    }
  });
}

// Copies bytes if both sides are contiguous. Otherwise the device of the
// strided side packs or unpacks, and the other side gets a contiguous copy.
void copy_on_devices(const Tensor& from, const Tensor& to) {
  if (from.numel() == 0) return;
  if (from.is_contiguous() && to.is_contiguous()) {
    copy_bytes(to.device(), to.raw(), from.device(), from.raw(),
               static_cast<std::size_t>(from.numel()) * size_of(from.dtype()));
  } else if (from.device() == to.device()) {
    device_copies().copy(from, to);
  } else {
    const Tensor there = to_device(contiguous(from), to.device());
    copy_into(there, to);
  }
}

}  // namespace

void copy_into(const Tensor& from, const Tensor& to) {
  EA_CHECK(from.shape() == to.shape(), "copy",
           "cannot copy shape {} into shape {}; expected equal shapes",
           from.shape(), to.shape());
  EA_CHECK_AS(DTypeError, from.dtype() == to.dtype(), "copy",
              "cannot copy {} into {}; use .to(dtype)", from.dtype(),
              to.dtype());
  if (from.device().is_cpu() && to.device().is_cpu()) {
    visit_dtype(from.dtype(), "copy", [&](auto tag) {
      copy_rows<typename decltype(tag)::type>(from, to);
    });
  } else {
    copy_on_devices(from, to);
  }
  to.storage()->note_write();
}

Tensor clone(const Tensor& t) {
  Tensor out = empty_like(t);
  copy_into(t, out);
  return out;
}

Tensor contiguous(const Tensor& t) { return t.is_contiguous() ? t : clone(t); }

Tensor cast(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  const Tensor source = contiguous(t);
  Tensor out = empty(t.shape(), dtype, t.device());
  if (!t.device().is_cpu()) {
    device_copies().cast(source, out);
    return out;
  }
  visit_dtype(source.dtype(), "cast", [&](auto from_tag) {
    using From = typename decltype(from_tag)::type;
    visit_dtype(dtype, "cast", [&](auto to_tag) {
      using To = typename decltype(to_tag)::type;
      const From* s = source.data<From>();
      To* o = out.data<To>();
      parallel_chunks(out.numel(), kGrain,
                      [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t i = begin; i < end; ++i) {
                          o[i] = convert<To>(s[i]);
                        }
                      });
    });
  });
  return out;
}

Tensor to_device(const Tensor& t, Device device) {
  if (t.device() == device) return t;
  Tensor out = empty(t.shape(), t.dtype(), device);
  copy_into(contiguous(t), out);
  return out;
}

}  // namespace ea
