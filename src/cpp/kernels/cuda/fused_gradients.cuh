// The gradient of the logits of fused attention, tile by tile, and the
// gradients of queries, keys and values from it.
#pragma once

#include "kernels/cuda/fused_tiles.cuh"

namespace ea::cuda {

// Token rows from which tiles of gradients are computed.
template <typename T>
struct GradientRows {
  StagedRows<T> q, k, dy, v;
};

// Inputs of the gradient of the logits: dL = t P (dP - sum_j dP_j P_j) +
// dcarry, where P = exp(t L - greatest) / sum and dP = dY V^T masked by
// dropout.
template <typename T>
struct LogitGradient {
  using S = Share<T>;
  TokenRows<T> q, k, dy, v;
  const float* statistics;
  const T* dcarry;  // or null
  float* dots;      // [rows] sum_j dP_j P_j
  std::int64_t heads;
  float softmax_scale;
  KeptCells<S> kept;

  // Returns a head's rows, none of them in its square yet.
  __device__ GradientRows<T> rows_of(const MapBlock& at, std::int64_t h,
                                     const TileSpace<T>& space) const {
    return {staged(q, at.first_query, at.queries, h, space.of_rows(0)),
            staged(k, at.first_key, at.keys, h, space.of_rows(1)),
            staged(dy, at.first_query, at.queries, h, space.of_rows(2)),
            staged(v, at.first_key, at.keys, h, space.of_rows(3))};
  }
  // Applies dropout to a tile.
  __device__ void drop_from(S& tile, std::uint32_t bits) const {
    const float factor = kept.drop.factor();
    each_cell(tile, [&](int r, int c) {
      float& one = tile.at(r, c);
      one = is_kept<S>(bits, r, c) ? one * factor : 0.0f;
    });
  }
  // Returns dP of a tile, 0 where no cell exists.
  __device__ S of_probabilities(const MapBlock& at, const SquareTile& tile,
                                StagedRows<T>& dy_rows, StagedRows<T>& v_rows,
                                std::uint32_t bits) const {
    S dp = multiply(dy_rows, v_rows, tile);
    drop_from(dp, bits);
    set_missing(at, tile, dp, 0.0f);
    return dp;
  }
  // Convert dP to dL without the dots, t P dP + dcarry, and then to full dL.
  __device__ void without_dots(const MapBlock& at, const SquareTile& tile,
                               const TileCells<S>& cells, const S& p,
                               S& d) const {
    each_cell(d,
              [&](int r, int c) { d.at(r, c) *= softmax_scale * p.at(r, c); });
    if (dcarry != nullptr) {
      add_tile(dcarry, cells, 1.0f, d);
      set_missing(at, tile, d, 0.0f);
    }
  }
  __device__ void with_dots(const S& p, const float (&dot)[S::kRows],
                            S& d) const {
    each_cell(d, [&](int r, int c) {
      d.at(r, c) -= softmax_scale * dot[r] * p.at(r, c);
    });
  }
};

// Statistics of a thread's rows, 0 beyond the tile, where P is 0. greatest: as
// an exponent of 2.
template <typename S>
struct RowStatistics {
  float greatest[S::kRows] = {}, inverse[S::kRows] = {};

  __device__ RowStatistics(const float* statistics, std::int64_t number,
                           int rows, const S& share) {
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      if (share.row(r) >= rows) continue;
      const float* const from = statistics + 2 * (number + share.row(r));
      greatest[r] = kLog2OfE * from[0];
      inverse[r] = from[1];
    }
  }
  // Converts logits to P, 0 where no cell exists.
  __device__ void probabilities(const MapBlock& at, const SquareTile& tile,
                                float softmax_scale, S& l) const {
    const float t = softmax_scale * kLog2OfE;
    each_cell(l, [&](int r, int c) {
      l.at(r, c) = exp2_near(t * l.at(r, c) - greatest[r]) * inverse[r];
    });
    set_missing(at, tile, l, 0.0f);
  }
};

// Destination of rows of dL. kConvolved: dL itself, for the convolution;
// otherwise dQ = scale dL K.
template <typename T>
struct RowGradient {
  float* dl;
  TokenRows<T> dq;
  float scale;
};

// Each block loops over the keys of 64 queries of a head. The dots are known
// only after the last key, so the loop computes U of dL = U - t dot P. If
// kConvolved, U is stored and completed in a second loop. Otherwise P K is
// accumulated along with U K, and dQ = scale (U K - t dot P K).
template <typename T, bool kConvolved, typename Logits>
__global__ void __launch_bounds__(kProductThreads,
                                  (kGradientBlocks<T, kConvolved>))
    row_gradient_kernel(MapBlocks blocks, LogitGradient<T> g, RowGradient<T> to,
                        Logits logits) {
  using S = Share<T>;
  EA_DYNAMIC_SHARED(T, memory);
  const TileSpace<T> space{memory, kGradientRows};
  const MapBlock at = blocks.find(blockIdx.x);
  const TileJob job(at, at.queries, kConvolved ? 1 : to.dq.width);
  const std::int64_t h = job.head;
  const int rows = of_side(at.queries - job.row);
  auto [q, k, dy, v] = g.rows_of(at, h, space);
  q.move(job.row, 0);
  dy.move(job.row, 0);
  S uk, pk;
  const std::int64_t number = row_number(at, g.heads, h, job.row);
  const RowStatistics<S> statistics(g.statistics, number, rows, uk);
  float dots[S::kRows] = {};
  for (int j = 0; j < at.keys; j += kSide) {
    const SquareTile tile(at, job.row, j);
    const TileCells<S> cells(at, h, tile, uk);
    k.move(j, 0);
    v.move(j, 0);
    if constexpr (Logits::kMade) bring(q, k, dy, v);
    S p = logits.tile(at, tile, cells, q, k, false);
    if constexpr (!Logits::kMade) bring(dy, v);  // while the logits are loading
    statistics.probabilities(at, tile, g.softmax_scale, p);
    S d = g.of_probabilities(at, tile, dy, v, g.kept.draw(tile, cells, number));
    each_cell(d, [&](int r, int c) { dots[r] += p.at(r, c) * d.at(r, c); });
    g.without_dots(at, tile, cells, p, d);
    if constexpr (kConvolved) {
      store_tile(d, 1.0f, to.dl, cells);
    } else {
      add_rows(space.of_tile(0), k, job.column, tile.columns, rows,
               of_side(to.dq.width - job.column), OwnProduct<S>{d, uk},
               OwnProduct<S>{p, pk});
    }
  }
#pragma unroll
  for (int r = 0; r < S::kRows; ++r) dots[r] = over_row(uk, dots[r], Plus{});
  if constexpr (kConvolved) {
#pragma unroll 2
    for (int j = 0; j < at.keys; j += kSide) {
      const SquareTile tile(at, job.row, j);
      const TileCells<S> cells(at, h, tile, uk);
      S p = logits.tile(at, tile, cells, q, k, false);
      statistics.probabilities(at, tile, g.softmax_scale, p);
      S d = load_tile(to.dl, cells);
      g.with_dots(p, dots, d);
      store_tile(d, 1.0f, to.dl, cells);
    }
  } else {
    each_cell(uk, [&](int r, int c) {
      uk.at(r, c) -= g.softmax_scale * dots[r] * pk.at(r, c);
    });
    store_tokens(uk, to.scale, to.dq, at.first_query + job.row, rows, h,
                 job.column);
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      if (job.column != 0 || uk.column(0) != 0 || uk.row(r) >= rows) continue;
      g.dots[number + uk.row(r)] = dots[r];
    }
  }
}

// Returns dL of a tile, including the dots, from P.
template <typename T>
__device__ inline Share<T> logit_gradient(
    const LogitGradient<T>& g, const MapBlock& at, const SquareTile& tile,
    const TileCells<Share<T>>& cells, const Share<T>& p, StagedRows<T>& dy,
    StagedRows<T>& v, std::int64_t number, std::uint32_t kept) {
  using S = Share<T>;
  S d = g.of_probabilities(at, tile, dy, v, kept);
  float dots[S::kRows];
#pragma unroll
  for (int r = 0; r < S::kRows; ++r) {
    dots[r] = p.row(r) < tile.rows ? g.dots[number + p.row(r)] : 0.0f;
  }
  g.without_dots(at, tile, cells, p, d);
  g.with_dots(p, dots, d);
  return d;
}

// dM = p dL, and the gradient of the scores' bias, s dL, without a convolution;
// each is optional.
template <typename T>
struct MapGradient {
  T *dprevious, *dscore_bias;
  float p, s;
};

// Each block computes one tile.
template <typename T, typename Logits>
__global__ void __launch_bounds__(kProductThreads, (kGradientBlocks<T, false>))
    map_gradient_kernel(MapBlocks blocks, LogitGradient<T> g, MapGradient<T> to,
                        Logits logits) {
  using S = Share<T>;
  EA_DYNAMIC_SHARED(T, memory);
  const TileSpace<T> space{memory, kGradientRows};
  const MapBlock at = blocks.find(blockIdx.x);
  const TileJob job(at, at.queries, at.keys);
  const std::int64_t h = job.head;
  auto [q, k, dy, v] = g.rows_of(at, h, space);
  q.move(job.row, 0);
  dy.move(job.row, 0);
  k.move(job.column, 0);
  v.move(job.column, 0);
  const SquareTile tile(at, job.row, job.column);
  const TileCells<S> cells(at, h, tile, S());
  const std::int64_t number = row_number(at, g.heads, h, job.row);
  S p = logits.tile(at, tile, cells, q, k, false);
  RowStatistics<S>(g.statistics, number, tile.rows, p)
      .probabilities(at, tile, g.softmax_scale, p);
  const S d = logit_gradient(g, at, tile, cells, p, dy, v, number,
                             g.kept.again(tile, cells, number));
  if (to.dprevious != nullptr) store_tile(d, to.p, to.dprevious, cells);
  if (to.dscore_bias != nullptr) store_tile(d, to.s, to.dscore_bias, cells);
}

// dV = P^T dY with P masked by dropout, and dK = scale dS^T Q. dS: from memory
// with a convolution, otherwise dL, recomputed.
template <typename T>
struct KeyGradient {
  const float* ds;
  TokenRows<T> dk, dv;
  float scale;

  __host__ __device__ std::int64_t widest() const {
    return dk.width > dv.width ? dk.width : dv.width;
  }
};

// Each block loops over the queries of 64 keys of a head.
template <typename T, bool kConvolved, typename Logits>
__global__ void __launch_bounds__(kProductThreads,
                                  (kGradientBlocks<T, kConvolved>))
    key_gradient_kernel(MapBlocks blocks, LogitGradient<T> g, KeyGradient<T> to,
                        Logits logits) {
  using S = Share<T>;
  EA_DYNAMIC_SHARED(T, memory);
  const TileSpace<T> space{memory, kGradientRows};
  const MapBlock at = blocks.find(blockIdx.x);
  const TileJob job(at, at.keys, to.widest());
  const std::int64_t h = job.head;
  // dK or dV may have no column left; then the block does not add to it.
  const std::int64_t dk_left = to.dk.width - job.column;
  const std::int64_t dv_left = to.dv.width - job.column;
  const int keys = of_side(at.keys - job.row);
  auto [q, k, dy, v] = g.rows_of(at, h, space);
  k.move(job.row, 0);
  v.move(job.row, 0);
  S dk, dv;
  for (int i0 = 0; i0 < at.queries; i0 += kSide) {
    const SquareTile tile(at, i0, job.row);
    const TileCells<S> cells(at, h, tile, dk);
    const std::int64_t number = row_number(at, g.heads, h, i0);
    q.move(i0, 0);
    dy.move(i0, 0);
    if constexpr (Logits::kMade) bring(q, k, dy, v);
    S p = logits.tile(at, tile, cells, q, k, false);
    if constexpr (!Logits::kMade) bring(q, dy);  // while the logits are loading
    RowStatistics<S>(g.statistics, number, tile.rows, p)
        .probabilities(at, tile, g.softmax_scale, p);
    const std::uint32_t kept = g.kept.again(tile, cells, number);
    S ds;
    if constexpr (kConvolved) {
      ds = load_tile(to.ds, cells);
      set_missing(at, tile, ds, 0.0f);
    } else {
      ds = logit_gradient(g, at, tile, cells, p, dy, v, number, kept);
    }
    g.drop_from(p, kept);
    // No barrier needed: loading rows had one since the last tiles were read.
    p.put(space.of_tile(0));
    ds.put(space.of_tile(1));
    __syncthreads();
    if (dv_left > 0) {
      add_turned(space.of_tile(0), dy, job.column, tile.rows, keys,
                 of_side(dv_left), dv);
    }
    if (dk_left > 0) {
      add_turned(space.of_tile(1), q, job.column, tile.rows, keys,
                 of_side(dk_left), dk);
    }
  }
  const std::int64_t first = at.first_key + job.row;
  if (dv_left > 0) {
    store_tokens(dv, 1.0f, to.dv, first, keys, h, job.column);
  }
  if (dk_left > 0) {
    store_tokens(dk, to.scale, to.dk, first, keys, h, job.column);
  }
}

template <typename T, bool kConvolved, typename Logits>
void run_rows(const MapLayout& layout, const LogitGradient<T>& g,
              const RowGradient<T>& to, const Logits& logits) {
  const auto count = [&](std::int64_t queries, std::int64_t) {
    return layout.heads *
           ProductSize{queries, kConvolved ? 1 : to.dq.width, 0}.tiles();
  };
  launch_map_blocks(layout, count, kProductThreads,
                    TileSpace<T>::bytes(kGradientRows, kOwnTiles<T>),
                    row_gradient_kernel<T, kConvolved, Logits>, g, to, logits);
}

template <typename T, typename Logits>
void run_maps(const MapLayout& layout, const LogitGradient<T>& g,
              const MapGradient<T>& to, const Logits& logits) {
  if (to.dprevious == nullptr && to.dscore_bias == nullptr) return;
  const auto count = [&](std::int64_t queries, std::int64_t keys) {
    return layout.heads * ProductSize{queries, keys, 0}.tiles();
  };
  launch_map_blocks(layout, count, kProductThreads,
                    TileSpace<T>::bytes(kGradientRows, 0),
                    map_gradient_kernel<T, Logits>, g, to, logits);
}

template <typename T, bool kConvolved, typename Logits>
void run_keys(const MapLayout& layout, const LogitGradient<T>& g,
              const KeyGradient<T>& to, const Logits& logits) {
  const auto count = [&](std::int64_t, std::int64_t keys) {
    return layout.heads * ProductSize{keys, to.widest(), 0}.tiles();
  };
  launch_map_blocks(layout, count, kProductThreads,
                    TileSpace<T>::bytes(kGradientRows, kKeyTiles),
                    key_gradient_kernel<T, kConvolved, Logits>, g, to, logits);
}

}  // namespace ea::cuda
