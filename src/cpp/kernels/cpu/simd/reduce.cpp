// SIMD sums over fixed blocks (kernels/reduce.h).
#include "kernels/reduce.h"
#include "kernels/cpu/simd/pieces-inl.h"
#include "kernels/cpu/simd/row_sums-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Sums over the rows of each of `outer` matrices [n, inner].
template <typename T>
void sum_rows(const T* x, T* y, std::int64_t outer, std::int64_t n,
              std::int64_t inner) {
  const Blocks blocks(n, inner);
  const Scratch scratch(outer * blocks.count * inner * 4);
  float* partial = scratch.as<float>();
  parallel_each(outer * blocks.count,
                items_per_job((n < blocks.size ? n : blocks.size) * inner),
                [&](std::int64_t item) {
                  const std::int64_t b = item % blocks.count;
                  const std::int64_t row =
                      item / blocks.count * n + b * blocks.size;
                  float* acc = partial + item * inner;
                  __builtin_memset(acc, 0, static_cast<std::size_t>(inner) * 4);
                  add_rows(x + row * inner, blocks.rows_of(b), inner, acc);
                });
  combine_rows(partial, y, outer, blocks.count, inner);
}

// Returns the sum of n contiguous elements: short float sums, accumulated in
// double.
template <typename T>
double sum_span(const T* x, std::int64_t n) {
  constexpr std::int64_t kShort = 2048;
  double total = 0;
  for (std::int64_t at = 0; at < n; at += kShort) {
    total += static_cast<double>(sum_over(
        n - at < kShort ? n - at : kShort,
        [&](std::int64_t i, auto part) { return load(x + at + i, part); }));
  }
  return total;
}

template <typename T>
void sum_columns(const T* x, T* y, std::int64_t outer, std::int64_t n) {
  const std::int64_t blocks = n > 0 ? ceil_div(n, kGrain) : 1;
  const Scratch scratch(outer * blocks * 8);
  double* partial = scratch.as<double>();
  parallel_each(outer * blocks, items_per_job(n), [&](std::int64_t item) {
    const std::int64_t first = item % blocks * kGrain;
    partial[item] = sum_span(x + item / blocks * n + first,
                             n - first < kGrain ? n - first : kGrain);
  });
  for (std::int64_t o = 0; o < outer; ++o) {
    double total = 0;
    for (std::int64_t b = 0; b < blocks; ++b) total += partial[o * blocks + b];
    store_one(y + o, static_cast<float>(total));
  }
}

template <typename T>
void run_sum(const Sum::Args& args) {
  const std::int64_t outer = args.x.shape[0], n = args.x.shape[1],
                     inner = args.x.shape[2];
  if (outer == 0 || inner == 0) return;
  if (inner == 1) return sum_columns(args.x.as<T>(), args.y.as<T>(), outer, n);
  sum_rows(args.x.as<T>(), args.y.as<T>(), outer, n, inner);
}

// Returns the sum of squares in double: in float, squares of large values would
// overflow and a large model's sum would lose its small terms.
template <typename T>
double squares(const T* x, std::int64_t n) {
  Vd a{}, b{}, c{}, d{};
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const Vf u = load(x + i), v = load(x + i + kLanes);
    a = fma(low_double(u), low_double(u), a);
    b = fma(high_double(u), high_double(u), b);
    c = fma(low_double(v), low_double(v), c);
    d = fma(high_double(v), high_double(v), d);
  }
  for_vectors(n - i, [&](std::int64_t j, auto part) {
    const Vf u = load(x + i + j, part);
    a = fma(low_double(u), low_double(u), a);
    b = fma(high_double(u), high_double(u), b);
  });
  return reduce_add((a + b) + (c + d));
}

}  // namespace

EA_RUN(Sum, run_sum, x)

template <>
void run<SumOfSquares>(const SumOfSquares::Args& args) {
  const TensorView* xs = args.xs->data();
  const auto count = static_cast<std::int64_t>(args.xs->size());
  std::int64_t total = 0;
  for (std::int64_t t = 0; t < count; ++t) total += piece_count(xs[t].numel());
  const Scratch scratch(total * static_cast<std::int64_t>(sizeof(Piece) + 8));
  Piece* pieces = scratch.as<Piece>();
  double* partial = reinterpret_cast<double*>(pieces + total);
  Piece* out = pieces;
  for (std::int64_t t = 0; t < count; ++t) out = cut(t, xs[t].numel(), out);
  parallel_for(total, [&](std::int64_t job) {
    const Piece& piece = pieces[job];
    const TensorView& x = xs[piece.tensor];
    const std::int64_t n = piece.end - piece.begin;
    partial[job] = x.dtype == DType::bf16
                       ? squares(x.as<bfloat16>() + piece.begin, n)
                       : squares(x.as<float>() + piece.begin, n);
  });
  double sum = 0;
  for (std::int64_t job = 0; job < total; ++job) sum += partial[job];
  *args.result.as<double>() = sum;
}

}  // namespace ea::simd::EA_TARGET
