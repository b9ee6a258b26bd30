// Products of dense matrices in the accumulator's type, and copies between them
// and strided rows of any element type.
#pragma once

#include <Eigen/Core>
#include <cstdint>

namespace ea::ref {

template <typename A>
using Matrix =
    Eigen::Matrix<A, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Returns a b, for float and double. Defined in gemm.cpp, so that Eigen's
// products are compiled once. The bits of a row do not depend on other rows.
template <typename A>
Matrix<A> product(const Matrix<A>& a, const Matrix<A>& b);

template <typename A>
Matrix<A> turned(const Matrix<A>& a) {
  return a.transpose();
}

// Copies strided rows to a matrix. The copy costs little compared with the
// product, handles bfloat16, and fixes the alignment, so that the bits of the
// product depend on the values alone.
// M: a type with a (rows, cols) constructor and (i, j) access.
template <typename M, typename T>
M read_matrix(const T* data, std::int64_t row_stride, std::int64_t rows,
              std::int64_t cols) {
  using A = typename M::Scalar;
  M out(rows, cols);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      out(i, j) = A(data[i * row_stride + j]);
    }
  }
  return out;
}

template <typename M, typename T>
void write_matrix(const M& from, T* data, std::int64_t row_stride) {
  for (std::int64_t i = 0; i < from.rows(); ++i) {
    for (std::int64_t j = 0; j < from.cols(); ++j) {
      data[i * row_stride + j] = T(from(i, j));
    }
  }
}

}  // namespace ea::ref
