// Products of wide dense matrices, and copies between them and strided rows of
// any element type.
#pragma once

#include <Eigen/Core>
#include <cstdint>

namespace ea::ref {

template <typename A>
using Matrix =
    Eigen::Matrix<A, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// a b, for float and double. Defined in gemm.cpp, so that Eigen's products are
// compiled once. Each row has the same bits whatever rows are beside it.
template <typename A>
Matrix<A> product(const Matrix<A>& a, const Matrix<A>& b);

template <typename A>
Matrix<A> turned(const Matrix<A>& a) {
  return a.transpose();
}

// Copying first costs little beside the product, serves bfloat16, and gives
// the product one alignment: its bits then depend on the values alone.
// M: a type with (rows, cols) constructor and (i, j) access.
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
