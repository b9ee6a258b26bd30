// Reference matrix product, by Eigen in the accumulator's type.
#include <Eigen/Core>

#include "kernels/gemm.h"
#include "kernels/ref/matrix.h"
#include "kernels/ref/run.h"

namespace ea::ref {

// Eigen changes the summation order where the number of rows is not a multiple
// of four, is one, or is small. With rows padded with zeros, and the method
// chosen by depth and columns alone, each row is summed in one order.
template <typename A>
Matrix<A> product(const Matrix<A>& a, const Matrix<A>& b) {
  constexpr std::int64_t kRowStep = 4;
  constexpr std::int64_t kSmall = 16;  // Eigen's limit of 20, minus kRowStep
  Matrix<A> rows = Matrix<A>::Zero(
      (a.rows() + kRowStep - 1) / kRowStep * kRowStep, a.cols());
  rows.topRows(a.rows()) = a;
  Matrix<A> y(rows.rows(), b.cols());
  if (a.cols() + b.cols() < kSmall) {
    y.noalias() = rows.lazyProduct(b);
  } else {
    y.noalias() = rows * b;
  }
  y.conservativeResize(a.rows(), Eigen::NoChange);
  return y;
}
template Matrix<float> product(const Matrix<float>&, const Matrix<float>&);
template Matrix<double> product(const Matrix<double>&, const Matrix<double>&);

namespace {

// Reads matrix number `batch` of a [rows, cols] or [batch, rows, cols] view.
template <typename T>
Matrix<Accumulator<T>> read(const TensorView& t, std::int64_t batch) {
  const int row_axis = t.shape.rank() - 2;
  const std::int64_t start = row_axis == 0 ? 0 : batch * t.strides[0];
  return read_matrix<Matrix<Accumulator<T>>>(
      t.as<T>() + start, t.strides[row_axis], t.shape[row_axis],
      t.shape[row_axis + 1]);
}

template <typename T>
void matmul_of(const MatMul::Args& args) {
  using A = Accumulator<T>;
  const int rank = args.y.shape.rank();
  const std::int64_t batches = rank == 2 ? 1 : args.y.shape[0];
  const std::int64_t m = args.y.shape[rank - 2];
  const std::int64_t n = args.y.shape[rank - 1];
  const A alpha = A(args.alpha);
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    Matrix<A> a = read<T>(args.a, batch);
    Matrix<A> b = read<T>(args.b, batch);
    if (args.transpose_a) a = turned(a);
    if (args.transpose_b) b = turned(b);
    Matrix<A> y = product(a, b);
    y *= alpha;
    if (args.bias.defined()) {
      const T* bias = args.bias.as<T>();
      for (std::int64_t j = 0; j < n; ++j) y.col(j).array() += A(bias[j]);
    }
    write_matrix(y, args.y.as<T>() + batch * m * n, n);
  }
}

}  // namespace

EA_RUN_REF(MatMul, matmul_of, y)

}  // namespace ea::ref
