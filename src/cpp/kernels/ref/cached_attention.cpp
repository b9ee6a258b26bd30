// Reference attention over cached rows, sequence by sequence.
#include "kernels/cached_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

template <typename T>
class Step {
  using A = Accumulator<T>;

 public:
  Step(const CachedAttention::Args& args, std::int64_t b)
      : args_(args),
        e_(args.evolving),
        b_(b),
        width_(args.q.dim(1)),
        d_(width_ / args.heads),
        begin_(args.offsets.as<std::int64_t>()[b]),
        n_(args.offsets.as<std::int64_t>()[b + 1] - begin_),
        rows_(args.rows.as<std::int64_t>() + begin_),
        logits_(static_cast<std::size_t>(args.heads * n_)) {}

  void run() {
    for (std::int64_t h = 0; h < args_.heads; ++h) score(h);
    if (e_.convolves() && side_row(e_.shift.down) >= 0) {
      for (std::int64_t o = 0; o < args_.heads; ++o) convolve(o);
    }
    for (std::int64_t h = 0; h < args_.heads; ++h) finish(h);
  }

 private:
  std::int64_t side() const { return 2 * e_.shift.down + 1; }
  std::int64_t side_row(std::int64_t u) const {
    return e_.map_rows.as<std::int64_t>()[b_ * side() + u];
  }
  // Returns cell 0 of a row of I.
  T* map(std::int64_t row, std::int64_t h) const {
    return e_.maps.as<T>() + (row * args_.heads + h) * e_.maps.dim(2) + side() -
           1;
  }
  std::int64_t cell(std::int64_t h) const {
    return args_.heads * begin_ + h * n_;
  }

  // Computes L without the convolution, and the row of I.
  void score(std::int64_t h) {
    const T* q = args_.q.as<T>() + b_ * width_ + h * d_;
    T* mixed = nullptr;
    if (e_.convolves()) {
      mixed = map(side_row(side() - 1), h);
      std::fill(mixed - (side() - 1), mixed + n_ + 2 * (side() - 1), T(0));
    }
    for (std::int64_t t = 0; t < n_; ++t) {
      const T* k = args_.k.as<T>() + rows_[t] * width_ + h * d_;
      A s = 0;
      for (std::int64_t i = 0; i < d_; ++i) s += A(q[i]) * A(k[i]);
      s *= A(args_.scale);
      const A m =
          e_.previous.defined() ? A(e_.previous.as<T>()[cell(h) + t]) : A(0);
      if (mixed != nullptr) mixed[t] = T(A(e_.c.a) * m + A(e_.c.b) * s);
      logits_[h * n_ + t] = A(e_.c.p) * m + A(e_.c.s) * s;
    }
  }

  void convolve(std::int64_t o) {
    const std::int64_t reach = e_.shift.down;
    for (std::int64_t t = e_.shift.right; t < n_; ++t) {
      A z = A(e_.bias.as<T>()[o]);
      for (std::int64_t c = 0; c < args_.heads; ++c) {
        const T* w =
            e_.weight.as<T>() + (o * args_.heads + c) * side() * side();
        for (std::int64_t u = 0; u < side(); ++u) {
          if (side_row(u) < 0) continue;
          const T* x = map(side_row(u), c) + t - e_.shift.right - reach;
          for (std::int64_t v = 0; v < side(); ++v) {
            // Taps of 0 may cover cells that the map must not see.
            const A tap = A(w[u * side() + v]);
            if (tap != A(0)) z += tap * A(x[v]);
          }
        }
      }
      logits_[o * n_ + t] += A(e_.c.w) * (z <= A(0) ? A(0) : z);
    }
  }

  void finish(std::int64_t h) {
    A* p = logits_.data() + h * n_;
    A top = -std::numeric_limits<A>::infinity(), total = 0;
    for (std::int64_t t = 0; t < n_; ++t) {
      if (e_.carry.defined()) e_.carry.as<T>()[cell(h) + t] = T(p[t]);
      p[t] *= A(e_.softmax_scale);
      top = std::max(top, p[t]);
    }
    for (std::int64_t t = 0; t < n_; ++t) total += p[t] = std::exp(p[t] - top);
    for (std::int64_t t = 0; t < n_; ++t) p[t] = A(T(p[t] / total));
    for (std::int64_t i = 0; i < d_; ++i) {
      A sum = 0;
      for (std::int64_t t = 0; t < n_; ++t) {
        sum += p[t] * A(args_.v.as<T>()[rows_[t] * width_ + h * d_ + i]);
      }
      args_.y.as<T>()[b_ * width_ + h * d_ + i] = T(sum);
    }
  }

  const CachedAttention::Args& args_;
  const CachedMaps& e_;
  std::int64_t b_, width_, d_, begin_, n_;
  const std::int64_t* rows_;
  std::vector<A> logits_;
};

template <typename T>
void cached_attention_of(const CachedAttention::Args& args) {
  for (std::int64_t b = 0; b < args.q.dim(0); ++b) Step<T>(args, b).run();
}

}  // namespace

EA_RUN_REF(CachedAttention, cached_attention_of, q)

}  // namespace ea::ref
