// Reference attention over cached rows, head by head.
#include "kernels/cached_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

template <typename T>
void attention_of(const CachedAttention::Args& args) {
  using A = Accumulator<T>;
  const std::int64_t width = args.q.dim(1), d = width / args.heads;
  const std::int64_t* offsets = args.offsets.as<std::int64_t>();
  std::vector<A> p;
  for (std::int64_t job = 0; job < args.q.dim(0) * args.heads; ++job) {
    const std::int64_t b = job / args.heads, at = job % args.heads * d;
    const std::int64_t* rows = args.rows.as<std::int64_t>() + offsets[b];
    const T* q = args.q.as<T>() + b * width + at;
    p.assign(static_cast<std::size_t>(offsets[b + 1] - offsets[b]), A(0));
    A top = -std::numeric_limits<A>::infinity(), total = 0;
    for (std::size_t t = 0; t < p.size(); ++t) {
      const T* k = args.k.as<T>() + rows[t] * width + at;
      for (std::int64_t i = 0; i < d; ++i) p[t] += A(q[i]) * A(k[i]);
      p[t] *= A(args.scale);
      top = std::max(top, p[t]);
    }
    for (A& one : p) total += one = std::exp(one - top);
    for (A& one : p) one = A(T(one / total));
    for (std::int64_t i = 0; i < d; ++i) {
      A sum = 0;
      for (std::size_t t = 0; t < p.size(); ++t) {
        sum += p[t] * A(args.v.as<T>()[rows[t] * width + at + i]);
      }
      args.y.as<T>()[b * width + at + i] = T(sum);
    }
  }
}

}  // namespace

template <>
void run<CachedAttention>(const CachedAttention::Args& args) {
  visit_floating(args.q.dtype, CachedAttention::name, [&](auto tag) {
    attention_of<typename decltype(tag)::type>(args);
  });
}

}  // namespace ea::ref
