// The edges of a graph, sorted by the query they enter and by the key they
// leave.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "kernels/edge_layout.h"
#include "tensor/tensor.h"

namespace ea {

class Edges;
using EdgesPtr = std::shared_ptr<const Edges>;

// Immutable lists of edges from keys to queries, shared by all layers and
// passes. See kernels/edge_layout.h.
class Edges {
 public:
  // Query i has edges starts[i] to starts[i + 1] - 1; edge e comes from
  // keys[e], below `num_keys`. Both are int64, [queries + 1] and [edges], and
  // are copied to the CPU. Throws a ShapeError or an InputError that names the
  // edge.
  Edges(const Tensor& starts, const Tensor& keys, std::int64_t num_keys);

  std::int64_t queries() const { return starts_.dim(0) - 1; }
  std::int64_t num_keys() const { return key_starts_.dim(0) - 1; }
  std::int64_t count() const { return keys_.dim(0); }
  const Tensor& starts() const { return starts_; }
  const Tensor& keys() const { return keys_; }

  // Returns the lists on `device`; the copies there are kept.
  EdgeLayout layout(std::int64_t heads, Device device) const;

 private:
  struct Copy {
    Device device;
    Tensor starts, keys, key_starts, queries, order;
  };

  void sort_by_key();

  Tensor starts_, keys_, key_starts_, queries_, order_;
  mutable std::mutex mutex_;
  mutable std::vector<Copy> copies_;  // on other devices
};

}  // namespace ea
