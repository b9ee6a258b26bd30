// The convolution over heads, on padded blocks of rows.
//
// A tap is (input head, row shift, column shift): one offset into the padded
// block. The sums of a group of output heads at a few vectors of positions stay
// in registers during the loop over taps; weights are broadcast. With pairs of
// bfloat16, two input heads are stored as one, cell by cell.
#pragma once

#include "kernels/cpu/simd/map_blocks-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

#if defined(__AVX512F__)
constexpr int kGroup = 12;  // output heads, times 2 vectors: 24 of 32 registers
#else
constexpr int kGroup = 6;  // 12 of 16
#endif

// Sizes of one convolution and the shift of its result.
struct ConvSizes {
  std::int64_t heads, k, r, taps, down, right;
  std::int64_t pad;  // zeros of padding per row

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

// Partition of heads into equal groups of at most `most`.
struct Groups {
  std::int64_t heads, count;
  Groups(std::int64_t n, std::int64_t most)
      : heads(n), count(ceil_div(n, most)) {}
  EA_INLINE std::int64_t begin(std::int64_t g) const {
    return heads * g / count;
  }
};

// Returns the weight of input head c for output head o at tap `uv` of the
// kernel. `adjoint` swaps input and output heads and rotates the kernel by 180
// degrees, for the convolution that maps the gradient of the output to that of
// the input. A head c past the last, which pads an odd number, has zeros.
template <typename T>
float tap_weight(const T* weight, std::int64_t heads, std::int64_t k,
                 bool adjoint, std::int64_t o, std::int64_t c,
                 std::int64_t uv) {
  if (c >= heads) return 0.0f;
  return load_one(weight + (adjoint ? (c * heads + o + 1) * k * k - 1 - uv
                                    : (o * heads + c) * k * k + uv));
}

// Packs weights [heads, heads, k, k] as [group][tap][head of group].
template <typename Cells, typename T>
void pack_weights(const T* weight, std::int64_t heads, std::int64_t k,
                  bool adjoint, typename Cells::Map* packed) {
  const Groups groups(heads, kGroup);
  for (std::int64_t g = 0; g < groups.count; ++g) {
    for (std::int64_t c = 0; c < heads; c += Cells::kValues) {
      for (std::int64_t uv = 0; uv < k * k; ++uv) {
        for (std::int64_t o = groups.begin(g); o < groups.begin(g + 1); ++o) {
          for (int i = 0; i < Cells::kValues; ++i) {
            store_one(packed++,
                      tap_weight(weight, heads, k, adjoint, o, c + i, uv));
          }
        }
      }
    }
  }
}

// Packed weights and a float32 bias, for the duration of one kernel call.
template <typename Cells = Floats>
class TapWeights {
 public:
  template <typename T>
  TapWeights(const T* weight, const T* bias, std::int64_t heads, std::int64_t k,
             bool adjoint)
      : taps_(ceil_div(heads, Cells::kValues) * k * k),
        memory_((taps_ + 1) * heads * static_cast<std::int64_t>(sizeof(float))),
        weights_(memory_.as<float>()),
        bias_(weights_ + heads * taps_) {
    pack_weights<Cells>(weight, heads, k, adjoint,
                        memory_.as<typename Cells::Map>());
    for (std::int64_t o = 0; o < heads; ++o) {
      bias_[o] = bias == nullptr ? 0.0f : load_one(bias + o);
    }
  }
  std::int64_t taps() const { return taps_; }
  const float* weights() const { return weights_; }
  const float* bias() const { return bias_; }

 private:
  std::int64_t taps_;
  Scratch memory_;
  float* weights_;
  float* bias_;
};

// Returns the floats of `memory` that in_cells() needs for bfloat16.
template <typename Cells>
EA_INLINE std::int64_t cells_size(std::int64_t heads, std::int64_t r,
                                  std::int64_t n_k, std::int64_t rows) {
  return padded_size(ceil_div(heads, Cells::kValues), r, n_k, rows);
}

// Returns a block as the cells that convolve() reads. A bfloat16 block is
// copied to `memory`: its heads 2 h and 2 h + 1 become head h, with the same
// offsets.
EA_INLINE Padded<float> in_cells(const Padded<float>& x, std::int64_t, float*) {
  return x;
}
#if defined(__AVX512F__)
inline Padded<float> in_cells(const Padded<bfloat16>& x, std::int64_t heads,
                              float* memory) {
  Padded<float> to(memory, x.radius, x.width - x.radius, x.rows);
  for (std::int64_t h = 0; h < heads; h += 2) {
    const bfloat16* const from = x.head(h);
    for_vectors(x.head_stride, [&](std::int64_t i, auto part) {
      const Vf second =
          h + 1 < heads ? load(from + x.head_stride + i, part) : set(0.0f);
      store(to.head(h / 2) + i, pair_of(load(from + i, part), second), part);
    });
  }
  clear_end(to, (heads + 1) / 2);
  return to;
}
#endif

// Computes the offsets of the taps (c, u, v), in this order, in a padded block.
template <typename T>
void tap_offsets(const Padded<T>& x, std::int64_t heads, std::int64_t k,
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
template <typename Cells, int O, int V>
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
      for (int v = 0; v < V; ++v) {
        sum[o][v] = Cells::add(sum[o][v], set(cell_at(w + o)), in[v]);
      }
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

template <typename Cells, int V>
EA_INLINE void convolve_group(std::int64_t outputs, const float* x,
                              const std::int64_t* offset, std::int64_t taps,
                              const float* w, const float* bias, float* y,
                              std::int64_t y_stride) {
  with_count<kGroup>(outputs, [&](auto n) {
    convolve_vectors<Cells, n, V>(x, offset, taps, w, bias, y, y_stride);
  });
}

// Output of convolve(): cell (i, j) of head o is at data[o head_stride + i
// width + j]. Columns from n_k on and a vector or two past the end are
// undefined.
struct Convolved {
  float* data;
  std::int64_t width, head_stride;

  template <typename T>
  Convolved(float* at, const Padded<T>& x, std::int64_t rows)
      : Convolved(at, x.width, rows) {}
  Convolved(float* at, std::int64_t row_width, std::int64_t rows)
      : data(at),
        width(row_width),
        head_stride(rows * row_width + 2 * kLanes) {}
  EA_INLINE float* row(std::int64_t h, std::int64_t i) const {
    return data + h * head_stride + i * width;
  }
};

EA_INLINE std::int64_t convolved_size(std::int64_t heads, std::int64_t r,
                                      std::int64_t n_k, std::int64_t rows) {
  return heads * (rows * (n_k + r) + 2 * kLanes);
}

// Convolves all heads: row i of y reads rows i .. i + k of x.
template <typename Cells>
void convolve(const Padded<float>& x, const std::int64_t* offset,
              std::int64_t heads, const TapWeights<Cells>& w, std::int64_t rows,
              const Convolved& y) {
  const std::int64_t taps = w.taps();
  const Groups groups(heads, kGroup);
  const std::int64_t positions = rows * x.width - x.radius;
  for (std::int64_t p = 0; p < positions; p += 2 * kLanes) {
    const bool two = positions - p > kLanes;
    for (std::int64_t g = 0; g < groups.count; ++g) {
      const std::int64_t o = groups.begin(g);
      const std::int64_t outputs = groups.begin(g + 1) - o;
      float* const at = y.data + o * y.head_stride + p;
      (two ? convolve_group<Cells, 2>
           : convolve_group<Cells, 1>)(outputs, x.data + p, offset, taps,
                                       w.weights() + o * taps, w.bias() + o, at,
                                       y.head_stride);
    }
  }
}

// Convolves the gradient g of the result with the adjoint kernel: row i of y
// reads rows i .. i + k of g, moved back to the left.
template <typename Cells>
EA_INLINE void convolve_gradient(const Padded<typename Cells::Map>& g,
                                 const ConvSizes& s, const std::int64_t* offset,
                                 const TapWeights<Cells>& w, std::int64_t rows,
                                 float* memory, const Convolved& y) {
  convolve(in_cells(g, s.heads, memory).ahead(2 * s.right), offset, s.heads, w,
           rows, y);
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
