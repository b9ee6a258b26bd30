// Shape arithmetic.
#include "tensor/shape.h"

#include <algorithm>
#include <ostream>

#include "runtime/check.h"

namespace ea {

namespace {

// Keeps the number of bytes of any dtype within int64.
constexpr std::int64_t kMostElements = std::int64_t{1} << 59;

}  // namespace

Shape::Shape(std::span<const std::int64_t> dims) {
  EA_CHECK(dims.size() <= kMaxRank, "shape", "at most {} axes, got {}",
           kMaxRank, dims.size());
  for (const std::int64_t dim : dims) append(dim);
}

std::int64_t Shape::at(int axis) const {
  return dims_[normalize_axis(axis, rank_, "shape")];
}

std::int64_t Shape::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t dim : *this) {
    EA_CHECK(!__builtin_mul_overflow(n, dim, &n) && n <= kMostElements, "shape",
             "{} has more elements than memory has addresses", *this);
  }
  return n;
}

void Shape::append(std::int64_t dim) {
  EA_CHECK(rank_ < kMaxRank, "shape", "at most {} axes", kMaxRank);
  EA_CHECK(dim >= 0, "shape", "negative size {}", dim);
  dims_[rank_++] = dim;
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '(';
  for (int axis = 0; axis < shape.rank(); ++axis) {
    out << (axis > 0 ? ", " : "") << shape[axis];
  }
  return out << (shape.rank() == 1 ? ",)" : ")");
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  std::int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

int normalize_axis(int axis, int rank, const char* op) {
  EA_CHECK(axis >= -rank && axis < rank, op,
           "axis {} is out of range for {} axes", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op) {
  const int rank = std::max(a.rank(), b.rank());
  Shape out;
  for (int axis = 0; axis < rank; ++axis) {
    const int ia = axis - (rank - a.rank());
    const int ib = axis - (rank - b.rank());
    const std::int64_t da = ia < 0 ? 1 : a[ia];
    const std::int64_t db = ib < 0 ? 1 : b[ib];
    EA_CHECK(da == db || da == 1 || db == 1, op,
             "shapes {} and {} cannot be broadcast together", a, b);
    out.append(da == 1 ? db : da);
  }
  return out;
}

}  // namespace ea
