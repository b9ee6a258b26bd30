// The gradient of the logits of fused attention, tile by tile, and what it
// gives to queries, keys and values.
#pragma once

#include "kernels/cuda/fused_tiles.cuh"

namespace ea::cuda {

// What the gradient of the logits is made of:
// dL = t P (dP - sum_j dP_j P_j) + dcarry, where P = exp(t L - greatest) / sum
// and dP = dY V^T behind dropout's mask.
template <typename T>
struct LogitGradient {
  TokenRows<T> dy, v;
  const float* statistics;
  const T* dcarry;  // or null
  float* dots;      // [rows] sum_j dP_j P_j
  std::int64_t heads;
  float softmax_scale;
  DropBits drop;

  // P of four neighbours from their logits; 0 beyond the map, and where no cell
  // exists.
  __device__ void probabilities(const MapBlock& at, const SquareTile& tile,
                                std::int64_t number, int row, int column,
                                const float* logits, float (&p)[kFour]) const {
    const bool inside = row < tile.rows;
    const float greatest = inside ? statistics[2 * number] : 0.0f;
    const float inverse = inside ? statistics[2 * number + 1] : 0.0f;
#pragma unroll
    for (int k = 0; k < kFour; ++k) {
      p[k] = tile.exists(at, row, column + k)
                 ? expf(softmax_scale * logits[k] - greatest) * inverse
                 : 0.0f;
    }
  }
  __device__ void dropped(std::int64_t cell, float (&x)[kFour]) const {
    if (drop.on()) drop_pack<float>(drop, cell, x);
  }
};

// What rows of dL go to. kConvolved: dL itself, for the convolution; else dQ =
// scale dL K and dM = p dL.
template <typename T>
struct RowGradient {
  float* dl;
  TokenRows<T> k, dq;
  T* dprevious;    // or null
  T* dscore_bias;  // s dL, or null
  float p, s, scale;
};

// A block has 64 queries of a head and walks along their keys twice: for the
// dots, and for dL.
template <typename T, bool kConvolved, typename Logits>
__global__ void __launch_bounds__(kProductThreads,
                                  TileSpace<T>::kTwoSquareBlocks)
    row_gradient_kernel(MapBlocks blocks, LogitGradient<T> g, RowGradient<T> to,
                        Logits logits) {
  EA_DYNAMIC_SHARED(float, memory);
  const TileSpace<T> space(memory);
  const MapBlock at = blocks.find(blockIdx.x);
  const TileJob job(at, at.queries, kConvolved ? 1 : to.dq.width);
  const std::int64_t h = job.head;
  const bool first = job.column == 0;
  const int columns = of_side(to.dq.width - job.column);
  const std::int64_t number = row_number(at, g.heads, h, job.row);
  Share<T> dq;
  float dots[kFours] = {};
  for (int pass = 0; pass < 2; ++pass) {
    for (std::int64_t j = 0; j < at.keys; j += kSide) {
      const SquareTile tile(at, job.row, j);
      logits.fill(at, h, tile, space, false);
      space.multiply(at, h, tile, g.dy, g.v, space.other);
      each_four([&](int i, int row, int column) {
        const int cell = row * kSquareStride + column;
        const std::int64_t begin = at.row(h, job.row + row) + j + column;
        float p[kFour], d[kFour];
        g.probabilities(at, tile, number + row, row, column,
                        space.logits + cell, p);
#pragma unroll
        for (int k = 0; k < kFour; ++k) d[k] = space.other[cell + k];
        g.dropped(begin, d);
#pragma unroll
        for (int k = 0; k < kFour; ++k) {
          const bool exists = tile.exists(at, row, column + k);
          if (pass == 0) {
            if (exists) dots[i] += p[k] * d[k];
            continue;
          }
          float dl = 0.0f;
          if (exists) {
            dl = g.softmax_scale * p[k] * (d[k] - dots[i]);
            if (g.dcarry != nullptr) {
              dl += static_cast<float>(g.dcarry[begin + k]);
            }
          }
          if (tile.inside(row, column + k)) {
            if (kConvolved) to.dl[begin + k] = dl;
            if (!kConvolved && first && to.dprevious != nullptr) {
              to.dprevious[begin + k] = T(to.p * dl);
            }
            if (!kConvolved && first && to.dscore_bias != nullptr) {
              to.dscore_bias[begin + k] = T(to.s * dl);
            }
          }
          space.other[cell + k] = dl;
        }
      });
      __syncthreads();
      if (!kConvolved && pass == 1) {
        space.add(
            TileOperand<true>{space.other}, 0,
            to.k.template operand<false>(at.first_key + j, tile.columns, h),
            job.column, tile.columns, tile.rows, columns, dq);
      }
    }
    if (pass == 1) break;
#pragma unroll
    for (int i = 0; i < kFours; ++i) dots[i] = over_row(dots[i], Plus{});
  }
  if (kConvolved) return;
  const SquareTile rows(at, job.row, 0);
  each_four([&](int i, int row, int column) {
    if (first && column == 0 && row < rows.rows) g.dots[number + row] = dots[i];
  });
  dq.each([&](int i, int e, float sum) {
    if (i >= rows.rows || e >= columns) return;
    to.dq.row(at.first_query + job.row + i, h)[job.column + e] =
        T(to.scale * sum);
  });
}

// dV = P^T dY behind dropout's mask and dK = scale dS^T Q; dS: from memory
// where there is a convolution, else dL, made again.
template <typename T>
struct KeyGradient {
  const float* ds;
  TokenRows<T> q, dk, dv;
  float scale;

  __host__ __device__ std::int64_t widest() const {
    return dk.width > dv.width ? dk.width : dv.width;
  }
};

// A block has 64 keys of a head and walks along their queries.
template <typename T, bool kConvolved, typename Logits>
__global__ void __launch_bounds__(kProductThreads,
                                  TileSpace<T>::kTwoSquareBlocks)
    key_gradient_kernel(MapBlocks blocks, LogitGradient<T> g, KeyGradient<T> to,
                        Logits logits) {
  EA_DYNAMIC_SHARED(float, memory);
  const TileSpace<T> space(memory);
  const MapBlock at = blocks.find(blockIdx.x);
  const TileJob job(at, at.keys, to.widest());
  const std::int64_t h = job.head;
  // dK or dV may have no column left; then no thread of the block adds to it.
  const std::int64_t dk_left = to.dk.width - job.column;
  const std::int64_t dv_left = to.dv.width - job.column;
  const int keys = of_side(at.keys - job.row);
  Share<T> dk, dv;
  for (std::int64_t i0 = 0; i0 < at.queries; i0 += kSide) {
    const SquareTile tile(at, i0, job.row);
    const std::int64_t number = row_number(at, g.heads, h, i0);
    logits.fill(at, h, tile, space, false);
    if (!kConvolved) space.multiply(at, h, tile, g.dy, g.v, space.other);
    each_four([&](int, int row, int column) {
      const int cell = row * kSquareStride + column;
      const std::int64_t begin = at.row(h, i0 + row) + job.row + column;
      float p[kFour], d[kFour];
      g.probabilities(at, tile, number + row, row, column, space.logits + cell,
                      p);
#pragma unroll
      for (int k = 0; k < kFour; ++k) d[k] = space.other[cell + k];
      if (!kConvolved) g.dropped(begin, d);
#pragma unroll
      for (int k = 0; k < kFour; ++k) {
        float ds = 0.0f;
        if (tile.exists(at, row, column + k)) {
          ds = kConvolved
                   ? to.ds[begin + k]
                   : g.softmax_scale * p[k] * (d[k] - g.dots[number + row]);
          if (!kConvolved && g.dcarry != nullptr) {
            ds += static_cast<float>(g.dcarry[begin + k]);
          }
        }
        space.other[cell + k] = ds;
      }
      g.dropped(begin, p);
#pragma unroll
      for (int k = 0; k < kFour; ++k) space.logits[cell + k] = p[k];
    });
    __syncthreads();
    if (dv_left > 0) {
      space.add(TileOperand<false>{space.logits}, 0,
                g.dy.template operand<false>(at.first_query + i0, tile.rows, h),
                job.column, tile.rows, keys, of_side(dv_left), dv);
    }
    if (dk_left > 0) {
      space.add(TileOperand<false>{space.other}, 0,
                to.q.template operand<false>(at.first_query + i0, tile.rows, h),
                job.column, tile.rows, keys, of_side(dk_left), dk);
    }
  }
  const auto store = [&](const Share<T>& share, const TokenRows<T>& rows,
                         std::int64_t left, float scale) {
    share.each([&](int j, int e, float sum) {
      if (j >= keys || e >= left) return;
      rows.row(at.first_key + job.row + j, h)[job.column + e] = T(scale * sum);
    });
  };
  store(dv, to.dv, dv_left, 1.0f);
  store(dk, to.dk, dk_left, to.scale);
}

template <typename T, bool kConvolved, typename Logits>
void run_rows(const MapLayout& layout, const LogitGradient<T>& g,
              const RowGradient<T>& to, const Logits& logits) {
  const auto count = [&](std::int64_t queries, std::int64_t) {
    return layout.heads *
           ProductSize{queries, kConvolved ? 1 : to.dq.width, 0}.tiles();
  };
  for_map_blocks(layout, count, [&](const MapBlocks& blocks, unsigned n) {
    launch(current_stream(), n, kProductThreads, TileSpace<T>::kTwoSquares,
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
    launch(current_stream(), n, kProductThreads, TileSpace<T>::kTwoSquares,
           key_gradient_kernel<T, kConvolved, Logits>, blocks, g, to, logits);
  });
}

}  // namespace ea::cuda
