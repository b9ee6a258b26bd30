// SIMD attention over cached rows (kernels/cached_attention.h): keys and values
// are read in place, once, for several heads at a time.
#include "kernels/cached_attention.h"

#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/math-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

constexpr std::int64_t kColumns = 256;  // columns of one job's heads
constexpr std::int64_t kAhead = 6;      // rows to prefetch ahead

template <typename T>
EA_INLINE void prefetch(const T* p, std::int64_t n) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (std::int64_t i = 0; i < n; i += kLine) __builtin_prefetch(p + i);
}

struct Tap {
  std::int64_t u, v;
};

// Collects the taps at which some weight [heads, heads, side, side] is nonzero.
// The other taps are never read: their cells may be hidden from the map.
template <typename T>
EA_INLINE std::int64_t find_taps(const T* weight, std::int64_t heads,
                                 std::int64_t side, Tap* taps) {
  std::int64_t found = 0;
  for (std::int64_t at = 0; at < side * side; ++at) {
    bool counts = false;
    for (std::int64_t i = 0; i < heads * heads && !counts; ++i) {
      counts = load_one(weight + i * side * side + at) != 0.0f;
    }
    if (counts) taps[found++] = {at / side, at % side};
  }
  return found;
}

template <typename T>
struct Step {
  const CachedAttention::Args& args;
  const CachedMaps& e;
  std::int64_t heads, width, d, side;
  const std::int64_t *offsets, *rows;
  float* logits;  // flat maps
  const Tap* taps;
  std::int64_t tap_count;

  EA_INLINE std::int64_t length(std::int64_t b) const {
    return offsets[b + 1] - offsets[b];
  }
  EA_INLINE std::int64_t cell(std::int64_t b, std::int64_t h) const {
    return heads * offsets[b] + h * length(b);
  }
  EA_INLINE std::int64_t map_row(std::int64_t b, std::int64_t u) const {
    return e.map_rows.as<std::int64_t>()[b * side + u];
  }
  // Returns the address of cell 0 of a row of I.
  EA_INLINE T* map(std::int64_t row, std::int64_t h) const {
    return e.maps.as<T>() + (row * heads + h) * e.maps.shape[2] + side - 1;
  }

  // Computes L without the convolution, and the rows of I.
  void score(std::int64_t b, std::int64_t first, std::int64_t last) const {
    const std::int64_t n = length(b);
    const std::int64_t* mine = rows + offsets[b];
    const T* q = args.q.as<T>() + b * width;
    const T* keys = args.k.as<T>();
    const float scale = static_cast<float>(args.scale);
    for (std::int64_t t = 0; t < n; ++t) {
      if (t + kAhead < n) {
        prefetch(keys + mine[t + kAhead] * width + first * d,
                 (last - first) * d);
      }
      const T* key = keys + mine[t] * width;
      for (std::int64_t h = first; h < last; ++h) {
        logits[cell(b, h) + t] =
            scale * sum_over(d, [&](std::int64_t i, auto part) {
              return load(q + h * d + i, part) * load(key + h * d + i, part);
            });
      }
    }
    if (!e.convolves() && !e.previous.defined() && e.c.s == 1.0) return;
    for (std::int64_t h = first; h < last; ++h) combine(b, h);
  }

  EA_INLINE void combine(std::int64_t b, std::int64_t h) const {
    const std::int64_t n = length(b);
    T* mixed = e.convolves() ? map(map_row(b, side - 1), h) : nullptr;
    if (mixed != nullptr) {
      for (std::int64_t i = 0; i < side - 1; ++i) store_one(mixed - 1 - i, 0);
      for (std::int64_t i = 0; i < 2 * (side - 1); ++i) {
        store_one(mixed + n + i, 0);
      }
    }
    float* l = logits + cell(b, h);
    const T* previous =
        e.previous.defined() ? e.previous.as<T>() + cell(b, h) : nullptr;
    const Vf ca = set(static_cast<float>(e.c.a));
    const Vf cb = set(static_cast<float>(e.c.b));
    const Vf cp = set(static_cast<float>(e.c.p));
    const Vf cs = set(static_cast<float>(e.c.s));
    for_vectors(n, [&](std::int64_t t, auto part) {
      const Vf s = load(l + t, part);
      const Vf m = previous != nullptr ? load(previous + t, part) : set(0);
      if (mixed != nullptr) store(mixed + t, ca * m + cb * s, part);
      store(l + t, cp * m + cs * s, part);
    });
  }

  // Adds w ReLU(Z) to L for kOut heads from head `o`.
  template <int kOut>
  EA_INLINE void convolve(std::int64_t b, std::int64_t o) const {
    const std::int64_t cells = side * side, right = e.shift.right;
    const T* weight = e.weight.as<T>() + o * heads * cells;
    const Vf w = set(static_cast<float>(e.c.w));
    for_vectors(length(b) - right, [&](std::int64_t t, auto part) {
      Vf z[kOut];
#pragma GCC unroll 4
      for (int i = 0; i < kOut; ++i) {
        z[i] = set(load_one(e.bias.as<T>() + o + i));
      }
      for (std::int64_t c = 0; c < heads; ++c) {
        for (std::int64_t i = 0; i < tap_count; ++i) {
          const std::int64_t row = map_row(b, taps[i].u);
          if (row < 0) continue;
          const Vf x = load(map(row, c) + t - e.shift.down + taps[i].v, part);
          const T* at = weight + c * cells + taps[i].u * side + taps[i].v;
#pragma GCC unroll 4
          for (int j = 0; j < kOut; ++j) {
            z[j] = fma(set(load_one(at + j * heads * cells)), x, z[j]);
          }
        }
      }
#pragma GCC unroll 4
      for (int i = 0; i < kOut; ++i) {
        float* l = logits + cell(b, o + i) + right + t;
        const Vf opened = z[i] <= set(0) ? set(0) : z[i];
        store(l, fma(w, opened, load(l, part)), part);
      }
    });
  }

  void convolve(std::int64_t b, std::int64_t first, std::int64_t last) const {
    if (map_row(b, e.shift.down) < 0) return;
    std::int64_t o = first;
    for (; o + 4 <= last; o += 4) convolve<4>(b, o);
    for (; o < last; ++o) convolve<1>(b, o);
  }

  // Copies the logits of head h to the carry, if any, and replaces them with P.
  EA_INLINE void normalise(std::int64_t b, std::int64_t h) const {
    const std::int64_t n = length(b);
    float* p = logits + cell(b, h);
    if (e.carry.defined()) {
      T* carry = e.carry.as<T>() + cell(b, h);
      for_vectors(n, [&](std::int64_t t, auto part) {
        store(carry + t, load(p + t, part), part);
      });
    }
    const Vf scale = set(static_cast<float>(e.softmax_scale));
    const Vf top = set(max_over(n, [&](std::int64_t t, auto part) {
      return scale * load(p + t, part);
    }));
    const float total = sum_over(n, [&](std::int64_t t, auto part) {
      const Vf y = exp(scale * load(p + t, part) - top);
      store(p + t, y, part);
      return y;
    });
    const Vf inverse = set(1.0f / total);
    const T* type = nullptr;
    for_vectors(n, [&](std::int64_t t, auto part) {
      store(p + t, as_stored(load(p + t, part) * inverse, type), part);
    });
  }

  // Computes columns [begin, end) of y for each of the heads first .. last.
  EA_INLINE void mix(std::int64_t b, std::int64_t first, std::int64_t last,
                     std::int64_t begin, std::int64_t end) const {
    const std::int64_t n = length(b), columns = end - begin;
    const std::int64_t* mine = rows + offsets[b];
    const T* values = args.v.as<T>() + begin;
    float sums[kColumns];
    clear(sums, (last - first) * columns);
    constexpr int kRows = 4;
    for (std::int64_t t = 0; t < n; t += kRows) {
      const int count = static_cast<int>(n - t < kRows ? n - t : kRows);
      for (int r = 0; r < kRows && t + kAhead + r < n; ++r) {
        prefetch(values + mine[t + kAhead + r] * width + first * d,
                 (last - first - 1) * d + columns);
      }
      for (std::int64_t h = first; h < last; ++h) {
        const float* p = logits + cell(b, h) + t;
        float* sum = sums + (h - first) * columns;
        const auto add = [&](auto many) {
          for_vectors(columns, [&](std::int64_t i, auto part) {
            Vf y = load(sum + i, part);
#pragma GCC unroll 4
            for (int r = 0; r < many; ++r) {
              y = fma(set(p[r]),
                      load(values + mine[t + r] * width + h * d + i, part), y);
            }
            store(sum + i, y, part);
          });
        };
        if (count == kRows) {
          add(Always<kRows>{});
        } else {
          add(count);
        }
      }
    }
    for (std::int64_t h = first; h < last; ++h) {
      T* y = args.y.as<T>() + b * width + h * d + begin;
      for_vectors(columns, [&](std::int64_t i, auto part) {
        store(y + i, load(sums + (h - first) * columns + i, part), part);
      });
    }
  }

  void finish(std::int64_t b, std::int64_t first, std::int64_t last) const {
    for (std::int64_t h = first; h < last; ++h) normalise(b, h);
    for (std::int64_t i = 0; i < d; i += kColumns) {
      mix(b, first, last, i, i + kColumns < d ? i + kColumns : d);
    }
  }
};

template <typename T>
void run_for(const CachedAttention::Args& args) {
  const std::int64_t n = args.q.shape[0], width = args.q.shape[1];
  const CachedMaps& e = args.evolving;
  const std::int64_t side = 2 * e.shift.down + 1;
  const std::int64_t* offsets = args.offsets.as<std::int64_t>();
  if (n == 0 || width == 0) return;
  const std::int64_t total = offsets[n], heads = args.heads, d = width / heads;
  const Scratch scratch(heads * total * 4);
  const Scratch taps(side * side * sizeof(Tap));
  const std::int64_t count =
      e.convolves()
          ? find_taps(e.weight.as<T>(), heads, side, taps.template as<Tap>())
          : 0;
  const Step<T> step{args,
                     e,
                     heads,
                     width,
                     d,
                     side,
                     offsets,
                     args.rows.as<std::int64_t>(),
                     scratch.template as<float>(),
                     taps.template as<Tap>(),
                     count};
  const std::int64_t group = d < kColumns ? kColumns / d : 1;
  const std::int64_t groups = ceil_div(heads, group);
  const auto each = [&](auto&& fn) {
    parallel_each(n * groups, items_per_job(2 * total / n * d * group),
                  [&](std::int64_t job) {
                    const std::int64_t first = job % groups * group;
                    const std::int64_t last = first + group;
                    fn(job / groups, first, last < heads ? last : heads);
                  });
  };
  if (!e.convolves()) {
    each([&](std::int64_t b, std::int64_t first, std::int64_t last) {
      step.score(b, first, last);
      step.finish(b, first, last);
    });
    return;
  }
  each([&](std::int64_t b, std::int64_t first, std::int64_t last) {
    step.score(b, first, last);
  });
  // A convolution reads the new rows of all heads.
  each([&](std::int64_t b, std::int64_t first, std::int64_t last) {
    step.convolve(b, first, last);
    step.finish(b, first, last);
  });
}

}  // namespace

EA_RUN(CachedAttention, run_for, q)

}  // namespace ea::simd::EA_TARGET
