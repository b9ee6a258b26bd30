// The convolution over heads, on padded blocks of rows.
//
// A tap is (input head, row shift, column shift): one offset into the padded
// block. A few vectors of positions of a group of output heads stay in
// registers while all taps run, weights broadcast.
#pragma once

#include "kernels/cpu/simd/map_blocks-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

#if defined(__AVX512F__)
constexpr int kGroup = 12;  // output heads, times 2 vectors: 24 of 32 registers
#else
constexpr int kGroup = 6;  // 12 of 16
#endif

// Sizes of one convolution, and where its result goes.
struct ConvSizes {
  std::int64_t heads, k, r, taps, down, right;
  std::int64_t pad;  // zeros beside a row

  explicit ConvSizes(const TensorView& weight, const MapShift& shift)
      : ConvSizes(weight.shape[0], weight.shape[2], shift) {}
  ConvSizes(std::int64_t n, std::int64_t size, const MapShift& shift)
      : heads(n),
        k(size),
        r((k - 1) / 2),
        taps(heads * k * k),
        down(shift.down),
        right(shift.right),
        pad(r + right) {}
};

// Heads cut into equal groups of at most `most`.
struct Groups {
  std::int64_t heads, count;
  Groups(std::int64_t n, std::int64_t most)
      : heads(n), count(ceil_div(n, most)) {}
  EA_INLINE std::int64_t begin(std::int64_t g) const {
    return heads * g / count;
  }
};

// Weights [heads, heads, k, k] as [group][tap][head of group]; `adjoint` swaps
// input and output heads and turns the kernel round: the convolution that takes
// the gradient of the output to that of the input.
template <typename T>
void pack_weights(const T* weight, std::int64_t heads, std::int64_t k,
                  bool adjoint, float* packed) {
  const Groups groups(heads, kGroup);
  for (std::int64_t g = 0; g < groups.count; ++g) {
    for (std::int64_t c = 0; c < heads; ++c) {
      for (std::int64_t uv = 0; uv < k * k; ++uv) {
        for (std::int64_t o = groups.begin(g); o < groups.begin(g + 1); ++o) {
          *packed++ =
              load_one(weight + (adjoint ? (c * heads + o + 1) * k * k - 1 - uv
                                         : (o * heads + c) * k * k + uv));
        }
      }
    }
  }
}

// Packed weights and a bias in float32, for the length of one kernel call.
class TapWeights {
 public:
  template <typename T>
  TapWeights(const T* weight, const T* bias, std::int64_t heads, std::int64_t k,
             bool adjoint)
      : memory_((heads * heads * k * k + heads) * sizeof(float)),
        weights_(memory_.as<float>()),
        bias_(weights_ + heads * heads * k * k) {
    pack_weights(weight, heads, k, adjoint, weights_);
    for (std::int64_t o = 0; o < heads; ++o) {
      bias_[o] = bias == nullptr ? 0.0f : load_one(bias + o);
    }
  }
  const float* weights() const { return weights_; }
  const float* bias() const { return bias_; }

 private:
  Scratch memory_;
  float* weights_;
  float* bias_;
};

// Offsets of the taps (c, u, v), in this order, for one padded geometry.
void tap_offsets(const Padded& x, std::int64_t heads, std::int64_t k,
                 std::int64_t* offset) {
  for (std::int64_t c = 0; c < heads; ++c) {
    for (std::int64_t u = 0; u < k; ++u) {
      for (std::int64_t v = 0; v < k; ++v) {
        *offset++ = c * x.head_stride + u * x.width + v;
      }
    }
  }
}

// y[o][0 .. V vectors] = bias[o] + sum over taps of w[tap][o] x[offset[tap]].
template <int O, int V>
void convolve_vectors(const float* x, const std::int64_t* offset,
                      std::int64_t taps, const float* w, const float* bias,
                      float* y, std::int64_t y_stride) {
  Vf sum[O][V];
#pragma GCC unroll 12
  for (int o = 0; o < O; ++o) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sum[o][v] = set(bias[o]);
  }
  for (std::int64_t t = 0; t < taps; ++t) {
    Vf in[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) in[v] = load(x + offset[t] + v * kLanes);
#pragma GCC unroll 12
    for (int o = 0; o < O; ++o) {
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[o][v] = fma(set(w[o]), in[v], sum[o][v]);
    }
    w += O;
  }
#pragma GCC unroll 12
  for (int o = 0; o < O; ++o) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      store(y + o * y_stride + v * kLanes, sum[o][v]);
    }
  }
}

template <int V>
EA_INLINE void convolve_group(std::int64_t outputs, const float* x,
                              const std::int64_t* offset, std::int64_t taps,
                              const float* w, const float* bias, float* y,
                              std::int64_t y_stride) {
#define EA_GROUP(O) \
  case O:           \
    return convolve_vectors<O, V>(x, offset, taps, w, bias, y, y_stride)
  switch (outputs) {
    EA_GROUP(1);
    EA_GROUP(2);
    EA_GROUP(3);
    EA_GROUP(4);
    EA_GROUP(5);
    EA_GROUP(6);
#if defined(__AVX512F__)
    EA_GROUP(7);
    EA_GROUP(8);
    EA_GROUP(9);
    EA_GROUP(10);
    EA_GROUP(11);
    EA_GROUP(12);
#endif
    default:
      break;
  }
#undef EA_GROUP
}

// What convolve() writes: cell (i, j) of head o at data[o head_stride + i width
// + j]. Columns behind n_k and a vector or two behind the end have no meaning.
struct Convolved {
  float* data;
  std::int64_t width, head_stride;

  Convolved(float* at, const Padded& x, std::int64_t rows)
      : data(at), width(x.width), head_stride(rows * x.width + 2 * kLanes) {}
  EA_INLINE float* row(std::int64_t h, std::int64_t i) const {
    return data + h * head_stride + i * width;
  }
};

EA_INLINE std::int64_t convolved_size(std::int64_t heads, std::int64_t r,
                                      std::int64_t n_k, std::int64_t rows) {
  return heads * (rows * (n_k + r) + 2 * kLanes);
}

// Convolution of all heads: row i of y from rows i .. i + k of x.
void convolve(const Padded& x, const std::int64_t* offset, std::int64_t heads,
              std::int64_t taps, const TapWeights& w, std::int64_t rows,
              const Convolved& y) {
  const Groups groups(heads, kGroup);
  const std::int64_t positions = rows * x.width - x.radius;
  for (std::int64_t p = 0; p < positions; p += 2 * kLanes) {
    const bool two = positions - p > kLanes;
    for (std::int64_t g = 0; g < groups.count; ++g) {
      const std::int64_t o = groups.begin(g);
      const std::int64_t outputs = groups.begin(g + 1) - o;
      float* const at = y.data + o * y.head_stride + p;
      (two ? convolve_group<2>
           : convolve_group<1>)(outputs, x.data + p, offset, taps,
                                w.weights() + o * taps, w.bias() + o, at,
                                y.head_stride);
    }
  }
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
