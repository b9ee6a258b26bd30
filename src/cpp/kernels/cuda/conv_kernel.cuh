// The convolution over heads: a block brings a window to shared memory and
// convolves what lies inside its halo.
#pragma once

#include <type_traits>

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/conv_direct.cuh"

namespace ea::cuda {

inline constexpr int kConvWarps = kConvThreads / kWarp;
// Blocks on a multiprocessor at a time that registers are kept for: as many as
// have room for the windows of BERT's 12 heads on sm_90.
inline constexpr int kConvBlocks = 3;

// weight [heads, heads, k, k]; turned: as the gradient of the input takes it,
// outputs and inputs exchanged and the taps in reverse. bias: null for none.
// shift: of the convolution's result; the gradient goes the other way.
template <typename T>
struct ConvWeights {
  const T* weight;
  const T* bias;
  bool turned;
  MapShift shift = {};

  // The rows (columns) from a cell of the result to the middle of its taps.
  __device__ int down() const {
    return static_cast<int>(turned ? shift.down : -shift.down);
  }
  __device__ int right() const {
    return static_cast<int>(turned ? shift.right : -shift.right);
  }
  // Whether every cell gets its sum.
  __device__ bool all(const MapBlock& at) const {
    return at.dense() && (turned || shift.none());
  }
  // What a cell gets of the sum z.
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

// Words of shared memory for the weights: of float32 as they are, of bfloat16
// as fragments A of the products, [tap, tile of outputs, tile of inputs, lane].
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

// Convolves a window: result(row, column, sum) gives z, which goes to
// meet(output head, row, column, z) for every cell of the block, by one thread
// each, and, where kGates, gates(head, row, first column,
// byte) with a bit for each of eight neighbours, set unless z <= 0. float32: a
// lane has one cell and four outputs at a time.
template <int kCount, bool kGates, typename Result, typename Meet,
          typename Gates>
__device__ inline void convolve(const ConvShape& s,
                                const WindowCells<float>& window,
                                const std::uint32_t* staged,
                                const ConvWeights<float>& weights,
                                const Result& result, const Meet& meet,
                                const Gates& gates) {
  constexpr int kOutputs = 4;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int groups = (s.columns + kWarp - 1) / kWarp;
  const int chunks = (s.heads + kOutputs - 1) / kOutputs;
  for (int job = static_cast<int>(threadIdx.x) / kWarp;
       job < s.rows() * groups * chunks; job += kConvWarps) {
    const int row = job / groups / chunks;
    const int column = job % groups * kWarp + lane;
    const int first = job / groups % chunks * kOutputs;
    const bool mine = column < s.columns;
    float z[kOutputs] = {};
    for (int c = 0; mine && c < s.heads; ++c) {
      for (int tap = 0; tap < s.taps(); ++tap) {
        const float x = window.get<1>(
            (row + tap / s.kernel) * s.width() + column + tap % s.kernel, c);
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
      z[o] += weights.bias_of(first + o);
      if (mine) z[o] = result(row, column, z[o]);
      if (mine) meet(first + o, row, column, z[o]);
      if constexpr (kGates) {
        const unsigned open = __ballot_sync(kAllLanes, mine && !(z[o] <= 0.0f));
        if (mine && lane % 8 == 0) {
          gates(first + o, row, column,
                static_cast<std::uint8_t>(open >> lane & 0xffu));
        }
      }
    }
  }
}

// bfloat16: Z [16 outputs, 8 cells] = sum over taps of W_tap [16, 16 inputs]
// X_tap [16, 8 shifted cells]; a warp has 32 neighbours at a time.
template <int kCount, bool kGates, typename Result, typename Meet,
          typename Gates>
__device__ inline void convolve(const ConvShape& s,
                                const WindowCells<bfloat16>& window,
                                const std::uint32_t* staged,
                                const ConvWeights<bfloat16>& weights,
                                const Result& result, const Meet& meet,
                                const Gates& gates) {
  constexpr int kGroup = kWarp / kTileN;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int groups = (s.columns + kWarp - 1) / kWarp;
  const int tiles = s.head_tiles();
  for (int job = static_cast<int>(threadIdx.x) / kWarp;
       job < s.rows() * groups * tiles; job += kConvWarps) {
    const int row = job / groups / tiles;
    const int column = job % groups * kWarp;
    const int out = job / groups % tiles;
    FragmentC z[kGroup];
    for (int tap = 0; tap < s.taps(); ++tap) {
      // The lane's cell of 16, and its eight heads of 16: see load_tiles().
      const int first = (row + tap / s.kernel) * s.width() + column +
                        tap % s.kernel + lane / 16 * 8 + lane % 8;
      for (int in = 0; in < tiles; ++in) {
        const uint4 words = reinterpret_cast<const uint4*>(
            staged)[((tap * tiles + out) * tiles + in) * kWarp + lane];
        const FragmentA w{{words.x, words.y, words.z, words.w}};
        const int head = in * kTileK + lane / 8 % 2 * 8;
#pragma unroll
        for (int n = 0; n < kGroup; n += 2) {
          if (column + n * kTileN >= s.columns) break;
          const int cell = first + n * kTileN;
#pragma unroll
          for (int q = 0; q < kCount; ++q) {
            std::uint32_t x[4];
            load_tiles<false>(window.row(q, cell < window.cells, cell, head),
                              x);
            mma(z[n], w, {{x[0], x[1]}});
            mma(z[n + 1], w, {{x[2], x[3]}});
          }
        }
      }
    }
#pragma unroll
    for (int n = 0; n < kGroup; ++n) {
      if (column + n * kTileN >= s.columns) break;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int o = out * kTileM + lane / 4 + half * 8;
        const int first = column + n * kTileN;
        unsigned open = 0;
        if (o < s.heads) {
          const float bias = weights.bias_of(o);
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            const int to = first + lane % 4 * 2 + k;
            const float value = result(row, to, z[n].c[half * 2 + k] + bias);
            meet(o, row, to, value);
            if (!(value <= 0.0f)) open |= 1u << (lane % 4 * 2 + k);
          }
        }
        if constexpr (kGates) {
          open |= __shfl_xor_sync(kAllLanes, open, 1);
          open |= __shfl_xor_sync(kAllLanes, open, 2);
          if (o < s.heads && lane % 4 == 0) {
            gates(o, row, first, static_cast<std::uint8_t>(open));
          }
        }
      }
    }
  }
}

// Work: fill(block, shape, window, to, results) makes the window; meet(z, what
// `results` held) what is kept of a cell; finish(block, head, query, key, kept)
// stores it; gate(...) a byte of gates, where kGates.
template <typename T, typename Work>
__global__ void __launch_bounds__(kConvThreads, kConvBlocks)
    conv_kernel(MapBlocks blocks, ConvShape shape, ConvWeights<T> weights,
                Work work) {
  EA_DYNAMIC_SHARED(std::uint32_t, staged);
  // The fragments come first: they are read 16 bytes at a time.
  std::uint32_t* const rest = staged + weight_words<T>(shape);
  const WindowCells<T> tile(rest, shape, shape.width(), shape.window());
  float* const results =
      reinterpret_cast<float*>(reinterpret_cast<unsigned char*>(rest) +
                               WindowCells<T>::bytes(shape, shape.window()));
  const MapBlock at = blocks.find(blockIdx.x);
  const int across = (at.keys + shape.columns - 1) / shape.columns;
  const int i0 = static_cast<int>(at.number / across) * shape.rows();
  const int j0 = static_cast<int>(at.number % across) * shape.columns;
  const Window window{i0 + weights.down() - shape.radius(),
                      j0 + weights.right() - shape.radius(), kTileM,
                      shape.width(), shape.heads};
  stage_weights(shape, weights, staged);
  tile.clear();
  __syncthreads();
  work.fill(at, shape, window, tile, results);
  __syncthreads();
  const bool all = weights.all(at);
  const auto slot = [&](int h, int row, int column) {
    return (h * shape.rows() + row) * shape.columns + column;
  };
  convolve<Work::kCount, Work::kGates>(
      shape, tile, staged, weights,
      [&](int row, int column, float z) {
        if (all) return z;
        const std::int64_t i = i0 + row, j = j0 + column;
        return i < at.queries && j < at.keys ? weights.result(at, i, j, z) : z;
      },
      [&](int o, int row, int column, float z) {
        float& kept = results[slot(o, row, column)];
        kept = work.meet(z, kept);
      },
      [&](int o, int row, int column, std::uint8_t byte) {
        if constexpr (Work::kGates) {
          if (i0 + row < at.queries && j0 + column < at.keys) {
            work.gate(at, o, i0 + row, j0 + column, byte);
          }
        }
      });
  __syncthreads();
  const Window inner{i0, j0, shape.rows(), shape.columns, shape.heads};
  each_of_window(inner, [&](int h, int row, int column) {
    if (!inner.inside(at, row, column)) return;
    work.finish(at, h, i0 + row, j0 + column, results[slot(h, row, column)]);
  });
}

template <typename T>
std::size_t conv_bytes(const ConvShape& s) {
  return WindowCells<T>::bytes(s, s.window()) +
         sizeof(float) * static_cast<std::size_t>(s.results() * s.heads +
                                                  weight_words<T>(s));
}

template <typename T>
ConvShape shape_of_conv(std::int64_t heads, std::int64_t kernel) {
  return conv_shape(heads, kernel, shared_limits(), conv_bytes<T>);
}

// Work without a source() needs a shape that fits.
template <typename T, typename Work>
void run_conv(const MapLayout& layout, std::int64_t kernel,
              const ConvWeights<T>& weights, const Work& work) {
  const ConvShape shape = shape_of_conv<T>(layout.heads, kernel);
  if constexpr (requires { work.source(); }) {
    if (shape.columns == 0)
      return run_direct_conv(layout, shape, weights, work);
  }
  for_map_blocks(
      layout,
      [&](std::int64_t queries, std::int64_t keys) {
        return (queries + shape.rows() - 1) / shape.rows() *
               ((keys + shape.columns - 1) / shape.columns);
      },
      [&](const MapBlocks& blocks, unsigned count) {
        launch(current_stream(), count, kConvThreads, conv_bytes<T>(shape),
               conv_kernel<T, Work>, blocks, shape, weights, work);
      });
}

}  // namespace ea::cuda
