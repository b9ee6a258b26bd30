// The rows of each sequence, and where their attention maps lie.
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

// Immutable offsets of packed sequences, of the maps of `heads` heads between
// them, and of which cells of the maps exist. Shared by all layers of a pass.
// See kernels/map_layout.h.
class Packing {
 public:
  // offsets: [sequences + 1], starting at 0, non-decreasing. Throws ShapeError.
  Packing(std::int64_t heads, std::vector<std::int64_t> offsets);
  // Cross attention: queries and keys have their own offsets.
  Packing(std::int64_t heads, std::vector<std::int64_t> q_offsets,
          std::vector<std::int64_t> k_offsets);
  // Returns a causal copy, or the packing itself if it is already causal.
  static PackingPtr causal(const PackingPtr& packing);
  // Returns a copy with key_mask in place of its own mask: uint8 [total keys]
  // on the device of the maps, or undefined. Throws ShapeError.
  static PackingPtr masked(const PackingPtr& packing, const Tensor& key_mask);
  // Returns a copy whose maps are windows over the same tokens, see
  // kernels/window_layout.h. Throws ShapeError if the keys are not the queries'
  // tokens, and ConfigError for a packing with other limits, an even size, or
  // more heads than the packing has.
  static PackingPtr windowed(const PackingPtr& packing, const Window& window);
  // Returns a copy with a graph between its tokens, for scopes that need one;
  // its maps still contain all queries and keys. Throws ShapeError unless the
  // nodes of the graph are the tokens.
  static PackingPtr with_edges(const PackingPtr& packing,
                               const EdgesPtr& edges);
  // Returns a copy whose maps contain only the edges of the graph, see
  // kernels/edge_layout.h. Throws ConfigError for a packing without a graph, or
  // with other limits.
  static PackingPtr along_edges(const PackingPtr& packing);

  // Returns a packing for maps of `heads` heads between the tokens of two
  // packings, sequence by sequence; returns `queries` itself if it already is
  // that packing. Throws ShapeError if the numbers of sequences differ.
  static std::shared_ptr<const Packing> between(
      const std::shared_ptr<const Packing>& queries,
      const std::shared_ptr<const Packing>& keys, std::int64_t heads);
  // Whether both have maps of the same number, shapes and layout, so that a map
  // of one is also a map of the other.
  bool same_maps(const Packing& other) const;
  // Whether the same cells exist, too.
  bool same_cells(const Packing& other) const;

  bool is_causal() const { return causal_; }
  const Tensor& key_mask() const { return key_mask_; }
  // Set if the maps are windows.
  const std::optional<Window>& window() const { return window_; }
  // The graph between the tokens, or null; and whether the maps contain only
  // its edges.
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
  // Throw ShapeError, naming `op` and the argument, unless x has the rows of
  // the queries (keys) and a width for each head, or maps have this size.
  void check_queries(const char* op, const char* what, const Shape& x) const;
  void check_keys(const char* op, const char* what, const Shape& x) const;
  void check_maps(const char* op, std::int64_t elements,
                  const char* which = "") const;
  // Number of cells in a map row of sequence b.
  std::int64_t columns(std::size_t b) const;
  // Layout with queries as rows and keys as columns. Throws ConfigError for
  // maps of windows or edges.
  MapLayout layout() const;
  // layout() for a convolution with this kernel size. With size 1 and no shift
  // it also accepts maps of windows, cell by cell.
  MapLayout layout_for(std::int64_t kernel_size, bool shifted) const;
  // Requires a window.
  WindowLayout window_layout() const;
  // Requires maps along edges; the lists are on `device`, that of the maps.
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
  std::vector<std::int64_t> column_offsets_;  // replace k_ for windows
};

// Offsets of `n` sequences of `length` tokens.
std::vector<std::int64_t> equal_offsets(std::int64_t n, std::int64_t length);
// The index of each token in its own sequence.
std::vector<std::int64_t> positions_of(
    const std::vector<std::int64_t>& offsets);

// Parses "clip", "wrap", "clamp" or "author". Throws ConfigError.
HeadBorder parse_head_border(const std::string& name);
const char* name_of(HeadBorder border);

}  // namespace ea
