// Reference for sums, in blocks of fixed length that are added in order.
#include <algorithm>
#include <vector>

#include "kernels/reduce.h"
#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

// Blocks keep the rounding error of a long float32 sum near that of its parts.
constexpr std::int64_t kBlock = 512;

template <typename T>
void sum_of(const Sum::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t outer = args.x.dim(0);
  const std::int64_t n = args.x.dim(1);
  const std::int64_t inner = args.x.dim(2);
  std::vector<A> total(static_cast<std::size_t>(inner));
  std::vector<A> block(static_cast<std::size_t>(inner));
  for (std::int64_t o = 0; o < outer; ++o) {
    std::fill(total.begin(), total.end(), A(0));
    for (std::int64_t begin = 0; begin < n; begin += kBlock) {
      std::fill(block.begin(), block.end(), A(0));
      const std::int64_t end = std::min(begin + kBlock, n);
      for (std::int64_t k = begin; k < end; ++k) {
        const T* x = args.x.as<T>() + (o * n + k) * inner;
        for (std::int64_t i = 0; i < inner; ++i) block[i] += A(x[i]);
      }
      for (std::int64_t i = 0; i < inner; ++i) total[i] += block[i];
    }
    T* y = args.y.as<T>() + o * inner;
    for (std::int64_t i = 0; i < inner; ++i) y[i] = T(total[i]);
  }
}

template <typename T>
double squares(const TensorView& x) {
  using A = Accumulator<T>;
  const T* data = x.as<T>();
  const std::int64_t n = x.numel();
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    double block = 0;
    for (std::int64_t i = begin; i < std::min(begin + kBlock, n); ++i) {
      const double value = A(data[i]);
      block += value * value;
    }
    total += block;
  }
  return total;
}

}  // namespace

EA_RUN_REF(Sum, sum_of, x)

template <>
void run<SumOfSquares>(const SumOfSquares::Args& args) {
  double total = 0;
  for (const TensorView& x : *args.xs) {
    total += visit_floating(x.dtype, SumOfSquares::name, [&](auto tag) {
      return squares<typename decltype(tag)::type>(x);
    });
  }
  *args.result.as<double>() = total;
}

}  // namespace ea::ref
