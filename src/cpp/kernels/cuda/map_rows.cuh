// The rows of packed attention maps for a kernel: the offsets of up to 128
// sequences travel as a kernel parameter, so that no copy to the device waits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/map_layout.h"
#include "runtime/check.h"
#include "runtime/host_device.h"

namespace ea::cuda {

// The last of n sequences whose first row (or block), first[b], is not behind
// `wanted`: that which has it, since empty ones begin where the next does.
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

// One row of one head's map: `keys` elements from `begin` on; its keys are
// tokens first_key, first_key + 1, ... of the key side.
struct MapRow {
  std::int64_t begin, keys, first_key;
};

// Sequences of one launch. Kernel parameters hold 4 KB: 3 offsets each.
struct MapRows {
  static constexpr int kMost = 128;
  std::int64_t heads;
  int sequences;
  std::int64_t q[kMost + 1];      // tokens of the query side ...
  std::int64_t k[kMost + 1];      // ... of the key side
  std::int64_t cells[kMost + 1];  // sums of n_q n_k

  EA_HOST_DEVICE std::int64_t rows() const {
    return heads * (q[sequences] - q[0]);
  }

  // Row number `row` of all [sequence, head, query] of this launch.
  EA_HOST_DEVICE MapRow find(std::int64_t row) const {
    const int b = sequence_of(q, sequences, q[0] + row / heads);
    const std::int64_t keys = k[b + 1] - k[b];
    const std::int64_t inside = row - heads * (q[b] - q[0]);
    return {heads * cells[b] + inside * keys, keys, k[b]};
  }
};

// Sequences b, b + 1, ... of a layout, at most kMost.
inline MapRows map_rows_from(const MapLayout& layout, std::int64_t b) {
  MapRows maps;
  maps.heads = layout.heads;
  maps.sequences = static_cast<int>(
      std::min<std::int64_t>(MapRows::kMost, layout.sequences - b));
  std::copy_n(layout.q_offsets + b, maps.sequences + 1, maps.q);
  std::copy_n(layout.k_offsets + b, maps.sequences + 1, maps.k);
  std::copy_n(layout.cell_offsets + b, maps.sequences + 1, maps.cells);
  return maps;
}

// Calls fn(maps) for all sequences of a layout, kMost at a time. The layout's
// own offsets: not for those that lie on the device.
template <typename Fn>
void for_map_rows(const MapLayout& layout, Fn&& fn) {
  EA_CHECK_AS(ConfigError, !layout.on_device.defined(), "launch",
              "this kernel takes the offsets of sequences from the CPU alone");
  for (std::int64_t b = 0; b < layout.sequences; b += MapRows::kMost) {
    const MapRows maps = map_rows_from(layout, b);
    if (maps.rows() > 0) fn(maps);
  }
}

}  // namespace ea::cuda
