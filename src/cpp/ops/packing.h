// Which rows belong to which sequence, and where their attention maps lie.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/window_layout.h"
#include "ops/edges.h"
#include "tensor/tensor.h"

namespace ea {

class Packing;
using PackingPtr = std::shared_ptr<const Packing>;

// Immutable offsets of packed sequences and the maps of `heads` heads between
// them, and which of their cells exist; shared by every layer of a pass. See
// kernels/map_layout.h.
class Packing {
 public:
  // offsets: [sequences + 1], from 0, not falling. Throws ShapeError.
  Packing(std::int64_t heads, std::vector<std::int64_t> offsets);
  // Cross attention: queries and keys have their own offsets.
  Packing(std::int64_t heads, std::vector<std::int64_t> q_offsets,
          std::vector<std::int64_t> k_offsets);
  // The same with the causal limit; the packing itself where it has that.
  static PackingPtr causal(const PackingPtr& packing);
  // The same with a mask instead of its own: uint8 [total keys] on the device
  // of the maps, or undefined. Throws ShapeError.
  static PackingPtr masked(const PackingPtr& packing, const Tensor& key_mask);
  // The maps of windows between the same tokens: kernels/window_layout.h.
  // Throws ShapeError where keys are not the queries' tokens, and ConfigError
  // for a packing with other limits, an even size, or more heads than there
  // are.
  static PackingPtr windowed(const PackingPtr& packing, const Window& window);
  // The same with a graph between its tokens, for scopes that ask for one; maps
  // stay those of all queries and keys. Throws ShapeError unless the nodes of
  // the graph are the tokens.
  static PackingPtr with_edges(const PackingPtr& packing,
                               const EdgesPtr& edges);
  // Maps over the edges of the graph alone: kernels/edge_layout.h. Throws
  // ConfigError for a packing without a graph, or with other limits.
  static PackingPtr along_edges(const PackingPtr& packing);

  // Maps of `heads` heads between the tokens of two packings, sequence by
  // sequence; `queries` itself where that is what it is. Throws ShapeError for
  // other numbers of sequences.
  static std::shared_ptr<const Packing> between(
      const std::shared_ptr<const Packing>& queries,
      const std::shared_ptr<const Packing>& keys, std::int64_t heads);
  // Whether both lay the same number of maps of the same shapes in the same
  // way, so that a map of one is a map of the other.
  bool same_maps(const Packing& other) const;

  bool is_causal() const { return causal_; }
  const Tensor& key_mask() const { return key_mask_; }
  // Where maps are those of windows.
  const std::optional<Window>& window() const { return window_; }
  // The graph between the tokens, or null; and whether maps are over its edges.
  const EdgesPtr& edges() const { return edges_; }
  bool is_along_edges() const { return along_edges_; }
  // Whether every cell exists.
  bool dense() const { return !causal_ && !key_mask_.defined(); }
  std::int64_t heads() const { return heads_; }
  std::int64_t sequences() const {
    return static_cast<std::int64_t>(q_offsets_.size()) - 1;
  }
  std::int64_t total_queries() const { return q_offsets_.back(); }
  std::int64_t total_keys() const { return k_offsets_.back(); }
  std::int64_t map_elements() const { return heads_ * cell_offsets_.back(); }
  std::int64_t longest_query() const;
  std::int64_t longest_key() const;
  const std::vector<std::int64_t>& q_offsets() const { return q_offsets_; }
  const std::vector<std::int64_t>& k_offsets() const { return k_offsets_; }
  // The number of cells in a row of the maps of sequence b.
  std::int64_t columns(std::size_t b) const;
  // Rows of queries, columns of keys. Throws ConfigError for maps of windows
  // and of edges.
  MapLayout layout() const;
  // The same for a convolution of this side: with a side of 1 and no shift, it
  // takes the maps of windows as well, cell by cell.
  MapLayout layout_for(std::int64_t kernel_size, bool shifted) const;
  // Only with a window.
  WindowLayout window_layout() const;
  // Only along edges; on the device of the maps.
  EdgeLayout edge_layout(Device device) const {
    return edges_->layout(heads_, device);
  }

 private:
  void place_maps();  // sets the cell offsets

  std::int64_t heads_;
  std::vector<std::int64_t> q_offsets_, k_offsets_, cell_offsets_;
  bool causal_ = false;
  Tensor key_mask_;
  std::optional<Window> window_;
  EdgesPtr edges_;
  bool along_edges_ = false;
  std::vector<std::int64_t> column_offsets_;  // in place of k_, with a window
};

// "clip", "wrap", "clamp" or "author". Throws ConfigError.
HeadBorder parse_head_border(const std::string& name);
const char* name_of(HeadBorder border);

}  // namespace ea
