// Shared parts of fused attention's forward and backward: addresses of maps and
// operands, cells that dropout keeps, storage of gates.
#pragma once

#include "kernels/cpu/simd/dropout-inl.h"
#include "kernels/cpu/simd/fused_products-inl.h"
#include "kernels/cpu/simd/map_sums-inl.h"
#include "kernels/cpu/simd/math-inl.h"
#include "kernels/fused_attention.h"

namespace ea::simd::EA_TARGET {
namespace {

struct FusedSizes : ConvSizes {
  std::int64_t d, e;  // features of a head's keys and values
  explicit FusedSizes(const FusedAttention& in)
      : ConvSizes(in.layout.heads, in.c.w != 0.0 ? in.weight.shape[2] : 1,
                  in.c.w != 0.0 ? in.shift : MapShift{}),
        d(in.q.shape[1] / heads),
        e(in.v.shape[1] / heads) {}
  std::int64_t widest() const { return d > e ? d : e; }
};

EA_INLINE std::uint8_t* gates_of(const SequenceMaps& m, const TensorView& all,
                                 std::int64_t h, std::int64_t i) {
  return all.as<std::uint8_t>() + gate_byte(m.at(h, i), m.row(h, i));
}

// Stores (loads) the lanes of a vector of cells at column j as bits: kLanes / 8
// bytes, fewer at the end of the row.
EA_INLINE void store_gates(std::uint8_t* row, std::int64_t j, std::int64_t n_k,
                           Vi open) {
  const std::uint32_t bits = to_bits(open);
  row[j / 8] = static_cast<std::uint8_t>(bits);
  if (kLanes > 8 && j + 8 < n_k) {
    row[j / 8 + 1] = static_cast<std::uint8_t>(bits >> 8);
  }
}
EA_INLINE Vi load_gates(const std::uint8_t* row, std::int64_t j,
                        std::int64_t n_k) {
  std::uint32_t bits = row[j / 8];
  if (kLanes > 8 && j + 8 < n_k) bits |= row[j / 8 + 1] * 256u;
  return from_bits(bits);
}

// Decides which cells dropout keeps, by the bits of kernels/dropout.h.
class Dropping {
 public:
  explicit Dropping(const FusedAttention& in) : on_(in.p > 0.0) {
    make_drop(in.p, in.seed, in.stream, drop_);
  }
  bool on() const { return on_; }
  EA_INLINE Vf scale() const { return drop_.scale; }

  static std::int64_t words(std::int64_t n) { return n + 2 * kPhiloxWords; }
  // Draws the words of cells at .. at + n; returns the address of the first.
  const std::uint32_t* draw(std::int64_t at, std::int64_t n,
                            std::uint32_t* memory) const {
    const std::int64_t skip = at % 4;
    for (std::int64_t i = 0; i < skip + n; i += kPhiloxWords) {
      const PhiloxWords words = philox_words(
          drop_.keys, static_cast<std::uint64_t>(at - skip + i) / 4);
      __builtin_memcpy(memory + i, &words.first, sizeof(Vu));
      __builtin_memcpy(memory + i + kLanes, &words.second, sizeof(Vu));
    }
    return memory + skip;
  }
  EA_INLINE Vi kept(const std::uint32_t* words) const {
    Vu w;
    __builtin_memcpy(&w, words, sizeof(Vu));
    return (Vi)(w >= drop_.threshold);
  }

 private:
  bool on_;
  Drop drop_;
};

// x [tokens, heads d] packed as the right factor of a product, for every
// sequence and head: [d, n_k] (transposed) or [n_k, d].
template <typename M>
class PackedHeads {
 public:
  PackedHeads(const TensorView& x, const MapLayout& layout, bool transposed)
      : layout_(layout),
        d_(x.shape[1] / layout.heads),
        wide_(packed_size(1, d_)),
        transposed_(transposed),
        memory_(floats(layout) * static_cast<std::int64_t>(sizeof(float)) + 1) {
    const std::int64_t tokens = layout.k_offsets[layout.sequences] + 1;
    const std::int64_t each = ceil_div(tokens, layout.sequences + 1) * d_;
    parallel_each(layout.sequences * layout.heads, items_per_job(each),
                  [&](std::int64_t i) {
                    pack_one(x, i / layout.heads, i % layout.heads);
                  });
  }

  EA_INLINE const float* at(std::int64_t b, std::int64_t h) const {
    return place(b, h);
  }

 private:
  std::int64_t floats(const MapLayout& layout) const {
    const std::int64_t keys = layout.k_offsets[layout.sequences];
    return layout.heads * (transposed_ ? d_ * (keys + layout.sequences * kPanel)
                                       : wide_ * keys);
  }
  EA_INLINE float* place(std::int64_t b, std::int64_t h) const {
    const std::int64_t first = layout_.k_offsets[b], n_k = layout_.n_k(b);
    const std::int64_t heads = layout_.heads;
    return memory_.as<float>() +
           (transposed_
                ? heads * d_ * (first + b * kPanel) + h * packed_size(d_, n_k)
                : wide_ * (heads * first + h * n_k));
  }
  void pack_one(const TensorView& x, std::int64_t b, std::int64_t h) const {
    const auto rows =
        rows_of<const typename M::T>(x, layout_.k_offsets[b], h * d_);
    const std::int64_t n_k = layout_.n_k(b);
    if (transposed_) {
      M::pack_transposed(rows, d_, n_k, place(b, h));
    } else {
      M::pack(rows, n_k, d_, place(b, h));
    }
  }

  MapLayout layout_;
  std::int64_t d_, wide_;
  bool transposed_;
  Scratch memory_;
};

// Computes rows first .. first + count of S of one head, including cells that
// do not exist. `wide` is scratch for the queries.
template <typename M>
EA_INLINE void score_rows(const FusedAttention& in, const SequenceMaps& m,
                          std::int64_t h, std::int64_t first,
                          std::int64_t count, const float* packed_keys,
                          float* to, std::int64_t stride, float* wide) {
  const std::int64_t d = in.q.shape[1] / m.heads;
  const auto q = rows_of<const typename M::T>(in.q, m.query + first, h * d);
  multiply<typename M::Cells>(M::left(q, count, d, wide), packed_keys, count,
                              M::cells(d), m.n_k, static_cast<float>(in.scale),
                              to, stride);
  if (!in.score_bias.defined()) return;
  const auto* const bias =
      in.score_bias.as<const typename M::T>() + m.at(h, first);
  for (std::int64_t i = 0; i < count; ++i) {
    float* const row = to + i * stride;
    for_vectors(m.n_k, [&](std::int64_t j, auto part) {
      store(row + j, load(row + j, part) + load(bias + i * m.n_k + j, part),
            part);
    });
  }
}

// Float scores from which rows of a map are made, and their row stride. They
// lie in the map itself if it holds floats, else in `memory`.
struct Scores {
  float* data;
  std::int64_t stride;
};
EA_INLINE Scores scores_at(float* place, std::int64_t width, float*,
                           std::int64_t) {
  return {place, width};
}
EA_INLINE Scores scores_at(bfloat16*, std::int64_t, float* memory,
                           std::int64_t n_k) {
  return {memory, n_k};
}

// Computes rows first .. first + count of p M + s S, contiguous. Without a
// convolution this is L, still to be rounded to T.
template <typename M>
EA_INLINE void plain_logits(const FusedAttention& in, const SequenceMaps& m,
                            std::int64_t h, std::int64_t first,
                            std::int64_t count, const float* packed_keys,
                            float* to, float* wide) {
  using T = typename M::T;
  score_rows<M>(in, m, h, first, count, packed_keys, to, m.n_k, wide);
  const bool carried = in.c.p != 0.0 && in.previous.defined();
  if (!carried && in.c.s == 1.0) return;
  const T* const previous =
      carried ? in.previous.as<const T>() + m.at(h, first) : nullptr;
  const Vf p = set(static_cast<float>(in.c.p));
  const Vf s = set(static_cast<float>(in.c.s));
  for_vectors(count * m.n_k, [&](std::int64_t j, auto part) {
    const T* const cell = previous == nullptr ? nullptr : previous + j;
    store(to + j, mix(p, cell, s, load(to + j, part), part), part);
  });
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
