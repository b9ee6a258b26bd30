// Existing cells of a sequence's maps (kernels/map_layout.h), row by row.
#pragma once

#include "kernels/cpu/simd/vec-inl.h"
#include "kernels/map_conv.h"

namespace ea::simd::EA_TARGET {
namespace {

class Existing {
 public:
  // Cells that `shift` moves in count as missing.
  Existing(const MapLayout& layout, std::int64_t b, const MapShift& shift = {})
      : n_q_(layout.n_q(b)),
        n_k_(layout.n_k(b)),
        down_(shift.down),
        right_(shift.right < n_k_ ? shift.right : n_k_),
        causal_(layout.causal),
        mask_(layout.mask(b)),
        all_(layout.dense() && shift.none()) {}

  std::int64_t n_q() const { return n_q_; }
  std::int64_t n_k() const { return n_k_; }
  bool all() const { return all_; }
  const std::uint8_t* mask() const { return mask_; }
  // Returns n such that all existing cells of row i are among its first n.
  EA_INLINE std::int64_t columns(std::int64_t i) const {
    return MapLayout::columns_of(causal_, n_q_, n_k_, i);
  }
  // Returns columns(i), or 0 if the mask excludes all of them.
  std::int64_t columns_left(std::int64_t i) const {
    const std::int64_t n = columns(i);
    for (std::int64_t j = 0; mask_ != nullptr && j < n; ++j) {
      if (mask_[j] != 0) return n;
    }
    return mask_ == nullptr ? n : 0;
  }
  // Writes 0 to the cells of row i that are missing.
  template <typename T>
  EA_INLINE void clear(std::int64_t i, T* row) const {
    if (!all_) clear_some(i, row);
  }

 private:
  template <typename T>
  void clear_some(std::int64_t i, T* row) const {
    const std::int64_t end = i < down_ ? 0 : columns(i);
    for (std::int64_t j = 0; j < right_; ++j) store_one(row + j, 0.0f);
    for (std::int64_t j = end; j < n_k_; ++j) store_one(row + j, 0.0f);
    for (std::int64_t j = 0; mask_ != nullptr && j < end; ++j) {
      if (mask_[j] == 0) store_one(row + j, 0.0f);
    }
  }

  std::int64_t n_q_, n_k_, down_, right_;
  bool causal_;
  const std::uint8_t* mask_;
  bool all_;
};

// Functors that replace the cells excluded by a mask with `other`.
struct NoMask {
  template <typename P>
  EA_INLINE Vf operator()(std::int64_t, P, Vf v, float) const {
    return v;
  }
};

struct KeyMask {
  const std::uint8_t* allowed;
  template <typename P>
  EA_INLINE Vf operator()(std::int64_t j, P part, Vf v, float other) const {
    return load_mask(allowed + j, part) ? v : set(other);
  }
};

}  // namespace
}  // namespace ea::simd::EA_TARGET
