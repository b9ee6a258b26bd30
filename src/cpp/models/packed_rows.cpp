// Converts indices between the padded and the packed layout.
#include "models/packed_rows.h"

#include <numeric>
#include <utility>

#include "ops/gather.h"
#include "ops/unpack_maps.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Whether every sequence fills the first columns without a gap.
bool in_front(const Rows& rows) {
  for (std::size_t b = 1; b < rows.offsets.size(); ++b) {
    const auto begin = static_cast<std::size_t>(rows.offsets[b - 1]);
    const auto end = static_cast<std::size_t>(rows.offsets[b]);
    // Columns increase, so the last one decides.
    if (end > begin &&
        rows.columns[end - 1] != static_cast<std::int64_t>(end - begin) - 1) {
      return false;
    }
  }
  return true;
}

}  // namespace

Rows rows_of_packed(const Tensor& offsets, std::int64_t total,
                    const std::string& what, const std::string& name) {
  EA_CHECK(offsets.rank() == 1 && offsets.numel() >= 1, "forward",
           "{} has shape {}, expected (sequences + 1,)", name, offsets.shape());
  std::vector<std::int64_t> at(values(offsets),
                               values(offsets) + offsets.numel());
  EA_CHECK(at.front() == 0 && at.back() == total, "forward",
           "{} run from {} to {}, expected 0 to {} (the number of {})", name,
           at.front(), at.back(), total, what);
  for (std::size_t b = 1; b < at.size(); ++b) {
    EA_CHECK_AS(InputError, at[b] > at[b - 1], "forward",
                "sequence {} has no token: {}[{}] = {} is not above {}", b - 1,
                name, b, at[b], at[b - 1]);
  }
  return whole_rows(std::move(at));
}

Rows whole_rows(std::vector<std::int64_t> offsets) {
  Rows rows;
  rows.offsets = std::move(offsets);
  rows.places.resize(static_cast<std::size_t>(rows.offsets.back()));
  std::iota(rows.places.begin(), rows.places.end(), 0);
  rows.columns = positions_of(rows.offsets);
  return rows;
}

Tensor host_integers(const std::string& name, const Tensor& t) {
  if (!t.defined()) return t;
  EA_CHECK_AS(DTypeError, t.dtype() == DType::i64, "forward",
              "{} must be integers (int64), got {}", name, t.dtype());
  return to_device(contiguous(t), kCpu);
}

PackedRows packed_rows(const Rows& rows, std::int64_t heads) {
  PackedRows packed;
  packed.packing = std::make_shared<const Packing>(heads, rows.offsets);
  packed.places = from_values(rows.places);
  packed.length = packed.packing->longest_query();
  return packed;
}

PackedRows packed_rows(const Rows& rows, std::int64_t heads, std::int64_t batch,
                       std::int64_t length) {
  PackedRows packed = packed_rows(rows, heads);
  packed.padded = true;
  packed.length = length;
  std::vector<std::int64_t> index(static_cast<std::size_t>(batch * length), -1);
  for (std::size_t i = 0; i < rows.places.size(); ++i) {
    index[static_cast<std::size_t>(rows.places[i])] =
        static_cast<std::int64_t>(i);
  }
  packed.pad_index = reshape_view(from_values(index), {batch, length});
  if (!in_front(rows)) packed.columns = from_values(rows.columns);
  return packed;
}

Var pad_rows(const Var& rows, const PackedRows& packed) {
  return packed.padded ? gather_rows(rows, packed.pad_index) : rows;
}

Var pad_maps(const Var& maps, const PackingPtr& layout,
             const PackedRows& queries, const PackedRows& keys) {
  return unpack_maps(
      maps,
      layout->window() ? layout
                       : Packing::between(queries.packing, keys.packing,
                                          queries.packing->heads()),
      {queries.length, keys.length, queries.columns, keys.columns});
}

}  // namespace ea
