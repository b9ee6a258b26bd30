// Dimensions of a tensor: up to eight, stored in place; axis and broadcast
// rules.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>

namespace ea {

class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims)
      : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims);  // throws ShapeError

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return dims_[axis]; }
  std::int64_t& operator[](int axis) { return dims_[axis]; }
  // Size along an axis; negative axes count from the end.
  std::int64_t at(int axis) const;
  std::int64_t numel() const;
  void append(std::int64_t dim);
  const std::int64_t* begin() const { return dims_.data(); }
  const std::int64_t* end() const { return dims_.data() + rank_; }
  bool operator==(const Shape& other) const;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape);

Shape contiguous_strides(const Shape& shape);
// Maps -rank..rank-1 to 0..rank-1; throws ShapeError naming `op` otherwise.
int normalize_axis(int axis, int rank, const char* op);
// Applies NumPy's rule; throws ShapeError naming `op` if the shapes do not fit.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op);

}  // namespace ea
