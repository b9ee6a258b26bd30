// The gradient of the logits of fused attention, tile by tile, and what it
// gives to queries, keys and values.
#pragma once

#include "kernels/cuda/fused_tiles.cuh"

namespace ea::cuda {

// The rows that the gradients of tiles are made of.
template <typename T>
struct GradientRows {
  StagedRows<T> q, k, dy, v;
};

// What the gradient of the logits is made of:
// dL = t P (dP - sum_j dP_j P_j) + dcarry, where P = exp(t L - greatest) / sum
// and dP = dY V^T behind dropout's mask.
template <typename T>
struct LogitGradient {
  using S = Share<T>;
  TokenRows<T> q, k, dy, v;
  const float* statistics;
  const T* dcarry;  // or null
  float* dots;      // [rows] sum_j dP_j P_j
  std::int64_t heads;
  float softmax_scale;
  DropBits drop;

  // Rows of a head, none of them in its square yet.
  __device__ GradientRows<T> rows_of(const MapBlock& at, std::int64_t h,
                                     const TileSpace<T>& space) const {
    return {staged(q, at.first_query, at.queries, h, space.square(0)),
            staged(k, at.first_key, at.keys, h, space.square(1)),
            staged(dy, at.first_query, at.queries, h, space.square(2)),
            staged(v, at.first_key, at.keys, h, space.square(3))};
  }
  // What dropout leaves of a tile.
  __device__ void drop_from(S& tile, std::uint32_t kept) const {
    const float factor = drop.factor();
    each_cell(tile, [&](int r, int c) {
      float& one = tile.at(r, c);
      one = is_kept<S>(kept, r, c) ? one * factor : 0.0f;
    });
  }
  // dP of a tile, 0 where no cell exists.
  __device__ S of_probabilities(const MapBlock& at, const SquareTile& tile,
                                StagedRows<T>& dy_rows, StagedRows<T>& v_rows,
                                std::uint32_t kept) const {
    S dp = multiply(dy_rows, v_rows, tile);
    drop_from(dp, kept);
    set_missing(at, tile, dp, 0.0f);
    return dp;
  }
  // dP to dL, 0 where no cell exists.
  __device__ void to_logits(const MapBlock& at, const SquareTile& tile,
                            const TileCells<S>& cells, const S& p,
                            const float (&dot)[S::kRows], S& d) const {
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      float more[S::kCells] = {};
      if (dcarry != nullptr) {
        load_row(d, dcarry + cells.first[r], cells.count[r], more);
      }
#pragma unroll
      for (int c = 0; c < S::kCells; ++c) {
        d.at(r, c) =
            softmax_scale * p.at(r, c) * (d.at(r, c) - dot[r]) + more[c];
      }
    }
    set_missing(at, tile, d, 0.0f);
  }
};

// The statistics of the rows of a thread, 0 beyond the tile, where P is 0.
template <typename S>
struct RowStatistics {
  float greatest[S::kRows] = {}, inverse[S::kRows] = {};

  __device__ RowStatistics(const float* statistics, std::int64_t number,
                           int rows, const S& share) {
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      if (share.row(r) >= rows) continue;
      const float* const from = statistics + 2 * (number + share.row(r));
      greatest[r] = from[0];
      inverse[r] = from[1];
    }
  }
  // Logits to P, 0 where no cell exists.
  __device__ void probabilities(const MapBlock& at, const SquareTile& tile,
                                float softmax_scale, S& l) const {
    each_cell(l, [&](int r, int c) {
      l.at(r, c) = expf(softmax_scale * l.at(r, c) - greatest[r]) * inverse[r];
    });
    set_missing(at, tile, l, 0.0f);
  }
};

// scale times a share of `count` rows of tokens from `first` on, of columns
// `column`.. of a head.
template <typename T>
__device__ inline void store_tokens(const Share<T>& share, float scale,
                                    const TokenRows<T>& to, std::int64_t first,
                                    int count, std::int64_t h, int column) {
#pragma unroll
  for (int r = 0; r < Share<T>::kRows; ++r) {
    if (share.row(r) >= count) continue;
    store_row(share, r, scale, to.row(first + share.row(r), h) + column,
              of_side(to.width - column));
  }
}

// What rows of dL go to. kConvolved: dL itself, for the convolution; else dQ =
// scale dL K and dM = p dL.
template <typename T>
struct RowGradient {
  float* dl;
  TokenRows<T> dq;
  T* dprevious;    // or null
  T* dscore_bias;  // s dL, or null
  float p, s, scale;

  template <bool kConvolved>
  __device__ void store(const Share<T>& d, const TileCells<Share<T>>& cells,
                        bool first) const {
#pragma unroll
    for (int r = 0; r < Share<T>::kRows; ++r) {
      const std::int64_t cell = cells.first[r];
      const int count = cells.count[r];
      if constexpr (kConvolved) {
        store_row(d, r, 1.0f, dl + cell, count);
      } else {
        if (first && dprevious != nullptr) {
          store_row(d, r, p, dprevious + cell, count);
        }
        if (first && dscore_bias != nullptr) {
          store_row(d, r, s, dscore_bias + cell, count);
        }
      }
    }
  }
};

// A block has 64 queries of a head and walks along their keys twice: for the
// dots, and for dL.
template <typename T, bool kConvolved, typename Logits>
__global__ void __launch_bounds__(kProductThreads, kGradientBlocks)
    row_gradient_kernel(MapBlocks blocks, LogitGradient<T> g, RowGradient<T> to,
                        Logits logits) {
  using S = Share<T>;
  EA_DYNAMIC_SHARED(T, memory);
  const TileSpace<T> space{memory};
  const MapBlock at = blocks.find(blockIdx.x);
  const TileJob job(at, at.queries, kConvolved ? 1 : to.dq.width);
  const std::int64_t h = job.head;
  const bool first = job.column == 0;
  const int rows = of_side(at.queries - job.row);
  auto [q, k, dy, v] = g.rows_of(at, h, space);
  q.move(job.row);
  dy.move(job.row);
  S dq;
  const RowStatistics<S> statistics(
      g.statistics, row_number(at, g.heads, h, job.row), rows, dq);
  float dots[S::kRows] = {};
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    for (int j = 0; j < at.keys; j += kSide) {
      const SquareTile tile(at, job.row, j);
      const TileCells<S> cells(at, h, tile, dq);
      k.move(j);
      v.move(j);
      S d = g.of_probabilities(at, tile, dy, v, kept_cells(g.drop, cells));
      S p = logits.tile(at, tile, cells, q, k, false);
      statistics.probabilities(at, tile, g.softmax_scale, p);
      if (pass == 0) {
        each_cell(d, [&](int r, int c) { dots[r] += p.at(r, c) * d.at(r, c); });
        continue;
      }
      g.to_logits(at, tile, cells, p, dots, d);
      to.template store<kConvolved>(d, cells, first);
      if (!kConvolved) {
        add_rows<false>(space, d, k, job.column, tile.columns, rows,
                        of_side(to.dq.width - job.column), dq);
      }
    }
    if (pass == 1) break;
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) dots[r] = over_row(dq, dots[r], Plus{});
  }
  if constexpr (!kConvolved) {
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      if (!first || dq.column(0) != 0 || dq.row(r) >= rows) continue;
      g.dots[row_number(at, g.heads, h, job.row + dq.row(r))] = dots[r];
    }
    store_tokens(dq, to.scale, to.dq, at.first_query + job.row, rows, h,
                 job.column);
  }
}

// dV = P^T dY behind dropout's mask and dK = scale dS^T Q; dS: from memory
// where there is a convolution, else dL, made again.
template <typename T>
struct KeyGradient {
  const float* ds;
  TokenRows<T> dk, dv;
  float scale;

  __host__ __device__ std::int64_t widest() const {
    return dk.width > dv.width ? dk.width : dv.width;
  }
};

// dS of a tile from P.
template <bool kConvolved, typename T>
__device__ inline Share<T> score_gradient(
    const LogitGradient<T>& g, const float* stored, const MapBlock& at,
    const SquareTile& tile, const TileCells<Share<T>>& cells, const Share<T>& p,
    StagedRows<T>& dy, StagedRows<T>& v, std::int64_t number,
    std::uint32_t kept) {
  using S = Share<T>;
  S ds;
  if constexpr (kConvolved) {
    ds = load_tile(stored, cells);
    set_missing(at, tile, ds, 0.0f);
  } else {
    ds = g.of_probabilities(at, tile, dy, v, kept);
    float dots[S::kRows];
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      dots[r] = p.row(r) < tile.rows ? g.dots[number + p.row(r)] : 0.0f;
    }
    g.to_logits(at, tile, cells, p, dots, ds);
  }
  return ds;
}

// A block has 64 keys of a head and walks along their queries.
template <typename T, bool kConvolved, typename Logits>
__global__ void __launch_bounds__(kProductThreads, kGradientBlocks)
    key_gradient_kernel(MapBlocks blocks, LogitGradient<T> g, KeyGradient<T> to,
                        Logits logits) {
  using S = Share<T>;
  EA_DYNAMIC_SHARED(T, memory);
  const TileSpace<T> space{memory};
  const MapBlock at = blocks.find(blockIdx.x);
  const TileJob job(at, at.keys, to.widest());
  const std::int64_t h = job.head;
  // dK or dV may have no column left; then no thread of the block adds to it.
  const std::int64_t dk_left = to.dk.width - job.column;
  const std::int64_t dv_left = to.dv.width - job.column;
  const int keys = of_side(at.keys - job.row);
  auto [q, k, dy, v] = g.rows_of(at, h, space);
  k.move(job.row);
  v.move(job.row);
  S dk, dv;
  for (int i0 = 0; i0 < at.queries; i0 += kSide) {
    const SquareTile tile(at, i0, job.row);
    const TileCells<S> cells(at, h, tile, dk);
    const std::int64_t number = row_number(at, g.heads, h, i0);
    q.move(i0);
    dy.move(i0);
    S p = logits.tile(at, tile, cells, q, k, false);
    RowStatistics<S>(g.statistics, number, tile.rows, p)
        .probabilities(at, tile, g.softmax_scale, p);
    const std::uint32_t kept = kept_cells(g.drop, cells);
    const S ds = score_gradient<kConvolved>(g, to.ds, at, tile, cells, p, dy, v,
                                            number, kept);
    g.drop_from(p, kept);
    if (dv_left > 0) {
      add_rows<true>(space, p, dy, job.column, tile.rows, keys,
                     of_side(dv_left), dv);
    }
    if (dk_left > 0) {
      add_rows<true>(space, ds, q, job.column, tile.rows, keys,
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
  for_map_blocks(layout, count, [&](const MapBlocks& blocks, unsigned n) {
    launch(current_stream(), n, kProductThreads,
           TileSpace<T>::bytes(kGradientSquares),
           row_gradient_kernel<T, kConvolved, Logits>, blocks, g, to, logits);
  });
}

template <typename T, bool kConvolved, typename Logits>
void run_keys(const MapLayout& layout, const LogitGradient<T>& g,
              const KeyGradient<T>& to, const Logits& logits) {
  const auto count = [&](std::int64_t, std::int64_t keys) {
    return layout.heads * ProductSize{keys, to.widest(), 0}.tiles();
  };
  for_map_blocks(layout, count, [&](const MapBlocks& blocks, unsigned n) {
    launch(current_stream(), n, kProductThreads,
           TileSpace<T>::bytes(kGradientSquares),
           key_gradient_kernel<T, kConvolved, Logits>, blocks, g, to, logits);
  });
}

}  // namespace ea::cuda
