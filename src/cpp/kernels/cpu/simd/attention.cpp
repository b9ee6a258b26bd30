// SIMD attention products by sequence and head (kernels/attention.h).
#include "kernels/attention.h"
#include "kernels/cpu/simd/cells-inl.h"
#include "kernels/cpu/simd/factors-inl.h"
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// One (sequence, head) and the scratch of the job that runs it.
struct HeadJob {
  Existing cells;
  std::int64_t n_q, n_k, d;
  std::int64_t query, key, column, cell;  // first of each
  float* packed;                          // fits any operand of any head
  float* wide_c;  // a float32 result on its way to bfloat16
  float* wide_a;  // a bfloat16 operand as float32, or the maps of map_factor()
};

// Calls fn(HeadJob) for every head of every sequence. A job is a run of heads;
// its size depends on the average work per head only (some ten microseconds).
// `reads_maps` tells whether fn calls map_factor().
template <typename T, typename Fn>
void for_heads(const MapLayout& layout, std::int64_t width, bool reads_maps,
               Fn&& fn) {
  constexpr std::int64_t kJobWork = 1 << 18;  // multiply-adds
  const std::int64_t heads = layout.heads * layout.sequences;
  if (heads == 0) return;
  const std::int64_t d = width / layout.heads;
  std::int64_t longest = 0;
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    const std::int64_t n_q = layout.n_q(b), n_k = layout.n_k(b);
    longest = longest < n_q ? n_q : longest;
    longest = longest < n_k ? n_k : longest;
  }
  const std::int64_t work = layout.numel() / heads * d + 1;
  const std::int64_t grain = work < kJobWork ? kJobWork / work : 1;
  const std::int64_t side = longest + kPanel;  // padded
  const std::int64_t packed = side * (d + kPanel);
  constexpr bool kWiden = sizeof(T) < sizeof(float);
  const bool copies = kWiden || (reads_maps && !layout.dense());
  const std::int64_t square = side * (side > d ? side : d);
  const std::int64_t size_c = kWiden ? square : 0, size_a = copies ? square : 0;
  parallel_chunks(heads, grain, [&](std::int64_t begin, std::int64_t end) {
    const Scratch scratch((packed + size_c + size_a) * sizeof(float));
    float* const memory = scratch.as<float>();
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t b = i / layout.heads, h = i % layout.heads;
      const std::int64_t n_q = layout.n_q(b), n_k = layout.n_k(b);
      fn(HeadJob{Existing(layout, b), n_q, n_k, d, layout.q_offsets[b],
                 layout.k_offsets[b], h * d, layout.begin(b) + h * n_q * n_k,
                 memory, memory + packed, memory + packed + size_c});
    }
  });
}

// Writes maps [n_q, n_k] = scale a B for the packed B, 0 where no cell exists.
// Causal maps are computed a few rows at a time, up to the last column that the
// last of these rows sees.
template <typename T>
void store_maps(const HeadJob& j, Rows<const T> a, float scale, T* maps) {
  const bool whole = j.cells.columns(0) == j.n_k;
  const std::int64_t most = whole ? j.n_q : 2 * kTileRows;
  for (std::int64_t i = 0; i < j.n_q; i += most) {
    const std::int64_t rows = j.n_q - i < most ? j.n_q - i : most;
    const std::int64_t cols = j.cells.columns(i + rows - 1);
    multiply_into(factor(a.data + i * a.stride, a.stride, rows, j.d, j.wide_a),
                  j.packed, rows, j.d, cols, scale,
                  Rows<T>{maps + i * j.n_k, j.n_k}, j.wide_c);
    for (std::int64_t r = i; r < i + rows; ++r) {
      j.cells.clear(r, maps + r * j.n_k);
    }
  }
}

// Returns maps [n_q, n_k] as a left factor, 0 where no cell exists.
template <typename T>
Factor map_factor(const HeadJob& j, const T* maps) {
  if (j.cells.all()) return factor(maps, j.n_k, j.n_q, j.n_k, j.wide_a);
  for (std::int64_t i = 0; i < j.n_q; ++i) {
    float* const row = j.wide_a + i * j.n_k;
    for_vectors(j.n_k, [&](std::int64_t k, auto part) {
      store(row + k, load(maps + i * j.n_k + k, part), part);
    });
    j.cells.clear(i, row);
  }
  return {j.wide_a, j.n_k, 1};
}

// S = scale Q K^T.
template <typename T>
void scores_of(const AttentionScores::Args& args) {
  for_heads<T>(args.layout, args.q.shape[1], false, [&](const HeadJob& j) {
    const auto q = rows_of<const T>(args.q, j.query, j.column);
    const auto k = rows_of<const T>(args.k, j.key, j.column);
    pack_transposed(k.data, k.stride, j.d, j.n_k, j.packed);
    store_maps(j, q, static_cast<float>(args.scale),
               args.scores.as<T>() + j.cell);
  });
}

// dQ = scale dS K, dK = scale dS^T Q.
template <typename T>
void scores_backward_of(const AttentionScoresBackward::Args& args) {
  const float scale = static_cast<float>(args.scale);
  for_heads<T>(args.layout, args.q.shape[1], true, [&](const HeadJob& j) {
    const auto q = rows_of<const T>(args.q, j.query, j.column);
    const auto k = rows_of<const T>(args.k, j.key, j.column);
    const Factor ds = map_factor(j, args.dscores.as<const T>() + j.cell);
    pack(k.data, k.stride, j.n_k, j.d, j.packed);
    multiply_into(ds, j.packed, j.n_q, j.n_k, j.d, scale,
                  rows_of<T>(args.dq, j.query, j.column), j.wide_c);
    pack(q.data, q.stride, j.n_q, j.d, j.packed);
    multiply_into(transposed(ds), j.packed, j.n_k, j.n_q, j.d, scale,
                  rows_of<T>(args.dk, j.key, j.column), j.wide_c);
  });
}

// Y = P V.
template <typename T>
void context_of(const AttentionContext::Args& args) {
  for_heads<T>(args.layout, args.v.shape[1], true, [&](const HeadJob& j) {
    const auto v = rows_of<const T>(args.v, j.key, j.column);
    pack(v.data, v.stride, j.n_k, j.d, j.packed);
    multiply_into(map_factor(j, args.p.as<const T>() + j.cell), j.packed, j.n_q,
                  j.n_k, j.d, 1.0f, rows_of<T>(args.y, j.query, j.column),
                  j.wide_c);
  });
}

// dP = dY V^T, dV = P^T dY.
template <typename T>
void context_backward_of(const AttentionContextBackward::Args& args) {
  for_heads<T>(args.layout, args.v.shape[1], true, [&](const HeadJob& j) {
    const auto dy = rows_of<const T>(args.dy, j.query, j.column);
    const auto v = rows_of<const T>(args.v, j.key, j.column);
    pack_transposed(v.data, v.stride, j.d, j.n_k, j.packed);
    store_maps(j, dy, 1.0f, args.dp.as<T>() + j.cell);
    pack(dy.data, dy.stride, j.n_q, j.d, j.packed);
    const Factor p = map_factor(j, args.p.as<const T>() + j.cell);
    multiply_into(transposed(p), j.packed, j.n_k, j.n_q, j.d, 1.0f,
                  rows_of<T>(args.dv, j.key, j.column), j.wide_c);
  });
}

}  // namespace

EA_RUN(AttentionScores, scores_of, q)
EA_RUN(AttentionScoresBackward, scores_backward_of, q)
EA_RUN(AttentionContext, context_of, p)
EA_RUN(AttentionContextBackward, context_backward_of, p)

}  // namespace ea::simd::EA_TARGET
