// Checks offsets and computes the offsets of the maps.
#include "ops/packing.h"

#include <algorithm>
#include <array>

#include "runtime/check.h"

namespace ea {

namespace {

// Names in the order of HeadBorder.
constexpr std::array<const char*, 4> kBorders{"clip", "wrap", "clamp",
                                              "author"};

void check_offsets(const std::vector<std::int64_t>& offsets) {
  EA_CHECK(!offsets.empty() && offsets.front() == 0, "packing",
           "offsets must start with 0 (one more entry than sequences)");
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    EA_CHECK(offsets[i] >= offsets[i - 1], "packing",
             "offsets[{}] = {} is below offsets[{}] = {}", i, offsets[i], i - 1,
             offsets[i - 1]);
  }
}

void check_grid(const Packing& packing) {
  EA_CHECK_AS(
      ConfigError, !packing.is_along_edges(), "packing",
      "the maps are those of the edges of a graph; this operation needs a "
      "map of all queries and keys: use the scope dense");
  EA_CHECK_AS(ConfigError, !packing.window(), "packing",
              "the maps are those of windows of {} positions; this operation "
              "needs a map of all queries and keys: use the scope dense",
              packing.window()->size);
}

void check_tokens(const char* op, const char* what, const Shape& x,
                  std::int64_t rows, std::int64_t heads) {
  EA_CHECK(x.rank() == 2 && x[0] == rows, op,
           "{} has shape {}, expected {} token rows", what, x, rows);
  EA_CHECK(x[1] % heads == 0, op, "{} has width {}, not a multiple of {} heads",
           what, x[1], heads);
}

std::int64_t longest(const std::vector<std::int64_t>& offsets) {
  std::int64_t most = 0;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    most = std::max(most, offsets[i] - offsets[i - 1]);
  }
  return most;
}

}  // namespace

Packing::Packing(std::int64_t heads, std::vector<std::int64_t> offsets)
    : Packing(heads, offsets, offsets) {}

Packing::Packing(std::int64_t heads, std::vector<std::int64_t> q_offsets,
                 std::vector<std::int64_t> k_offsets)
    : heads_(heads),
      q_offsets_(std::move(q_offsets)),
      k_offsets_(std::move(k_offsets)) {
  check_offsets(q_offsets_);
  check_offsets(k_offsets_);
  EA_CHECK(heads_ > 0, "packing", "expected at least one head, got {}", heads_);
  EA_CHECK(q_offsets_.size() == k_offsets_.size(), "packing",
           "{} query sequences but {} key sequences", q_offsets_.size() - 1,
           k_offsets_.size() - 1);
  place_maps();
}

void Packing::place_maps() {
  const auto* starts =
      along_edges_ ? edges_->starts().data<std::int64_t>() : nullptr;
  std::int64_t cells = 0;
  cell_offsets_.assign(1, 0);
  for (std::size_t b = 1; b < q_offsets_.size(); ++b) {
    const std::int64_t rows = q_offsets_[b] - q_offsets_[b - 1];
    cells = starts != nullptr ? starts[q_offsets_[b]]
                              : cells + Shape({rows, columns(b - 1)}).numel();
    // Throws ShapeError for maps that exceed any memory.
    (void)Shape({heads_, cells}).numel();
    cell_offsets_.push_back(cells);
  }
}

PackingPtr Packing::causal(const PackingPtr& packing) {
  if (packing->causal_) return packing;
  check_grid(*packing);
  Packing limited = *packing;
  limited.causal_ = true;
  return std::make_shared<const Packing>(std::move(limited));
}

PackingPtr Packing::masked(const PackingPtr& packing, const Tensor& key_mask) {
  if (!key_mask.defined() && !packing->key_mask_.defined()) return packing;
  check_grid(*packing);
  EA_CHECK(!key_mask.defined() || (is_mask(key_mask.dtype()) &&
                                   key_mask.numel() == packing->total_keys()),
           "packing", "key_mask is {} {}, expected bool or uint8 ({},)",
           key_mask.dtype(), key_mask.shape(), packing->total_keys());
  Packing seen = *packing;
  seen.key_mask_ = key_mask.defined() ? contiguous(key_mask) : key_mask;
  return std::make_shared<const Packing>(std::move(seen));
}

PackingPtr Packing::windowed(const PackingPtr& packing, const Window& window) {
  EA_CHECK_AS(
      ConfigError,
      window.size > 0 && window.size % 2 == 1 && window.heads > 0 &&
          window.heads % 2 == 1,
      "window",
      "size {} and heads {}: expected odd numbers, so that a window has "
      "its query in the middle",
      window.size, window.heads);
  EA_CHECK_AS(ConfigError, window.heads <= packing->heads_, "window",
              "heads {} are more than the {} of the layer; expected an odd "
              "number up to that",
              window.heads, packing->heads_);
  EA_CHECK(packing->q_offsets_ == packing->k_offsets_, "window",
           "{} queries and {} keys; expected self attention, where keys are "
           "the queries' own tokens: use the scope dense",
           packing->total_queries(), packing->total_keys());
  EA_CHECK_AS(ConfigError, packing->dense(), "window",
              "the packing is causal or has a key mask; expected neither "
              "with a window");
  Packing limited = *packing;
  limited.window_ = window;
  limited.column_offsets_.assign(1, 0);
  for (std::size_t b = 1; b < limited.q_offsets_.size(); ++b) {
    limited.column_offsets_.push_back(
        limited.column_offsets_.back() +
        window.heads *
            WindowLayout::width_of(
                window, limited.q_offsets_[b] - limited.q_offsets_[b - 1]));
  }
  limited.place_maps();
  return std::make_shared<const Packing>(std::move(limited));
}

PackingPtr Packing::with_edges(const PackingPtr& packing,
                               const EdgesPtr& edges) {
  EA_CHECK(
      edges->queries() == packing->total_queries() &&
          edges->num_keys() == packing->total_keys(),
      "packing",
      "the graph has edges from {} nodes to {}, the packing has {} keys and "
      "{} queries; expected as many",
      edges->num_keys(), edges->queries(), packing->total_keys(),
      packing->total_queries());
  Packing joined = *packing;
  joined.edges_ = edges;
  return std::make_shared<const Packing>(std::move(joined));
}

PackingPtr Packing::along_edges(const PackingPtr& packing) {
  EA_CHECK_AS(ConfigError, packing->edges_ != nullptr, "packing",
              "the scope edges needs a graph between the tokens, and there is "
              "none; use a graph model such as GAT, Packing(edges=...), or the "
              "scope dense");
  if (packing->along_edges_) return packing;
  check_grid(*packing);
  EA_CHECK_AS(ConfigError, packing->dense(), "packing",
              "the packing is causal or has a key mask; expected neither with "
              "edges: leave out the edges that nobody sees");
  Packing limited = *packing;
  limited.along_edges_ = true;
  limited.place_maps();
  return std::make_shared<const Packing>(std::move(limited));
}

PackingPtr Packing::between(const PackingPtr& queries, const PackingPtr& keys,
                            std::int64_t heads) {
  const bool itself = queries->q_offsets_ == keys->q_offsets_;
  if (itself && queries->heads_ == heads &&
      queries->k_offsets_ == keys->q_offsets_) {
    return queries;
  }
  EA_CHECK(queries->sequences() == keys->sequences(), "attention",
           "{} sequences of queries and {} of keys; expected as many, in pairs",
           queries->sequences(), keys->sequences());
  Packing made(heads, queries->q_offsets_, keys->q_offsets_);
  if (itself) made.edges_ = queries->edges_;
  return std::make_shared<const Packing>(std::move(made));
}

bool Packing::same_maps(const Packing& other) const {
  return this == &other ||
         (heads_ == other.heads_ && q_offsets_ == other.q_offsets_ &&
          k_offsets_ == other.k_offsets_ && window_ == other.window_ &&
          along_edges_ == other.along_edges_ &&
          (!along_edges_ || edges_ == other.edges_));
}

bool Packing::same_cells(const Packing& other) const {
  const auto mask = [](const Packing& p) {
    return p.key_mask_.defined() ? p.key_mask_.raw() : nullptr;
  };
  return same_maps(other) && causal_ == other.causal_ &&
         mask(*this) == mask(other);
}

void Packing::check_queries(const char* op, const char* what,
                            const Shape& x) const {
  check_tokens(op, what, x, total_queries(), heads_);
}

void Packing::check_keys(const char* op, const char* what,
                         const Shape& x) const {
  check_tokens(op, what, x, total_keys(), heads_);
}

void Packing::check_maps(const char* op, std::int64_t elements,
                         const char* which) const {
  EA_CHECK(elements == map_elements(), op,
           "{}{}maps have {} elements; expected the packing's {}", which,
           *which == '\0' ? "" : " ", elements, map_elements());
}

std::int64_t Packing::longest_query() const { return longest(q_offsets_); }

std::int64_t Packing::longest_key() const { return longest(k_offsets_); }

std::int64_t Packing::columns(std::size_t b) const {
  const auto& offsets = window_ ? column_offsets_ : k_offsets_;
  return offsets[b + 1] - offsets[b];
}

MapLayout Packing::layout() const {
  check_grid(*this);
  return {heads_,
          sequences(),
          q_offsets_.data(),
          k_offsets_.data(),
          cell_offsets_.data(),
          causal_,
          key_mask_};
}

MapLayout Packing::layout_for(std::int64_t kernel_size, bool shifted) const {
  if (window_ && kernel_size == 1 && !shifted) return window_layout().cells;
  return layout();
}

WindowLayout Packing::window_layout() const {
  const MapLayout cells{heads_, sequences(), q_offsets_.data(),
                        column_offsets_.data(), cell_offsets_.data()};
  return {cells, *window_};
}

std::vector<std::int64_t> equal_offsets(std::int64_t n, std::int64_t length) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t i = 0; i <= n; ++i) offsets.push_back(i * length);
  return offsets;
}

std::vector<std::int64_t> positions_of(
    const std::vector<std::int64_t>& offsets) {
  std::vector<std::int64_t> positions;
  for (std::size_t b = 1; b < offsets.size(); ++b) {
    for (std::int64_t i = offsets[b - 1]; i < offsets[b]; ++i) {
      positions.push_back(i - offsets[b - 1]);
    }
  }
  return positions;
}

HeadBorder parse_head_border(const std::string& name) {
  const auto it = std::find(kBorders.begin(), kBorders.end(), name);
  EA_CHECK_AS(ConfigError, it != kBorders.end(), "window",
              "head_border='{}' is unknown; expected clip, wrap, clamp or "
              "author",
              name);
  return static_cast<HeadBorder>(it - kBorders.begin());
}

const char* name_of(HeadBorder border) {
  return kBorders[static_cast<std::size_t>(border)];
}

}  // namespace ea
