// Reference for gathering rows by index and its backward, the scatter-add.
#include <cstring>
#include <vector>

#include "kernels/gather.h"
#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

// y_i = x_{index[i]} is linear with one 1 per row, so its transpose adds row i
// of dy to row index[i] of dx.
template <typename T>
void scatter_of(const ScatterAddRows::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t width = args.dx.dim(1);
  const std::int64_t* index = args.index.as<std::int64_t>();
  const T* dy = args.dy.as<T>();
  std::vector<A> total(static_cast<std::size_t>(args.dx.numel()));
  for (std::int64_t i = 0; i < args.index.numel(); ++i) {
    if (index[i] < 0 || index[i] == args.skip) continue;
    A* row = total.data() + index[i] * width;
    for (std::int64_t j = 0; j < width; ++j) row[j] += A(dy[i * width + j]);
  }
  T* dx = args.dx.as<T>();
  for (std::int64_t i = 0; i < args.dx.numel(); ++i) dx[i] = T(total[i]);
}

}  // namespace

template <>
void run<GatherRows>(const GatherRows::Args& args) {
  const auto row_bytes =
      static_cast<std::size_t>(args.y.dim(1)) * size_of(args.y.dtype);
  const std::int64_t* index = args.index.as<std::int64_t>();
  const char* x = args.x.as<char>();
  char* y = args.y.as<char>();
  for (std::int64_t i = 0; i < args.index.numel(); ++i) {
    char* row = y + static_cast<std::size_t>(i) * row_bytes;
    if (index[i] < 0) {
      std::memset(row, 0, row_bytes);
    } else {
      std::memcpy(row, x + static_cast<std::size_t>(index[i]) * row_bytes,
                  row_bytes);
    }
  }
}

EA_RUN_REF(ScatterAddRows, scatter_of, dx)

}  // namespace ea::ref
