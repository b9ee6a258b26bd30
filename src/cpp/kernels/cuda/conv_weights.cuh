// The gradients of the convolution's weight and bias: sums over the rows of a
// block in shared memory, then over blocks.
#pragma once

#include "kernels/cuda/conv_kernel.cuh"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/sum_columns.h"
#include "tensor/tensor_view.h"

namespace ea::cuda {

// Adds dweight[o, c, u, v] = sum over cells of G[o, i, j] X[c, i + u - r, j + v
// - r] of a block to sums. g: [rows, columns, heads], x: the window around it.
// Each sum has one owner. float32: a thread has a weight.
template <int kG, int kX>
__device__ inline void add_weights(const ConvShape& s, const float* g,
                                   const float* x, float* sums, float) {
  for (int e = static_cast<int>(threadIdx.x); e < s.heads * s.heads * s.taps();
       e += kConvThreads) {
    const int tap = e % s.taps(), pair = e / s.taps();
    const int o = pair / s.heads, c = pair % s.heads;
    float total = 0.0f;
    for (int i = 0; i < s.rows(); ++i) {
      const float* const from =
          x + ((i + tap / s.kernel) * s.width() + tap % s.kernel) * s.stride() +
          c;
      for (int j = 0; j < s.columns; ++j) {
        total += g[(i * s.columns + j) * s.stride() + o] * from[j * s.stride()];
      }
    }
    sums[e] += total;
  }
}

// bfloat16: for a tap, dW [16 outputs, 8 inputs] = G [16, cells] X [cells, 8];
// a warp has such a tile and walks the cells, 16 neighbours at a time.
template <int kG, int kX>
__device__ inline void add_weights(const ConvShape& s, const float* g,
                                   const float* x, float* sums, bfloat16) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int outs = s.head_tiles(), ins = (s.heads + kTileN - 1) / kTileN;
  for (int job = static_cast<int>(threadIdx.x) / kWarp;
       job < s.taps() * outs * ins; job += kConvWarps) {
    const int tap = job / ins / outs;
    const int out = job / ins % outs * kTileM;
    const int in = job % ins * kTileN;
    FragmentC total;
    for (int i = 0; i < s.rows(); ++i) {
      const float* const from =
          x + ((i + tap / s.kernel) * s.width() + tap % s.kernel) * s.stride();
      for (int j = 0; j < s.columns; j += kTileK) {
        const auto left = [&](int column, int o) {
          return column < s.columns && o < s.heads
                     ? g[(i * s.columns + column) * s.stride() + o]
                     : 0.0f;
        };
        const auto right = [&](int column, int c) {
          return column < s.columns && c < s.heads
                     ? from[column * s.stride() + c]
                     : 0.0f;
        };
        std::uint32_t a[4][kG], b[2][kX];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const int column = j + lane % 4 * 2 + k / 2 * 8;
          const int o = out + lane / 4 + k % 2 * 8;
          split_pair(left(column, o), left(column + 1, o), a[k]);
        }
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const int column = j + lane % 4 * 2 + k * 8;
          const int c = in + lane / 4;
          split_pair(right(column, c), right(column + 1, c), b[k]);
        }
#pragma unroll
        for (int p = 0; p < kG; ++p) {
#pragma unroll
          for (int q = 0; q < kX; ++q) {
            if (!parts_meet(p, q)) continue;
            mma(total, FragmentA{{a[0][p], a[1][p], a[2][p], a[3][p]}},
                FragmentB{{b[0][q], b[1][q]}});
          }
        }
      }
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int o = out + row_of_c(lane, k), c = in + column_of_c(lane, k);
      if (o < s.heads && c < s.heads) {
        sums[(o * s.heads + c) * s.taps() + tap] += total.c[k];
      }
    }
  }
}

// dbias[o] = sum of G[o]; a warp has a head.
__device__ inline void add_bias(const ConvShape& s, const float* g,
                                float* sums) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int o = static_cast<int>(threadIdx.x) / kWarp; o < s.heads;
       o += kConvWarps) {
    float total = 0.0f;
    for (int e = lane; e < s.rows() * s.columns; e += kWarp) {
      total += g[e * s.stride() + o];
    }
    total = warp_reduce(total);
    if (lane == 0) sums[o] += total;
  }
}

// A block has some rows of a sequence and walks along the keys. G and X: what
// fills windows (see FromCells); G lies where `shift` moves X's result.
template <typename T, typename G, typename X>
__global__ void __launch_bounds__(kConvThreads, 4)
    weights_kernel(MapBlocks blocks, ConvShape shape, MapShift shift, G g, X x,
                   float* dweight, float* dbias) {
  EA_DYNAMIC_SHARED(float, x_tile);
  float* const g_tile = x_tile + shape.window();
  float* const sums = g_tile + shape.results();
  const int weights = shape.heads * shape.heads * shape.taps();
  const MapBlock at = blocks.find(blockIdx.x);
  const std::int64_t i0 = at.number * shape.rows();
  for (int e = static_cast<int>(threadIdx.x); e < weights + shape.heads;
       e += kConvThreads) {
    sums[e] = 0.0f;
  }
  for (std::int64_t j0 = 0; j0 < at.keys; j0 += shape.columns) {
    __syncthreads();
    x.fill(at,
           Window{i0 - shape.radius(), j0 - shape.radius(), kTileM,
                  shape.width(), shape.heads},
           x_tile);
    g.fill(at,
           Window{i0 + shift.down, j0 + shift.right, shape.rows(),
                  shape.columns, shape.heads},
           g_tile);
    __syncthreads();
    add_weights<G::kCount, X::kCount>(shape, g_tile, x_tile, sums, T());
    add_bias(shape, g_tile, sums + weights);
  }
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < weights; e += kConvThreads) {
    dweight[std::int64_t{blockIdx.x} * weights + e] = sums[e];
  }
  for (int e = static_cast<int>(threadIdx.x); e < shape.heads;
       e += kConvThreads) {
    dbias[std::int64_t{blockIdx.x} * shape.heads + e] = sums[weights + e];
  }
}

inline std::size_t weights_bytes(const ConvShape& s) {
  return sizeof(float) *
         static_cast<std::size_t>(s.window() + s.results() +
                                  s.heads * s.heads * s.taps() + s.heads);
}

inline ConvShape shape_of_weights(std::int64_t heads, std::int64_t kernel) {
  return conv_shape(heads, kernel, shared_limits(), weights_bytes);
}

// dweight and dbias, each optional.
template <typename T, typename G, typename X>
void run_weights(const MapLayout& layout, std::int64_t kernel,
                 const MapShift& shift, const G& g, const X& x,
                 const TensorView& dweight, const TensorView& dbias) {
  const ConvShape shape = shape_of_weights(layout.heads, kernel);
  if constexpr (requires { x.value; }) {
    if (shape.columns == 0) {
      return run_direct_weights<T>(layout, shape, shift, g.value, x.value,
                                   dweight, dbias);
    }
  }
  const std::int64_t weights = layout.heads * layout.heads * shape.taps();
  const auto count = [&](std::int64_t queries, std::int64_t keys) {
    return keys == 0 ? 0 : (queries + shape.rows() - 1) / shape.rows();
  };
  std::int64_t all = 0;
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    all += count(layout.n_q(b), layout.n_k(b));
  }
  const Scratch<float> dw(current_stream(), all * weights);
  const Scratch<float> db(current_stream(), all * layout.heads);
  std::int64_t done = 0;
  for_map_blocks(layout, count, [&](const MapBlocks& blocks, unsigned here) {
    launch(current_stream(), here, kConvThreads, weights_bytes(shape),
           weights_kernel<T, G, X>, blocks, shape, shift, g, x,
           dw.data() + done * weights, db.data() + done * layout.heads);
    done += here;
  });
  if (dweight.defined()) {
    sum_columns(dw.data(), dweight.as<T>(), all, weights);
  }
  if (dbias.defined()) {
    sum_columns(db.data(), dbias.as<T>(), all, layout.heads);
  }
}

}  // namespace ea::cuda
