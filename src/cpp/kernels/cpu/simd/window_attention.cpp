// SIMD attention within windows, row by row (kernels/window_attention.h).
#include "kernels/window_attention.h"
#include "kernels/cpu/simd/column_sums-inl.h"
#include "kernels/cpu/simd/map_rows-inl.h"
#include "kernels/cpu/simd/math-inl.h"
#include "kernels/cpu/simd/run-inl.h"
#include "kernels/cpu/simd/tile-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Geometry shared by the rows of one sequence.
struct Sequence {
  std::int64_t first, n;        // first token, number of tokens
  std::int64_t width, columns;  // cells of a window, of a row
  std::int64_t cells;           // first cell of its maps

  EA_INLINE Sequence(const WindowLayout& layout, std::int64_t b)
      : first(layout.cells.q_offsets[b]),
        n(layout.cells.n_q(b)),
        width(layout.width(b)),
        columns(layout.cells.n_k(b)),
        cells(layout.cells.begin(b)) {}

  EA_INLINE std::int64_t row(std::int64_t h, std::int64_t i) const {
    return cells + (h * n + i) * columns;
  }
  // Row i sees tokens begin(i) .. end(i). Token j is at position j - i + width
  // / 2 of the window.
  EA_INLINE std::int64_t begin(std::int64_t i) const {
    return i < width / 2 ? 0 : i - width / 2;
  }
  EA_INLINE std::int64_t end(std::int64_t i) const {
    return n - i <= width / 2 ? n : i + width / 2 + 1;
  }
};

// Calls fn(Sequence, h, i) for each token i and head h of all sequences, in
// jobs of about equal work. `work` is the work of one cell, in elements.
template <typename Fn>
void for_windows(const WindowLayout& layout, std::int64_t work, Fn&& fn) {
  const MapLayout& cells = layout.cells;
  for_token_rows(cells, cells.q_offsets, cells.numel() * work,
                 [&](std::int64_t b, std::int64_t h, std::int64_t i) {
                   fn(Sequence(layout, b), h, i);
                 });
}

// Returns the work of a cell's multiply-adds in elements, so that jobs take
// some ten microseconds.
EA_INLINE std::int64_t work_of(std::int64_t d) {
  return ceil_div(2 * d, kLanes);
}

// Returns the sums over the lanes of kLanes vectors, in vector order, in
// log2(kLanes) rounds. In a round, each of 2 kHalf vectors holds the partial
// sums of kLanes / (2 kHalf) vectors.
template <int kHalf>
EA_INLINE Vf sums_of_lanes(Vf (&rows)[2 * kHalf]) {
  Vf sums[kHalf];
#pragma GCC unroll 8
  for (int i = 0; i < kHalf; ++i) {
    Vf low, high;
    interleave(rows[i], rows[i + kHalf], low, high);
    sums[i] = low + high;
  }
  if constexpr (kHalf == 1) {
    return sums[0];
  } else {
    return sums_of_lanes<kHalf / 2>(sums);
  }
}

// y[c] = scale x . k_c for kCount keys, `stride` apart.
template <int kCount, typename T>
void products_of(const T* x, const T* keys, std::int64_t stride, std::int64_t d,
                 float scale, T* y) {
  Vf sums[kLanes];
#pragma GCC unroll 16
  for (int c = 0; c < kLanes; ++c) sums[c] = set(0.0f);
  for_vectors(d, [&](std::int64_t e, auto part) {
    const Vf query = load(x + e, part);
    // Addressing rows in threes from few pointers keeps addresses in registers.
#pragma GCC unroll 16
    for (int c = 0; c < kCount; ++c) {
      const T* const key = keys + c / 3 * (3 * stride) + c % 3 * stride + e;
      sums[c] = fma(query, load(key, part), sums[c]);
    }
  });
  store(y, sums_of_lanes<kLanes / 2>(sums) * set(scale), Part(kCount));
}

// Calls products_of() for up to kLanes keys.
template <typename T>
EA_INLINE void some_products(std::int64_t count, const T* x, const T* keys,
                             std::int64_t stride, std::int64_t d, float scale,
                             T* y) {
  with_count<kLanes>(
      count, [&](auto n) { products_of<n>(x, keys, stride, d, scale, y); });
}

template <typename T>
void window_products(const WindowProducts::Args& args) {
  const WindowLayout& layout = args.layout;
  const HeadNeighbours heads = layout.neighbours(args.of_values);
  const std::int64_t step = args.x.shape[1], d = step / layout.cells.heads;
  const float scale = static_cast<float>(args.scale);
  for_windows(layout, work_of(d),
              [&](const Sequence& s, std::int64_t h, std::int64_t i) {
                const T* const query =
                    args.x.as<const T>() + (s.first + i) * step + h * d;
                const std::int64_t begin = s.begin(i), end = s.end(i);
                const std::int64_t place = begin - i + s.width / 2;
                T* y = args.maps.as<T>() + s.row(h, i);
                if (end - begin < s.width) clear(y, s.columns);
                for (std::int64_t a = 0; a < layout.window.heads;
                     ++a, y += s.width) {
                  const std::int64_t g = heads.of(h, a);
                  if (g < 0) {
                    clear(y, s.width);
                    continue;
                  }
                  const T* keys =
                      args.y.as<const T>() + (s.first + begin) * step + g * d;
                  for (std::int64_t j = begin; j < end; j += kLanes) {
                    some_products(end - j < kLanes ? end - j : kLanes, query,
                                  keys, step, d, scale, y + place + j - begin);
                    keys += kLanes * step;
                  }
                }
              });
}

// sums += sum of weights[c weight_step] x_c over `count` rows x_c, `stride`
// apart.
template <int kVectors, typename T, typename P>
EA_INLINE void add_rows_of(const T* weights, std::int64_t weight_step,
                           const T* x, std::int64_t stride, std::int64_t count,
                           P part, Vf (&sums)[kVectors]) {
  for (std::int64_t c = 0; c < count; ++c) {
    add_row(load_one(weights + c * weight_step), x + c * stride, part, sums);
  }
}

// Computes for each query the scaled sum of maps x over its cells, with the
// rows of the keys in x.
template <typename T>
void query_sums(const WindowSums::Args& args) {
  const WindowLayout& layout = args.layout;
  const HeadNeighbours heads = layout.neighbours(args.of_values);
  const std::int64_t step = args.to.shape[1], d = step / layout.cells.heads;
  const float scale = static_cast<float>(args.scale);
  for_windows(
      layout, work_of(d),
      [&](const Sequence& s, std::int64_t h, std::int64_t i) {
        const std::int64_t begin = s.begin(i), count = s.end(i) - begin;
        const T* const row =
            args.maps.as<const T>() + s.row(h, i) + begin - i + s.width / 2;
        const T* const from = args.x.as<const T>() + (s.first + begin) * step;
        store_sums(d, scale, args.to.as<T>() + (s.first + i) * step + h * d,
                   [&](std::int64_t e, auto part, auto& sums) {
                     for (std::int64_t a = 0; a < layout.window.heads; ++a) {
                       const std::int64_t g = heads.of(h, a);
                       if (g < 0) continue;
                       add_rows_of(row + a * s.width, 1, from + g * d + e, step,
                                   count, part, sums);
                     }
                   });
      });
}

// Computes for each key the scaled sum of maps x over the cells that see it,
// with the rows of their queries in x.
template <typename T>
void key_sums(const WindowSums::Args& args) {
  const WindowLayout& layout = args.layout;
  const HeadNeighbours heads = layout.neighbours(args.of_values);
  const std::int64_t step = args.to.shape[1], d = step / layout.cells.heads;
  const float scale = static_cast<float>(args.scale);
  for_windows(
      layout, work_of(d),
      [&](const Sequence& s, std::int64_t g, std::int64_t j) {
        // Windows are symmetric: the queries that see token j are the tokens
        // that query j sees. The position of j decreases by one from query to
        // query.
        const std::int64_t begin = s.begin(j), count = s.end(j) - begin;
        const std::int64_t place = j - begin + s.width / 2;
        const T* const from = args.x.as<const T>() + (s.first + begin) * step;
        store_sums(d, scale, args.to.as<T>() + (s.first + j) * step + g * d,
                   [&](std::int64_t e, auto part, auto& sums) {
                     for (std::int64_t a = 0; a < layout.window.heads; ++a) {
                       const auto readers = heads.readers(g, a);
                       for (std::int64_t h = readers.first; h <= readers.last;
                            ++h) {
                         add_rows_of(args.maps.as<const T>() + s.row(h, begin) +
                                         a * s.width + place,
                                     s.columns - 1, from + h * d + e, step,
                                     count, part, sums);
                       }
                     }
                   });
      });
}

template <typename T>
void window_sums(const WindowSums::Args& args) {
  args.of_queries ? query_sums<T>(args) : key_sums<T>(args);
}

// Runs of existing cells of a row: `runs` runs of `count` cells each, `step`
// apart. A row without missing tokens has one run.
struct RowRuns {
  std::int64_t first, runs, count, step;

  EA_INLINE RowRuns(const WindowLayout& layout, const HeadNeighbours& heads,
                    const Sequence& s, std::int64_t h, std::int64_t i) {
    std::int64_t begin = 0, end = layout.window.heads;  // neighbour heads
    while (heads.of(h, begin) < 0) ++begin;
    while (heads.of(h, end - 1) < 0) --end;
    first = begin * s.width + s.begin(i) - i + s.width / 2;
    runs = end - begin;
    count = s.end(i) - s.begin(i);
    step = s.width;
    if (count == step) {
      count *= runs;
      runs = 1;
    }
  }
  EA_INLINE bool all(std::int64_t columns) const { return count == columns; }
};

template <typename T>
void softmax_of(const WindowSoftmax::Args& args) {
  const WindowLayout& layout = args.layout;
  const HeadNeighbours heads = layout.keys();
  const Vf scale = set(static_cast<float>(args.scale));
  for_windows(
      layout, 4, [&](const Sequence& s, std::int64_t h, std::int64_t i) {
        const RowRuns cells(layout, heads, s, h, i);
        const T* const x = args.x.as<const T>() + s.row(h, i) + cells.first;
        T* const row = args.y.as<T>() + s.row(h, i);
        T* const y = row + cells.first;
        float top = -__builtin_inff();
        for (std::int64_t r = 0; r < cells.runs; ++r) {
          const float found =
              max_over(cells.count, [&](std::int64_t c, auto part) {
                return load(x + r * cells.step + c, part) * scale;
              });
          top = top > found ? top : found;
        }
        const auto term = [&](std::int64_t at, auto part) {
          return exp(load(x + at, part) * scale - set(top));
        };
        float total = 0.0f;
        for (std::int64_t r = 0; r < cells.runs; ++r) {
          total += sum_over(cells.count, [&](std::int64_t c, auto part) {
            return term(r * cells.step + c, part);
          });
        }
        if (!cells.all(s.columns)) clear(row, s.columns);
        const Vf inverse = set(1.0f / total);
        for (std::int64_t r = 0; r < cells.runs; ++r) {
          for_vectors(cells.count, [&](std::int64_t c, auto part) {
            const std::int64_t at = r * cells.step + c;
            store(y + at, term(at, part) * inverse, part);
          });
        }
      });
}

template <typename T>
void softmax_backward_of(const WindowSoftmaxBackward::Args& args) {
  const WindowLayout& layout = args.layout;
  const HeadNeighbours heads = layout.keys();
  const Vf scale = set(static_cast<float>(args.scale));
  for_windows(
      layout, 4, [&](const Sequence& s, std::int64_t h, std::int64_t i) {
        const RowRuns cells(layout, heads, s, h, i);
        const std::int64_t at = s.row(h, i) + cells.first;
        const T* const dy = args.dy.as<const T>() + at;
        const T* const y = args.y.as<const T>() + at;
        T* const row = args.dx.as<T>() + s.row(h, i);
        float dot = 0.0f;
        for (std::int64_t r = 0; r < cells.runs; ++r) {
          dot += sum_over(cells.count, [&](std::int64_t c, auto part) {
            return load(dy + r * cells.step + c, part) *
                   load(y + r * cells.step + c, part);
          });
        }
        if (!cells.all(s.columns)) clear(row, s.columns);
        for (std::int64_t r = 0; r < cells.runs; ++r) {
          for_vectors(cells.count, [&](std::int64_t c, auto part) {
            const std::int64_t e = r * cells.step + c;
            const Vf g = load(dy + e, part) - set(dot);
            store(row + cells.first + e, scale * load(y + e, part) * g, part);
          });
        }
      });
}

// Copies the runs of cells between flat and dense maps: with kUnpack from flat
// to dense, else from dense to flat.
template <typename Word, bool kUnpack, typename Maps>
void copy_cells(const Maps& maps) {
  const WindowLayout& layout = maps.layout;
  const HeadNeighbours heads = layout.keys();
  const std::int64_t rows = maps.dense.shape[2], width = maps.dense.shape[3];
  const std::int64_t block = width / layout.window.heads;
  const auto* q = maps.q_columns.template as<const std::int64_t>();
  const auto* k = maps.k_columns.template as<const std::int64_t>();
  for_token_rows(
      layout.cells, layout.cells.q_offsets, layout.cells.numel(),
      [&](std::int64_t b, std::int64_t h, std::int64_t i) {
        const Sequence s(layout, b);
        const std::int64_t line = q == nullptr ? i : q[s.first + i];
        Word* flat = maps.flat.template as<Word>() + s.row(h, i);
        Word* dense = maps.dense.template as<Word>() +
                      ((b * layout.cells.heads + h) * rows + line) * width;
        for (std::int64_t a = 0; a < layout.window.heads; ++a) {
          const bool some = heads.of(h, a) >= 0;
          for (std::int64_t o = 0; o < s.width; ++o, ++flat) {
            const std::int64_t j = i + o - s.width / 2;
            const bool there = some && j >= 0 && j < s.n;
            if (!there && !kUnpack) *flat = Word{0};
            if (!there) continue;
            Word& cell = dense[a * block + (k == nullptr ? j : k[s.first + j])];
            if constexpr (kUnpack) {
              cell = *flat;
            } else {
              *flat = cell;
            }
          }
        }
      });
}

template <bool kUnpack, typename Maps>
void copy_any(const Maps& maps) {
  by_word(maps.dense.dtype,
          [&](auto word) { copy_cells<decltype(word), kUnpack>(maps); });
}

}  // namespace

EA_RUN(WindowProducts, window_products, x)
EA_RUN(WindowSums, window_sums, maps)
EA_RUN(WindowSoftmax, softmax_of, x)
EA_RUN(WindowSoftmaxBackward, softmax_backward_of, y)

template <>
void run<UnpackWindows>(const UnpackWindows::Args& maps) {
  if (maps.dense.numel() == 0) return;
  const std::int64_t bytes = maps.dense.numel() * size_of(maps.dense.dtype);
  __builtin_memset(maps.dense.data, 0, static_cast<std::size_t>(bytes));
  copy_any<true>(maps);
}

template <>
void run<PackWindows>(const PackWindows::Args& maps) {
  copy_any<false>(maps);
}

}  // namespace ea::simd::EA_TARGET
