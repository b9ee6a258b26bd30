// The convolution over heads: a block loads a window into shared memory and
// convolves the part inside the halo.
#pragma once

#include <type_traits>

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/conv_direct.cuh"

namespace ea::cuda {

inline constexpr int kConvWarps = kConvThreads / kWarp;
// Blocks per multiprocessor that the registers are limited for; with the
// windows of BERT's 12 heads there is room for one more on sm_90.
inline constexpr int kConvBlocks = 3;
// Rows of a block: the same number for each of its warps.
inline constexpr int kConvRows = 2 * kConvWarps;

// weight [heads, heads, k, k]; turned: as needed for the input's gradient, with
// outputs and inputs exchanged and the taps reversed. bias: null for none.
// shift: applies to the convolution's result; the gradient goes the other way.
template <typename T>
struct ConvWeights {
  const T* weight;
  const T* bias;
  bool turned;
  MapShift shift = {};

  // Rows (columns) from a cell of the result to the centre of its taps.
  __device__ int down() const {
    return static_cast<int>(turned ? shift.down : -shift.down);
  }
  __device__ int right() const {
    return static_cast<int>(turned ? shift.right : -shift.right);
  }
  // Returns whether every cell gets its sum.
  __device__ bool all(const MapBlock& at) const {
    return at.dense() && (turned || shift.none());
  }
  // Returns the result of a cell with sum z; 0 if missing or moved in.
  __device__ float result(const MapBlock& at, std::int64_t i, std::int64_t j,
                          float z) const {
    const bool moved_in = !turned && (i < shift.down || j < shift.right);
    return moved_in || !at.exists(i, j) ? 0.0f : z;
  }

  __device__ float operator()(const ConvShape& s, int out, int in,
                              int tap) const {
    const int first = turned ? in : out, second = turned ? out : in;
    const int at = turned ? s.taps() - 1 - tap : tap;
    return static_cast<float>(
        weight[(first * s.heads + second) * s.taps() + at]);
  }
  __device__ float bias_of(int out) const {
    return bias == nullptr ? 0.0f : static_cast<float>(bias[out]);
  }
};

// Words of shared memory for the weights: float32 as stored, bfloat16 as
// fragments A of the products, [tap, tile of outputs, tile of inputs, lane].
template <typename T>
EA_HOST_DEVICE inline int weight_words(const ConvShape& s) {
  return std::is_same_v<T, float>
             ? s.heads * s.heads * s.taps()
             : s.taps() * s.head_tiles() * s.head_tiles() * kWarp * 4;
}

__device__ inline void stage_weights(const ConvShape& s,
                                     const ConvWeights<float>& weights,
                                     std::uint32_t* to) {
  for (int e = static_cast<int>(threadIdx.x); e < weight_words<float>(s);
       e += kConvThreads) {
    const int pair = e / s.taps();
    to[e] =
        bits_of_float(weights(s, pair / s.heads, pair % s.heads, e % s.taps()));
  }
}

__device__ inline void stage_weights(const ConvShape& s,
                                     const ConvWeights<bfloat16>& weights,
                                     std::uint32_t* to) {
  const int tiles = s.head_tiles();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int tile = static_cast<int>(threadIdx.x) / kWarp;
       tile < s.taps() * tiles * tiles; tile += kConvWarps) {
    const int out = tile / tiles % tiles * kTileM + lane / 4;
    const int in = tile % tiles * kTileK + lane % 4 * 2;
    const int tap = tile / tiles / tiles;
    const auto value = [&](int o, int c) {
      return o < s.heads && c < s.heads ? weights(s, o, c, tap) : 0.0f;
    };
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int o = out + i % 2 * 8, c = in + i / 2 * 8;
      to[(tile * kWarp + lane) * 4 + i] =
          bf16_pair(value(o, c), value(o, c + 1));
    }
  }
}

// Destination of a block's sums. Work: `input` fills the window; finish(first
// cell, which exist, sums) stores the results of the sums of adjacent cells; if
// kGates, gate(block, head, query, key, byte) receives a bit for each of eight
// adjacent cells, set unless its sum <= 0.
template <typename T, typename Work>
struct ConvResults {
  const MapBlock& at;
  const ConvWeights<T>& weights;
  const Work& work;
  int i0, j0;

  // Stores N adjacent cells of head o starting at `column`; returns a bit for
  // each, as in a gate.
  template <int N>
  __device__ unsigned take(int o, int row, int column, float (&z)[N]) const {
    const int i = i0 + row, j = j0 + column;
    const int left = i < at.queries ? at.keys - j : 0;
    unsigned there = ~0u;
    if (!weights.all(at)) {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        if (k >= left) continue;
        z[k] = weights.result(at, i, j + k, z[k]);
        if (!at.exists(i, j + k)) there &= ~(1u << k);
      }
    }
    const std::int64_t cell = at.row(o, i) + j;
    if (left >= N) {
      work.finish(cell, there, z);
    } else {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float one[1] = {z[k]};
        if (k < left) work.finish(cell + k, there >> k, one);
      }
    }
    unsigned open = 0;
#pragma unroll
    for (int k = 0; k < N; ++k) open |= (!(z[k] <= 0.0f) ? 1u : 0u) << k;
    return open;
  }
  __device__ void gate(int o, int row, int column, unsigned open) const {
    const int i = i0 + row, j = j0 + column;
    if (i < at.queries && j < at.keys) {
      work.gate(at, o, i, j, static_cast<std::uint8_t>(open));
    }
  }
};

// Convolves a window. float32: a lane has one cell and four outputs at a time.
template <typename Work>
__device__ inline void convolve(const ConvShape& s,
                                const WindowCells<float>& window,
                                const std::uint32_t* staged,
                                const ConvWeights<float>& weights,
                                const ConvResults<float, Work>& to) {
  constexpr int kOutputs = 4;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int chunks = (s.heads + kOutputs - 1) / kOutputs;
  const bool mine = lane < s.columns;
  for (int job = static_cast<int>(threadIdx.x) / kWarp; job < s.rows * chunks;
       job += kConvWarps) {
    const int row = job / chunks, first = job % chunks * kOutputs;
    float z[kOutputs] = {};
    for (int c = 0; mine && c < s.heads; ++c) {
      for (int tap = 0; tap < s.taps(); ++tap) {
        const float x = window.get<1>(
            (row + tap / s.kernel) * s.width() + lane + tap % s.kernel, c);
#pragma unroll
        for (int o = 0; o < kOutputs; ++o) {
          if (first + o >= s.heads) break;
          z[o] += x * float_of_bits(
                          staged[((first + o) * s.heads + c) * s.taps() + tap]);
        }
      }
    }
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      if (first + o >= s.heads) break;
      float one[1] = {z[o] + weights.bias_of(first + o)};
      const bool open = mine && to.take(first + o, row, lane, one) != 0;
      if constexpr (Work::kGates) {
        const unsigned bits = __ballot_sync(kAllLanes, open);
        if (mine && lane % 8 == 0) {
          to.gate(first + o, row, lane, bits >> lane & 0xffu);
        }
      }
    }
  }
}

// bfloat16: Z [16 outputs, 8 cells] = sum over taps of W_tap [16, 16 inputs]
// X_tap [16, 8 shifted cells]; a warp computes 32 adjacent cells at a time.
template <typename Work>
__device__ inline void convolve(const ConvShape& s,
                                const WindowCells<bfloat16>& window,
                                const std::uint32_t* staged,
                                const ConvWeights<bfloat16>& weights,
                                const ConvResults<bfloat16, Work>& to) {
  constexpr int kGroup = kWarp / kTileN;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int tiles = s.head_tiles();
  const auto* const fragments = reinterpret_cast<const uint4*>(staged) + lane;
  for (int job = static_cast<int>(threadIdx.x) / kWarp; job < s.rows * tiles;
       job += kConvWarps) {
    const int row = job / tiles, out = job % tiles;
    FragmentC z[kGroup];
    for (int u = 0; u < s.kernel; ++u) {
      for (int v = 0; v < s.kernel; ++v) {
        const uint4* const of_tap =
            fragments + ((u * s.kernel + v) * tiles + out) * tiles * kWarp;
        // This lane's cell of 16, and its eight heads of 16: see load_tiles().
        const int cell = (row + u) * s.width() + v + lane / 16 * 8 + lane % 8;
        for (int in = 0; in < tiles; ++in) {
          const uint4 words = of_tap[in * kWarp];
          const FragmentA w{{words.x, words.y, words.z, words.w}};
          const bfloat16* const x =
              window.row(0, cell, in * kTileK + lane / 8 % 2 * 8);
#pragma unroll
          for (int n = 0; n < kGroup; n += 2) {
            if (n * kTileN >= s.columns) break;
#pragma unroll
            for (int q = 0; q < decltype(to.work.input)::kCount; ++q) {
              std::uint32_t b[4];
              load_tiles<false>(
                  x + n * kTileN * window.heads + q * window.elements(), b);
              mma(z[n], w, {{b[0], b[1]}});
              mma(z[n + 1], w, {{b[2], b[3]}});
            }
          }
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int o = out * kTileM + lane / 4 + half * 8;
      const float bias = o < s.heads ? weights.bias_of(o) : 0.0f;
#pragma unroll
      for (int n = 0; n < kGroup; ++n) {
        if (n * kTileN >= s.columns) break;
        unsigned open = 0;
        if (o < s.heads) {
          const int pair = lane % 4 * 2;
          float two[2] = {z[n].c[half * 2] + bias, z[n].c[half * 2 + 1] + bias};
          open = to.take(o, row, n * kTileN + pair, two) << pair;
        }
        if constexpr (Work::kGates) {
          open |= __shfl_xor_sync(kAllLanes, open, 1);
          open |= __shfl_xor_sync(kAllLanes, open, 2);
          if (o < s.heads && lane % 4 == 0) {
            to.gate(o, row, n * kTileN, open);
          }
        }
      }
    }
  }
}

template <typename T, typename Work>
__global__ void __launch_bounds__(kConvThreads, kConvBlocks)
    conv_kernel(MapBlocks blocks, ConvShape shape, ConvWeights<T> weights,
                Work work) {
  EA_DYNAMIC_SHARED(std::uint32_t, staged);
  // The fragments come first because they are read 16 bytes at a time.
  const WindowCells<T> tile(staged + weight_words<T>(shape), shape,
                            shape.window());
  const MapBlock at = blocks.find(blockIdx.x);
  const int across = (at.keys + shape.columns - 1) / shape.columns;
  const int number = static_cast<int>(at.number);
  const int i0 = number / across * shape.rows;
  const int j0 = number % across * shape.columns;
  stage_weights(shape, weights, staged);
  tile.clear();
  work.input.fill(at,
                  Window{i0 + weights.down() - shape.radius(),
                         j0 + weights.right() - shape.radius(), shape.height(),
                         shape.width(), shape.heads},
                  tile);
  __syncthreads();
  convolve(shape, tile, staged, weights,
           ConvResults<T, Work>{at, weights, work, i0, j0});
}

template <typename T>
std::size_t conv_bytes(const ConvShape& s) {
  return WindowCells<T>::bytes(s, s.window()) +
         sizeof(float) * static_cast<std::size_t>(weight_words<T>(s));
}

template <typename T>
ConvShape shape_of_conv(std::int64_t heads, std::int64_t kernel,
                        const SharedLimits& limits = shared_limits()) {
  return conv_shape(heads, kernel, kConvRows, limits, conv_bytes<T>);
}

template <typename T, typename Work>
void run_conv(const MapLayout& layout, std::int64_t kernel,
              const ConvWeights<T>& weights, const Work& work) {
  check_heads(layout);
  const ConvShape shape = shape_of_conv<T>(layout.heads, kernel);
  if (shape.columns == 0) return run_direct_conv(layout, shape, weights, work);
  const auto count = [&](std::int64_t queries, std::int64_t keys) {
    return (queries + shape.rows - 1) / shape.rows *
           ((keys + shape.columns - 1) / shape.columns);
  };
  launch_map_blocks(layout, count, kConvThreads, conv_bytes<T>(shape),
                    conv_kernel<T, Work>, shape, weights, work);
}

}  // namespace ea::cuda
