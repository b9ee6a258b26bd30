// Appends, selects and gathers the rows of a cache.
#include "nn/attention/cache.h"

#include <algorithm>
#include <utility>

#include "ops/gather.h"
#include "ops/shape_ops.h"

namespace ea {

namespace {

// Returns x[kept] along the first axis of [sequences, tokens, width].
Var gather_sequences(const Var& x, const Tensor& kept) {
  if (!x.defined()) return x;
  const Shape& shape = x.shape();
  const Var rows = reshape(x, {shape[0], shape[1] * shape[2]});
  return reshape(gather_rows(rows, kept), {kept.numel(), shape[1], shape[2]});
}

// Returns `all` if n more rows fit after those in use, else a larger copy. The
// copy has capacity for the expected rows, up to kBelieved elements.
Tensor roomy(const Tensor& all, const AttentionCache& cache, const Tensor& like,
             std::int64_t width) {
  const std::int64_t n = like.dim(0), used = cache.used;
  if (all.defined() && all.dim(0) >= used + n) return all;
  constexpr std::int64_t kBelieved = std::int64_t{1} << 22;  // elements
  // Capacity at least doubles, so that a row is copied once on average.
  const std::int64_t room = std::max(
      {used + n, 2 * used, 8 * n, std::min(cache.expected, kBelieved / width)});
  const Tensor grown = empty({room, width}, like.dtype(), like.device());
  if (used > 0) {
    copy_into(slice_view(all, 0, 0, used), slice_view(grown, 0, 0, used));
  }
  return grown;
}

std::vector<AttentionCache::Rows> chosen(
    const std::vector<AttentionCache::Rows>& rows,
    const std::vector<std::int64_t>& kept) {
  std::vector<AttentionCache::Rows> out;
  for (const std::int64_t b : kept) {
    out.push_back(rows.at(static_cast<std::size_t>(b)));
  }
  return out;
}

bool in_order(const AttentionCache::Rows& rows, std::int64_t used) {
  if (static_cast<std::int64_t>(rows.size()) != used) return false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

}  // namespace

SelectedRows select_rows(const std::vector<std::int64_t>& offsets,
                         const std::vector<std::int64_t>& kept) {
  SelectedRows selected{{}, {0}};
  std::vector<std::int64_t> rows;
  for (const std::int64_t b : kept) {
    const auto at = static_cast<std::size_t>(b);
    for (std::int64_t i = offsets.at(at); i < offsets.at(at + 1); ++i) {
      rows.push_back(i);
    }
    selected.offsets.push_back(static_cast<std::int64_t>(rows.size()));
  }
  selected.rows = from_values(rows);
  return selected;
}

void AttentionCache::select(const std::vector<std::int64_t>& kept,
                            bool same_memory) {
  if (queries.defined()) queries = gather_sequences(queries, from_values(kept));
  if (!map_rows.empty()) map_rows = chosen(map_rows, kept);
  if (rows.empty() || (of_memory && same_memory)) return;  // none yet
  rows = chosen(rows, kept);
}

AttentionCache::Pair AttentionCache::append(const Tensor& like,
                                            std::int64_t key_width,
                                            std::int64_t value_width) {
  keys = roomy(keys, *this, like, key_width);
  values = roomy(values, *this, like, value_width);
  const std::int64_t first = used;
  rows.resize(static_cast<std::size_t>(like.dim(0)));
  for (Rows& one : rows) one.push_back(used++);
  return {slice_view(keys, 0, first, used), slice_view(values, 0, first, used)};
}

// The rows of `maps` form a ring of `side` slots with one row per sequence
// each; a new map overwrites the oldest slot.
AttentionCache::Rows AttentionCache::add_map(std::int64_t heads,
                                             std::int64_t side) {
  const auto earlier = static_cast<std::size_t>(side - 1);
  map_rows.resize(rows.size(), Rows(earlier, -1));
  make_room_for_maps(heads, side);
  std::int64_t next = maps_added++ % side * (maps.dim(0) / side);
  Rows all;
  for (Rows& mine : map_rows) {
    mine.push_back(next++);
    all.insert(all.end(), mine.begin(), mine.end());
    mine.erase(mine.begin());
  }
  return all;
}

void AttentionCache::make_room_for_maps(std::int64_t heads, std::int64_t side) {
  const auto n = static_cast<std::int64_t>(rows.size());
  std::size_t longest = 0;
  for (const Rows& one : rows) longest = std::max(longest, one.size());
  const std::int64_t needed =
      static_cast<std::int64_t>(longest) + 3 * (side - 1);
  const std::int64_t before = maps.defined() ? maps.dim(2) : 0;
  if (before >= needed && maps.dim(0) >= side * n) return;
  // Capacity doubles, so that a row is copied once on average.
  const std::int64_t room = before >= needed ? before
                            : of_memory      ? needed
                                             : 2 * needed;
  const Tensor old = std::exchange(
      maps, empty({side * n, heads, room}, keys.dtype(), keys.device()));
  const std::int64_t moved = (side - 1) * n;
  maps_added = side - 1;
  if (before == 0 || moved == 0) return;
  Rows from;
  for (std::int64_t i = 0; i < side - 1; ++i) {
    for (Rows& mine : map_rows) {
      std::int64_t& row = mine[static_cast<std::size_t>(i)];
      from.push_back(std::max<std::int64_t>(row, 0));
      if (row >= 0) row = static_cast<std::int64_t>(from.size()) - 1;
    }
  }
  const Tensor taken =
      gather_rows(Var(reshape_view(old, {old.dim(0), heads * before})),
                  from_values(from))
          .data();
  const Tensor all = reshape_view(maps, {side * n * heads, room});
  copy_into(reshape_view(taken, {moved * heads, before}),
            slice_view(slice_view(all, 0, 0, moved * heads), 1, 0, before));
}

AttentionCache::Rows AttentionCache::all_rows() const {
  Rows all;
  for (const Rows& one : rows) all.insert(all.end(), one.begin(), one.end());
  return all;
}

AttentionCache::Rows AttentionCache::offsets() const {
  Rows found{0};
  for (const Rows& one : rows) {
    found.push_back(found.back() + static_cast<std::int64_t>(one.size()));
  }
  return found;
}

AttentionCache::Pair AttentionCache::gather() {
  const Rows all = all_rows();
  const Tensor k = slice_view(keys, 0, 0, used);
  const Tensor v = slice_view(values, 0, 0, used);
  if (in_order(all, used)) return {k, v};
  const Tensor index = from_values(all);
  Pair found{gather_rows(Var(k), index).data(),
             gather_rows(Var(v), index).data()};
  if (of_memory) {
    const Rows at = offsets();
    for (std::size_t b = 0; b < rows.size(); ++b) {
      for (std::size_t i = 0; i < rows[b].size(); ++i) {
        rows[b][i] = at[b] + static_cast<std::int64_t>(i);
      }
    }
    keys = found.keys;
    values = found.values;
    used = static_cast<std::int64_t>(all.size());
  }
  return found;
}

}  // namespace ea
