// SIMD copies of flat maps to one dense array and back, a map at a time
// (kernels/unpack_maps.h).
#include "kernels/unpack_maps.h"
#include "kernels/cpu/simd/map_rows-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Calls fn(b, first cell, first element of the dense map) for each map.
template <typename Maps, typename Fn>
void for_maps(const Maps& maps, Fn&& fn) {
  const MapLayout& layout = maps.layout;
  const std::int64_t size = maps.dense.shape[2] * maps.dense.shape[3];
  if (size == 0) return;
  parallel_each(
      layout.sequences * layout.heads, items_per_job(size),
      [&](std::int64_t map) {
        const std::int64_t b = map / layout.heads, h = map % layout.heads;
        fn(b, layout.begin(b) + h * layout.n_q(b) * layout.n_k(b), map * size);
      });
}

// Calls fn(row, columns) for each row i of the maps of sequence b: the dense
// row of row i, and the columns of its cells, or null where they are 0, 1, ...
template <typename Maps, typename Fn>
EA_INLINE void for_rows(const Maps& maps, std::int64_t b, Fn&& fn) {
  const MapLayout& layout = maps.layout;
  const std::int64_t* rows =
      maps.q_columns.defined()
          ? maps.q_columns.template as<std::int64_t>() + layout.q_offsets[b]
          : nullptr;
  const std::int64_t* columns =
      maps.k_columns.defined()
          ? maps.k_columns.template as<std::int64_t>() + layout.k_offsets[b]
          : nullptr;
  for (std::int64_t i = 0; i < layout.n_q(b); ++i) {
    fn(rows != nullptr ? rows[i] : i, columns);
  }
}

template <typename Word>
void run_unpack(const UnpackMaps::Args& maps) {
  const std::int64_t rows = maps.dense.shape[2], width = maps.dense.shape[3];
  for_maps(maps, [&](std::int64_t b, std::int64_t cell, std::int64_t place) {
    const Word* from = maps.flat.as<Word>() + cell;
    Word* dense = maps.dense.as<Word>() + place;
    const std::int64_t keys = maps.layout.n_k(b);
    if (maps.layout.n_q(b) < rows || keys < width) {
      __builtin_memset(dense, 0,
                       static_cast<std::size_t>(rows * width) * sizeof(Word));
    }
    for_rows(maps, b, [&](std::int64_t row, const std::int64_t* columns) {
      Word* to = dense + row * width;
      if (columns == nullptr) {
        copy_elements(from, keys, to);
      } else {
        for (std::int64_t j = 0; j < keys; ++j) to[columns[j]] = from[j];
      }
      from += keys;
    });
  });
}

template <typename Word>
void run_pack(const PackMaps::Args& maps) {
  const std::int64_t width = maps.dense.shape[3];
  for_maps(maps, [&](std::int64_t b, std::int64_t cell, std::int64_t place) {
    const Word* dense = maps.dense.as<Word>() + place;
    Word* to = maps.flat.as<Word>() + cell;
    const std::int64_t keys = maps.layout.n_k(b);
    for_rows(maps, b, [&](std::int64_t row, const std::int64_t* columns) {
      const Word* from = dense + row * width;
      if (columns == nullptr) {
        copy_elements(from, keys, to);
      } else {
        for (std::int64_t j = 0; j < keys; ++j) to[j] = from[columns[j]];
      }
      to += keys;
    });
  });
}

}  // namespace

template <>
void run<UnpackMaps>(const UnpackMaps::Args& maps) {
  by_word(maps.dense.dtype,
          [&](auto word) { run_unpack<decltype(word)>(maps); });
}

template <>
void run<PackMaps>(const PackMaps::Args& maps) {
  by_word(maps.flat.dtype, [&](auto word) { run_pack<decltype(word)>(maps); });
}

}  // namespace ea::simd::EA_TARGET
