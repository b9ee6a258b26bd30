// SIMD fused attention, forward (kernels/fused_attention.h): a block of rows of
// all heads goes from scores to context while it is in cache.
#include "kernels/fused_attention.h"
#include "kernels/cpu/simd/fused_window-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Cells per head of a block. Without a convolution, each head is processed
// alone. With one, a block is a strip through which a window of M::kStepRows
// rows moves, so that neighbouring rows are computed once.
constexpr std::int64_t kPlainCells = 8192;
constexpr std::int64_t kStripCells = 16384, kStripRows = 48;

template <typename M>
struct Forward {
  using T = typename M::T;
  const FusedAttentionForward::Args& args;
  FusedSizes s;
  Dropping drop;
  PackedHeads<M> keys, values;

  explicit Forward(const FusedAttentionForward::Args& a)
      : args(a),
        s(a.in),
        drop(a.in),
        keys(a.in.k, a.in.layout, true),
        values(a.in.v, a.in.layout, false) {}
};

// The scratch of a job.
struct Parts {
  float *lines, *window, *scores, *z, *wide;
  std::uint32_t* words;
  std::int64_t* offset;
};

// Computes P of one row from L in x and copies L to the carry. P may start at
// the same address as x.
template <typename T, typename Map, typename Keep, typename Mask>
EA_INLINE void softmax_row(float* x, Map* p, std::int64_t n, float t, T* carry,
                           float* statistics, Keep keep, Mask mask) {
  const float top = max_over(n, [&](std::int64_t j, auto part) {
    const Vf v = as_stored(load(x + j, part), carry);
    if (sizeof(T) < sizeof(float)) store(x + j, v, part);
    if (carry != nullptr) store(carry + j, v, part);
    return mask(j, part, v * set(t), -__builtin_inff());
  });
  const float total = sum_over(n, [&](std::int64_t j, auto part) {
    const Vf v = load(x + j, part) * set(t) - set(top);
    const Vf e = mask(j, part, exp(v), 0.0f);
    store(x + j, e, part);
    return e;
  });
  const float inverse = 1.0f / total;
  for_vectors(n, [&](std::int64_t j, auto part) {
    store_factor(p + j, keep(j, load(x + j, part) * set(inverse)), part);
  });
  if (sizeof(Map) < sizeof(float) && n % 2 != 0) store_one(p + n, 0.0f);
  if (statistics != nullptr) {
    statistics[0] = top;
    statistics[1] = inverse;
  }
}

// Applies softmax_row() to a row i with missing cells.
template <typename T, typename Map, typename Keep>
void softmax_some(const Existing& cells, std::int64_t i, float* x, Map* p,
                  float t, T* carry, float* statistics, Keep keep) {
  const std::int64_t n = cells.columns_left(i), n_k = cells.n_k();
  cells.clear(i, x);
  if (n == 0 && statistics != nullptr) statistics[0] = statistics[1] = 0.0f;
  if (n > 0 && cells.mask() != nullptr) {
    softmax_row(x, p, n, t, carry, statistics, keep, KeyMask{cells.mask()});
  } else if (n > 0) {
    softmax_row(x, p, n, t, carry, statistics, keep, NoMask{});
  }
  const std::int64_t end = sizeof(Map) < sizeof(float) ? n_k + n_k % 2 : n_k;
  for (std::int64_t j = n; j < end; ++j) store_one(p + j, 0.0f);
  for (std::int64_t j = n; carry != nullptr && j < n_k; ++j) {
    store_one(carry + j, 0.0f);
  }
}

// Computes y from L for rows row .. row + rows of one head, which are
// contiguous in `lines`.
template <typename M>
void finish_rows(const Forward<M>& f, const SequenceMaps& m, std::int64_t b,
                 std::int64_t h, std::int64_t row, std::int64_t rows,
                 float* lines, const Parts& parts) {
  using T = typename M::T;
  const float t = static_cast<float>(f.args.in.softmax_scale);
  const std::int64_t stride = M::map_cells(m.n_k);
  T* const carries = f.args.carry.template as<T>();
  float* const statistics = f.args.statistics.template as<float>();
  for (std::int64_t i = 0; i < rows; ++i) {
    float* const x = lines + i * m.n_k;
    auto* const p = reinterpret_cast<typename M::Map*>(lines + i * stride);
    const std::int64_t at = m.at(h, row + i);
    T* const carry = carries == nullptr ? nullptr : carries + at;
    float* const mine =
        statistics == nullptr ? nullptr : statistics + 2 * m.row(h, row + i);
    const auto run = [&](auto keep) {
      if (m.cells.all()) {
        softmax_row(x, p, m.n_k, t, carry, mine, keep, NoMask{});
      } else {
        softmax_some(m.cells, row + i, x, p, t, carry, mine, keep);
      }
    };
    if (f.drop.on()) {
      const std::uint32_t* const words = f.drop.draw(at, m.n_k, parts.words);
      const Vf scale = f.drop.scale();
      run([&](std::int64_t j, Vf p) {
        return f.drop.kept(words + j) ? p * scale : set(0.0f);
      });
    } else {
      run([](std::int64_t, Vf p) { return p; });
    }
  }
  multiply_into<typename M::Cells>(
      {lines, stride, 1}, f.values.at(b, h), rows, M::cells(m.n_k), f.s.e, 1.0f,
      rows_of<T>(f.args.y, m.query + row, h * f.s.e), parts.wide);
}

// Processes a block of rows without a convolution: L = p M + s S.
template <typename M>
void plain_block(const Forward<M>& f, const MapBlock& block,
                 const Parts& parts) {
  const FusedAttention& in = f.args.in;
  const SequenceMaps m(in.layout, block.sequence);
  for (std::int64_t h = 0; h < m.heads; ++h) {
    plain_logits<M>(in, m, h, block.row, block.rows,
                    f.keys.at(block.sequence, h), parts.lines, parts.wide);
    finish_rows(f, m, block.sequence, h, block.row, block.rows, parts.lines,
                parts);
  }
}

// Computes rows first .. last of I, in a window that begins at row `top`, and
// of p M + s S from row `row` on for one head.
template <typename M, typename W>
void fill_rows(const Forward<M>& f, const SequenceMaps& m, std::int64_t b,
               std::int64_t h, std::int64_t first, std::int64_t last,
               const W& window, std::int64_t top, std::int64_t row, float* sums,
               const Parts& parts) {
  const FusedAttention& in = f.args.in;
  const std::int64_t from = first < 0 ? 0 : first;
  const std::int64_t to = last < m.n_q ? last : m.n_q;
  for (std::int64_t i = first; i < last; ++i) {
    if (i < 0 || i >= m.n_q) window.clear_row(h, i - top);
  }
  if (from >= to) return;
  const Scores scores = window.scores(h, from - top, parts.scores);
  score_rows<M>(in, m, h, from, to - from, f.keys.at(b, h), scores.data,
                scores.stride, parts.wide);
  using T = typename M::T;
  const T* const previous = in.previous.template as<const T>();
  const Vf va = set(static_cast<float>(in.c.a));
  const Vf vb = set(static_cast<float>(in.c.b));
  const Vf vp = set(static_cast<float>(in.c.p));
  const Vf vs = set(static_cast<float>(in.c.s));
  for (std::int64_t i = from; i < to; ++i) {
    const float* const x = scores.data + (i - from) * scores.stride;
    float* const mixed = window.row(h, i - top);
    const T* const before =
        previous == nullptr ? nullptr : previous + m.at(h, i);
    float* const sum = sums + (i - row) * m.n_k;
    for_vectors(m.n_k, [&](std::int64_t j, auto part) {
      const Vf score = load(x + j, part);
      const T* const cell = before == nullptr ? nullptr : before + j;
      if (i >= row) store(sum + j, mix(vp, cell, vs, score, part), part);
      W::put(mixed + j, mix(va, cell, vb, score, part), part);
    });
    m.cells.clear(i, mixed);
    if (i >= row) m.cells.clear(i, sum);
    window.end_row(mixed);
  }
}

// Computes L for rows row .. row + rows of one head: adds w ReLU(Z) to the
// sums. `moved` tells which cells of the shifted Z exist.
template <typename M>
void add_convolved(const Forward<M>& f, const SequenceMaps& m,
                   const Existing& moved, std::int64_t h, std::int64_t row,
                   std::int64_t rows, const Convolved& z, float* sums) {
  const Vf w = set(static_cast<float>(f.args.in.c.w));
  for (std::int64_t i = 0; i < rows; ++i) {
    float* const from = z.row(h, i);
    moved.clear(row + i, from);
    float* const x = sums + i * m.n_k;
    std::uint8_t* const gates = f.args.gates.defined()
                                    ? gates_of(m, f.args.gates, h, row + i)
                                    : nullptr;
    for_vectors(m.n_k, [&](std::int64_t j, auto part) {
      const Vf v = load(from + j, part);
      if (gates != nullptr) store_gates(gates, j, m.n_k, ~(v <= set(0.0f)));
      store(x + j, fma(w, max(set(0.0f), v), load(x + j, part)), part);
    });
  }
}

// Rows of I that a row of L reads above (below) itself.
EA_INLINE std::int64_t rows_above(const FusedSizes& s) { return s.r + s.down; }
EA_INLINE std::int64_t rows_below(const FusedSizes& s) {
  return s.r > s.down ? s.r - s.down : 0;
}

// Processes a block of rows with a convolution, kStepRows rows at a time.
template <typename M>
void strip(const Forward<M>& f, const TapWeights<typename M::Window>& weights,
           const MapBlock& block, const Parts& parts) {
  const std::int64_t b = block.sequence;
  const std::int64_t above = rows_above(f.s), below = rows_below(f.s);
  const SequenceMaps m(f.args.in.layout, b);
  const Existing moved(f.args.in.layout, b, f.args.in.shift);
  const Window<typename M::Window> window(parts.window, parts.offset, f.s,
                                          m.n_k, M::kStepRows + above + below);
  const std::int64_t sums_size = whole_lines((M::kStepRows + below) * m.n_k);
  const std::int64_t end = block.row + block.rows;
  std::int64_t filled = block.row - above;
  for (std::int64_t row = block.row; row < end; row += M::kStepRows) {
    const std::int64_t rows =
        end - row < M::kStepRows ? end - row : M::kStepRows;
    for (std::int64_t h = 0; h < m.heads; ++h) {
      fill_rows(f, m, b, h, filled, row + rows + below, window, row - above,
                row, parts.lines + h * sums_size, parts);
    }
    filled = row + rows + below;
    const Convolved z = window.convolved(weights, rows, parts.z);
    for (std::int64_t h = 0; h < m.heads; ++h) {
      float* const sums = parts.lines + h * sums_size;
      add_convolved(f, m, moved, h, row, rows, z, sums);
      finish_rows(f, m, b, h, row, rows, sums, parts);
    }
    if (row + rows == end) return;
    for (std::int64_t h = 0; h < m.heads; ++h) {
      to_front(parts.lines + h * sums_size, rows * m.n_k, below * m.n_k);
    }
    window.rows_to_front(rows, above + below);
  }
}

template <typename M>
void forward_of(const FusedAttentionForward::Args& args) {
  using T = typename M::T;
  const bool conv = args.in.c.w != 0.0;
  const MapLayout& layout = args.in.layout;
  const Forward<M> f(args);
  const FusedSizes& s = f.s;
  const MapJobs jobs(layout, conv ? kStripCells : kPlainCells,
                     conv ? kStripRows : M::kRows);
  const std::int64_t keys =
      jobs.largest([&](const MapBlock& b) { return layout.n_k(b.sequence); });
  const std::int64_t halo = rows_above(s) + rows_below(s);
  const std::int64_t lines =
      conv ? s.heads * whole_lines((M::kStepRows + rows_below(s)) * keys)
           : jobs.largest([&](const MapBlock& b) {
               return whole_lines(b.rows * layout.n_k(b.sequence));
             });
  using Rows = Window<typename M::Window>;
  const std::int64_t window =
      conv ? whole_lines(Rows::size(s, keys, M::kStepRows + halo)) : 0;
  const std::int64_t scores = conv && M::Window::kValues > 1
                                  ? whole_lines((M::kStepRows + halo) * keys)
                                  : 0;
  const std::int64_t z =
      conv ? convolved_size(s.heads, s.pad, keys, M::kStepRows) : 0;
  const std::int64_t tall =
      jobs.largest([](const MapBlock& b) { return b.rows; }) + halo;
  const std::int64_t wide = sizeof(T) < sizeof(float) ? tall * s.widest() : 0;
  const TapWeights<typename M::Window> weights(args.in.weight.as<const T>(),
                                               args.in.bias.as<const T>(),
                                               conv ? s.heads : 0, s.k, false);
  parallel_for(jobs.count(), [&](std::int64_t job) {
    [[maybe_unused]] const typename M::Setup setup;
    const Scratch scratch((lines + window + scores + z + wide +
                           Dropping::words(keys) + 2 * s.taps + kLine) *
                          sizeof(float));
    Parts parts;  // from aligned memory on, which AMX loads faster
    parts.lines = scratch.as<float>();
    parts.window = parts.lines + lines;
    parts.scores = parts.window + window;
    parts.z = parts.scores + scores;
    parts.wide = parts.z + z;
    parts.words = reinterpret_cast<std::uint32_t*>(parts.wide + wide);
    parts.offset = reinterpret_cast<std::int64_t*>(
        aligned(parts.wide + wide + Dropping::words(keys)));
    jobs.for_blocks(job, [&](const MapBlock& block) {
      conv ? strip(f, weights, block, parts) : plain_block(f, block, parts);
    });
  });
}

// Clears the context of rows without any key, which belong to no block.
template <typename T>
void clear_rows(const FusedAttentionForward::Args& args) {
  const MapLayout& layout = args.in.layout;
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    if (layout.n_k(b) > 0) continue;
    for (std::int64_t i = layout.q_offsets[b]; i < layout.q_offsets[b + 1];
         ++i) {
      T* const y = args.y.as<T>() + i * args.y.strides[0];
      __builtin_memset(static_cast<void*>(y), 0,
                       static_cast<std::size_t>(args.y.shape[1]) * sizeof(T));
    }
  }
}

}  // namespace

template <>
void run<FusedAttentionForward>(const FusedAttentionForward::Args& args) {
  if (args.in.q.dtype == DType::f32) {
    clear_rows<float>(args);
    return forward_of<FloatProducts<float>>(args);
  }
  clear_rows<bfloat16>(args);
#if defined(__AVX512F__)
  if (takes_pairs()) {
    return takes_tiles() ? forward_of<TileProducts>(args)
                         : forward_of<PairProducts>(args);
  }
#endif
  forward_of<FloatProducts<bfloat16>>(args);
}

}  // namespace ea::simd::EA_TARGET
