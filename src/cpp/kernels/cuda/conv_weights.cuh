// Gradients of the convolution's weight and bias: sums over the rows of a block
// in shared memory, then over blocks.
#pragma once

#include "kernels/cuda/conv_kernel.cuh"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/sum_columns.h"
#include "tensor/tensor_view.h"

namespace ea::cuda {

// Warps per block, one for each tap of a 3 x 3 kernel; blocks per
// multiprocessor (two blocks with the windows of BERT's 12 heads fit on sm_80
// and sm_90); rows per block; and windows per block at most, which keeps all
// multiprocessors busy.
inline constexpr int kWeightWarps = 9;
inline constexpr int kWeightThreads = kWeightWarps * kWarp;
inline constexpr int kWeightBlocks = 2;
inline constexpr int kWeightRows = 16;
inline constexpr int kWeightWalk = 4;

// Adds dweight[o, c, u, v] = sum over cells of G[o, i, j] X[c, i + u - r, j + v
// - r] of a block to sums. g: the block's cells; x: the window around them. One
// thread owns each sum. float32: one thread per weight.
template <int kG, int kX>
__device__ inline void add_weights(const ConvShape& s,
                                   const WindowCells<float>& g,
                                   const WindowCells<float>& x, float* sums) {
  for (int e = static_cast<int>(threadIdx.x); e < s.heads * s.heads * s.taps();
       e += kWeightThreads) {
    const int tap = e % s.taps(), pair = e / s.taps();
    const int o = pair / s.heads, c = pair % s.heads;
    float total = 0.0f;
    for (int i = 0; i < s.rows; ++i) {
      const int from = (i + tap / s.kernel) * s.width() + tap % s.kernel;
      for (int j = 0; j < s.columns; ++j) {
        total += g.get<1>(i * s.columns + j, o) * x.get<1>(from + j, c);
      }
    }
    sums[e] += total;
  }
}

// bfloat16: per tap, dW [16 outputs, 16 inputs] = G [16, cells] X [cells, 16].
// Each warp computes one such tile in a loop over the cells, 16 at a time.
template <int kG, int kX>
__device__ inline void add_weights(const ConvShape& s,
                                   const WindowCells<bfloat16>& g,
                                   const WindowCells<bfloat16>& x,
                                   float* sums) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int tiles = s.head_tiles();
  // This lane's row in the four tiles of each side: see load_tiles().
  const int odd = lane / 8 % 2 * 8, upper = lane / 16 * 8;
  const int left = upper + lane % 8, right = odd + lane % 8;
  for (int job = static_cast<int>(threadIdx.x) / kWarp;
       job < s.taps() * tiles * tiles; job += kWeightWarps) {
    const int tap = job / tiles / tiles;
    const int out = job / tiles % tiles * kTileM;
    const int in = job % tiles * kTileM;
    FragmentC total[2];
    for (int i = 0; i < s.rows; ++i) {
      const int from = (i + tap / s.kernel) * s.width() + tap % s.kernel;
      for (int j = 0; j < s.columns; j += kTileK) {
        // If only eight columns are left, the rest of the tile is zeros.
        const bool more = j + kTileM <= s.columns;
        const bfloat16* const of_g =
            g.row(0, more || upper == 0 ? i * s.columns + j + left : g.cells,
                  out + odd);
        const bfloat16* const of_x =
            x.row(0, more || odd == 0 ? from + j + right : x.cells, in + upper);
        FragmentA a[kG];
        std::uint32_t b[kX][4];
#pragma unroll
        for (int p = 0; p < kG; ++p) {
          load_tiles<true>(of_g + p * g.elements(), a[p].a);
        }
#pragma unroll
        for (int q = 0; q < kX; ++q) {
          load_tiles<true>(of_x + q * x.elements(), b[q]);
        }
#pragma unroll
        for (int p = 0; p < kG; ++p) {
#pragma unroll
          for (int q = 0; q < kX; ++q) {
            if (!parts_meet(p, q)) continue;
            mma(total[0], a[p], {{b[q][0], b[q][1]}});
            mma(total[1], a[p], {{b[q][2], b[q][3]}});
          }
        }
      }
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int o = out + row_of_c(lane, k);
        const int c = in + n * kTileN + column_of_c(lane, k);
        if (o < s.heads && c < s.heads) {
          sums[(o * s.heads + c) * s.taps() + tap] += total[n].c[k];
        }
      }
    }
  }
}

// dbias[o] = sum of G[o]; one warp per head.
template <int kG, typename T>
__device__ inline void add_bias(const ConvShape& s, const WindowCells<T>& g,
                                float* sums) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int o = static_cast<int>(threadIdx.x) / kWarp; o < s.heads;
       o += kWeightWarps) {
    float total = 0.0f;
    for (int e = lane; e < s.results(); e += kWarp) {
      total += g.template get<kG>(e, o);
    }
    total = warp_reduce(total);
    if (lane == 0) sums[o] += total;
  }
}

// Each block takes some rows of a sequence and loops over some of the keys. G
// and X fill windows (see FromCells). G is read where `shift` moves X's result.
template <typename T, typename G, typename X>
__global__ void __launch_bounds__(kWeightThreads, kWeightBlocks)
    weights_kernel(MapBlocks blocks, ConvShape shape, MapShift shift, G g, X x,
                   float* dweight, float* dbias) {
  EA_DYNAMIC_SHARED(unsigned char, memory);
  const WindowCells<T> x_tile(memory, shape, shape.window());
  unsigned char* const behind =
      memory + WindowCells<T>::bytes(shape, shape.window());
  const WindowCells<T> g_tile(behind, shape, shape.results());
  float* const sums = reinterpret_cast<float*>(
      behind + WindowCells<T>::bytes(shape, shape.results()));
  const int weights = shape.heads * shape.heads * shape.taps();
  const MapBlock at = blocks.find(blockIdx.x);
  const int span = kWeightWalk * shape.columns;
  const int across = (at.keys + span - 1) / span;
  const int number = static_cast<int>(at.number);
  const int i0 = number / across * shape.rows;
  const int first = number % across * span;
  const int last = first + span < at.keys ? first + span : at.keys;
  const int down = static_cast<int>(shift.down);
  const int right = static_cast<int>(shift.right);
  x_tile.clear();
  g_tile.clear();
  for (int e = static_cast<int>(threadIdx.x); e < weights + shape.heads;
       e += kWeightThreads) {
    sums[e] = 0.0f;
  }
  for (int j0 = first; j0 < last; j0 += shape.columns) {
    __syncthreads();
    x.fill(at,
           Window{i0 - shape.radius(), j0 - shape.radius(), shape.height(),
                  shape.width(), shape.heads},
           x_tile);
    g.fill(
        at,
        Window{i0 + down, j0 + right, shape.rows, shape.columns, shape.heads},
        g_tile);
    __syncthreads();
    add_weights<G::kCount, X::kCount>(shape, g_tile, x_tile, sums);
    add_bias<G::kCount>(shape, g_tile, sums + weights);
  }
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < weights;
       e += kWeightThreads) {
    dweight[std::int64_t{blockIdx.x} * weights + e] = sums[e];
  }
  for (int e = static_cast<int>(threadIdx.x); e < shape.heads;
       e += kWeightThreads) {
    dbias[std::int64_t{blockIdx.x} * shape.heads + e] = sums[weights + e];
  }
}

template <typename T>
std::size_t weights_bytes(const ConvShape& s) {
  const int sums = s.heads * s.heads * s.taps() + s.heads;
  return WindowCells<T>::bytes(s, s.window()) +
         WindowCells<T>::bytes(s, s.results()) +
         16 * static_cast<std::size_t>((sums + 3) / 4);
}

template <typename T>
ConvShape shape_of_weights(std::int64_t heads, std::int64_t kernel,
                           const SharedLimits& limits = shared_limits()) {
  return conv_shape(heads, kernel, kWeightRows, limits, weights_bytes<T>);
}

// Computes dweight and dbias; each is optional.
template <typename T, typename G, typename X>
void run_weights(const MapLayout& layout, std::int64_t kernel,
                 const MapShift& shift, const G& g, const X& x,
                 const TensorView& dweight, const TensorView& dbias) {
  check_heads(layout);
  const ConvShape shape = shape_of_weights<T>(layout.heads, kernel);
  if (shape.columns == 0) {
    return run_direct_weights<T>(layout, shape, shift, g.value, x.value,
                                 dweight, dbias);
  }
  const std::int64_t weights = layout.heads * layout.heads * shape.taps();
  const auto count = [&](std::int64_t queries, std::int64_t keys) {
    const std::int64_t span = kWeightWalk * shape.columns;
    return (queries + shape.rows - 1) / shape.rows * ((keys + span - 1) / span);
  };
  std::int64_t all = 0;
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    all += count(layout.n_q(b), layout.n_k(b));
  }
  const Scratch<float> dw(current_stream(), all * weights);
  const Scratch<float> db(current_stream(), all * layout.heads);
  std::int64_t done = 0;
  for_map_blocks(layout, count, [&](const MapBlocks& blocks, unsigned here) {
    launch(current_stream(), here, kWeightThreads, weights_bytes<T>(shape),
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
