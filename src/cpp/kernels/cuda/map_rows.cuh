// Rows of packed attention maps for a kernel. The offsets of up to 128
// sequences are passed as a kernel parameter, which avoids a blocking copy to
// the device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/map_layout.h"
#include "runtime/host_device.h"

namespace ea::cuda {

// Returns the last of n sequences whose first row (or block), first[b], is at
// most `wanted`. This sequence contains it: empty sequences have the same first
// row as the next one.
template <typename I>
EA_HOST_DEVICE inline int sequence_of(const I* first, int n, I wanted) {
  int low = 0, high = n;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (first[middle] <= wanted) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// One row of one head's map: `keys` elements starting at `begin`. An element
// exists (kernels/map_layout.h) if it is among the first `columns` and the
// mask, if any, is not 0 there.
struct MapRow {
  std::int64_t begin, keys, columns;
  const std::uint8_t* mask;

  EA_HOST_DEVICE bool exists(std::int64_t j) const {
    return j < columns && (mask == nullptr || mask[j] != 0);
  }
};

// Sequences of one launch. Kernel parameters hold 4 KB: three offsets per
// sequence.
struct MapRows {
  static constexpr int kMost = 128;
  std::int64_t heads;
  const std::uint8_t* key_mask;  // or null
  int sequences;
  bool causal;
  std::int64_t q[kMost + 1];      // token offsets of the queries
  std::int64_t k[kMost + 1];      // token offsets of the keys
  std::int64_t cells[kMost + 1];  // sums of n_q n_k

  EA_HOST_DEVICE std::int64_t rows() const {
    return heads * (q[sequences] - q[0]);
  }
  // Number of rows on the key side.
  EA_HOST_DEVICE std::int64_t key_rows() const {
    return heads * (k[sequences] - k[0]);
  }
  // Returns the index of cell (h, i, 0) of sequence b of this launch.
  EA_HOST_DEVICE std::int64_t cell(int b, std::int64_t h,
                                   std::int64_t i) const {
    return heads * cells[b] + (h * (q[b + 1] - q[b]) + i) * (k[b + 1] - k[b]);
  }

  // Returns row `row` of all [sequence, head, query] of this launch.
  EA_HOST_DEVICE MapRow find(std::int64_t row) const {
    const int b = sequence_of(q, sequences, q[0] + row / heads);
    const std::int64_t keys = k[b + 1] - k[b];
    const std::int64_t queries = q[b + 1] - q[b];
    const std::int64_t inside = row - heads * (q[b] - q[0]);
    return {heads * cells[b] + inside * keys, keys,
            MapLayout::columns_of(causal, queries, keys, inside % queries),
            mask(b)};
  }
  // Mask of the keys of sequence b, or null.
  EA_HOST_DEVICE const std::uint8_t* mask(int b) const {
    return key_mask == nullptr ? nullptr : key_mask + k[b];
  }
};

// One token of one head.
struct TokenRow {
  int sequence;  // within the launch
  std::int64_t head, token;
};

// Returns row `row` of all [sequence, head, token] of this launch, on the side
// with the offsets `tokens`: maps.q or maps.k.
EA_HOST_DEVICE inline TokenRow token_row(const MapRows& maps,
                                         const std::int64_t* tokens,
                                         std::int64_t row) {
  const int b =
      sequence_of(tokens, maps.sequences, tokens[0] + row / maps.heads);
  const std::int64_t inside = row - maps.heads * (tokens[b] - tokens[0]);
  const std::int64_t n = tokens[b + 1] - tokens[b];
  return {b, inside / n, inside % n};
}

// Returns sequences b, b + 1, ... of a layout, at most kMost.
inline MapRows map_rows_from(const MapLayout& layout, std::int64_t b) {
  MapRows maps;
  maps.heads = layout.heads;
  maps.key_mask = layout.key_mask.as<const std::uint8_t>();
  maps.causal = layout.causal;
  maps.sequences = static_cast<int>(
      std::min<std::int64_t>(MapRows::kMost, layout.sequences - b));
  std::copy_n(layout.q_offsets + b, maps.sequences + 1, maps.q);
  std::copy_n(layout.k_offsets + b, maps.sequences + 1, maps.k);
  std::copy_n(layout.cell_offsets + b, maps.sequences + 1, maps.cells);
  return maps;
}

// Calls fn(maps) for all sequences of a layout, kMost at a time.
template <typename Fn>
void for_map_rows(const MapLayout& layout, Fn&& fn) {
  for (std::int64_t b = 0; b < layout.sequences; b += MapRows::kMost) {
    const MapRows maps = map_rows_from(layout, b);
    if (maps.rows() > 0) fn(maps);
  }
}

}  // namespace ea::cuda
