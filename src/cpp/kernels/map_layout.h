// Memory layout of attention maps of sequences of different lengths.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace ea {

// Sequence b has the token rows q_offsets[b] .. q_offsets[b+1] on the query
// side and k_offsets[b] .. k_offsets[b+1] on the key side. Its maps, [heads,
// n_q, n_k] row-major, start at element heads * cell_offsets[b] of a flat
// tensor, without padding between sequences. With equal lengths this is the
// usual contiguous [B, H, T, S]. The offset arrays are in CPU memory for every
// device.
//
// Existing cells: key j of row i exists if j < columns(b, i) and the mask, if
// there is one, is not 0. Cells that do not exist hold 0 in every flat map that
// a kernel writes (scores, evolved maps, carries, probabilities, gradients).
// Every kernel reads them as 0, whatever they hold, and they receive no
// gradient. A softmax normalises over the existing cells; a row without any has
// probabilities 0.
struct MapLayout {
  std::int64_t heads = 0;
  std::int64_t sequences = 0;
  const std::int64_t* q_offsets = nullptr;  // [sequences + 1]
  const std::int64_t* k_offsets = nullptr;  // [sequences + 1]
  const std::int64_t* cell_offsets =
      nullptr;  // [sequences + 1], sums of n_q n_k
  bool causal = false;
  TensorView key_mask = {};  // optional, uint8 [total keys]

  std::int64_t n_q(std::int64_t b) const {
    return q_offsets[b + 1] - q_offsets[b];
  }
  std::int64_t n_k(std::int64_t b) const {
    return k_offsets[b + 1] - k_offsets[b];
  }
  // Number of keys that row i of sequence b may attend to. If there are fewer
  // queries than keys, the rows are the last n_q of n_k, as in a decoder with a
  // cache.
  std::int64_t columns(std::int64_t b, std::int64_t i) const {
    return columns_of(causal, n_q(b), n_k(b), i);
  }
  static constexpr std::int64_t columns_of(bool causal, std::int64_t n_q,
                                           std::int64_t n_k, std::int64_t i) {
    const std::int64_t seen = i + 1 + n_k - n_q;
    if (!causal || seen > n_k) return n_k;
    return seen < 0 ? 0 : seen;
  }
  // Whether every cell exists.
  bool dense() const { return !causal && !key_mask.defined(); }
  // The mask of the keys of sequence b, or null.
  const std::uint8_t* mask(std::int64_t b) const {
    return key_mask.defined() ? key_mask.as<std::uint8_t>() + k_offsets[b]
                              : nullptr;
  }
  // First element of the maps of sequence b.
  std::int64_t begin(std::int64_t b) const { return heads * cell_offsets[b]; }
  std::int64_t numel() const { return heads * cell_offsets[sequences]; }
};

}  // namespace ea
