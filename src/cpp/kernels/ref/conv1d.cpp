// Reference convolution along packed sequences: the definition, row by row.
#include <algorithm>
#include <vector>

#include "kernels/conv1d.h"
#include "kernels/ref/run.h"
#include "kernels/ref/taps.h"
#include "kernels/ref/wide.h"

namespace ea::ref {

namespace {

// Calls fn(t, row) for each row t of a sequence whose tap j reads `row`.
template <typename Fn>
void for_rows(const Conv1dTaps& taps, std::int64_t sequence, std::int64_t j,
              Fn&& fn) {
  const std::int64_t begin = taps.offsets[sequence];
  const std::int64_t end = taps.offsets[sequence + 1];
  const std::int64_t shift = j * taps.dilation - taps.reach;
  const std::int64_t first = std::max(begin, begin - shift);
  const std::int64_t last = std::min(end, end - shift);
  for (std::int64_t t = first; t < last; ++t) fn(t, t + shift);
}

template <typename T>
void forward_of(const Conv1dForward::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t in = args.weight.dim(1);
  const std::int64_t out = args.weight.dim(0);
  const std::vector<A> weight = by_taps<T>(args.weight, 1, true);
  std::vector<A> y(static_cast<std::size_t>(args.y.numel()));
  for (std::int64_t b = 0; b < args.taps.sequences; ++b) {
    for (std::int64_t j = 0; j < args.weight.dim(2); ++j) {
      for_rows(args.taps, b, j, [&](std::int64_t t, std::int64_t row) {
        add_product(args.x.as<T>() + row * in, weight.data() + j * in * out, in,
                    out, y.data() + t * out);
      });
    }
  }
  for (std::int64_t i = 0; i < args.y.numel(); ++i) {
    const A bias = args.bias.defined() ? A(args.bias.as<T>()[i % out]) : A(0);
    args.y.as<T>()[i] = T(y[static_cast<std::size_t>(i)] + bias);
  }
}

// y[t, o] reads x[row, c] by weight[o, c, j], so
//   dx[row, c] += dy[t, o] weight[o, c, j],
//   dweight[o, c, j] += dy[t, o] x[row, c].
template <typename T>
void backward_of(const Conv1dBackward::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t out = args.weight.dim(0);
  const std::int64_t in = args.weight.dim(1);
  const std::int64_t taps = args.weight.dim(2);
  const std::vector<A> weight = by_taps<T>(args.weight, 1, false);
  std::vector<A> dx(static_cast<std::size_t>(args.x.numel()));
  std::vector<A> dweight(weight.size());  // [taps, out, in]
  for (std::int64_t b = 0; b < args.taps.sequences; ++b) {
    for (std::int64_t j = 0; j < taps; ++j) {
      for_rows(args.taps, b, j, [&](std::int64_t t, std::int64_t row) {
        const T* dy = args.dy.as<T>() + t * out;
        const T* x = args.x.as<T>() + row * in;
        add_product(dy, weight.data() + j * out * in, out, in,
                    dx.data() + row * in);
        for (std::int64_t o = 0; o < out; ++o) {
          A* sums = dweight.data() + (j * out + o) * in;
          for (std::int64_t c = 0; c < in; ++c) sums[c] += A(dy[o]) * A(x[c]);
        }
      });
    }
  }
  if (args.dx.defined()) write_wide<T>(dx, args.dx);
  if (args.dweight.defined()) write_taps<T>(dweight, args.dweight, 1);
}

}  // namespace

EA_RUN_REF(Conv1dForward, forward_of, x)
EA_RUN_REF(Conv1dBackward, backward_of, x)

}  // namespace ea::ref
