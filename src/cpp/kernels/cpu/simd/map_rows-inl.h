// Jobs over rows of attention maps and over the token rows that they belong to.
#pragma once

#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/map_layout.h"

namespace ea::simd::EA_TARGET {
namespace {

// Calls fn(b, row, rows) for runs of rows of one sequence, in jobs of about
// equally many rows; short sequences share a job. Each sequence has heads * n
// rows, head after head, with n = tokens[b + 1] - tokens[b]; `tokens` are the
// layout's offsets of queries or of keys. `elements` counts the elements of all
// rows.
template <typename Fn>
void for_row_runs(const MapLayout& layout, const std::int64_t* tokens,
                  std::int64_t elements, Fn&& fn) {
  if (layout.sequences == 0) return;
  const auto before = [&](std::int64_t b) {  // rows of the sequences before b
    return layout.heads * (tokens[b] - tokens[0]);
  };
  const std::int64_t all = before(layout.sequences);
  if (all == 0) return;
  const std::int64_t grain = items_per_job(ceil_div(elements, all));
  parallel_chunks(all, grain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t b = 0, above = layout.sequences;  // before(b) <= begin
    while (above - b > 1) {
      const std::int64_t middle = (b + above) / 2;
      (before(middle) <= begin ? b : above) = middle;
    }
    for (; begin < end; ++b) {
      const std::int64_t last = before(b + 1);
      const std::int64_t stop = last < end ? last : end;
      if (stop <= begin) continue;
      fn(b, begin - before(b), stop - begin);
      begin = stop;
    }
  });
}

// Calls fn(b, h, i) for each row: token i of head h of sequence b.
template <typename Fn>
void for_token_rows(const MapLayout& layout, const std::int64_t* tokens,
                    std::int64_t elements, Fn&& fn) {
  for_row_runs(layout, tokens, elements,
               [&](std::int64_t b, std::int64_t row, std::int64_t rows) {
                 const std::int64_t n = tokens[b + 1] - tokens[b];
                 for (std::int64_t r = row; r < row + rows; ++r) {
                   fn(b, r / n, r % n);
                 }
               });
}

// One query of one head: first cell of its map row, its row of [query
// tokens, heads], number of keys, and position in its sequence.
struct QueryRow {
  std::int64_t cell, row, keys, i;
};

// Calls fn(QueryRow) for each query and head.
template <typename Fn>
void for_queries(const MapLayout& layout, Fn&& fn) {
  for_token_rows(layout, layout.q_offsets, layout.numel(),
                 [&](std::int64_t b, std::int64_t h, std::int64_t i) {
                   const std::int64_t keys = layout.n_k(b);
                   const std::int64_t row = h * layout.n_q(b) + i;
                   const std::int64_t token = layout.q_offsets[b] + i;
                   fn(QueryRow{layout.begin(b) + row * keys,
                               token * layout.heads + h, keys, i});
                 });
}

// Calls fn(word), an integer of the size of the type's elements: copies need no
// other knowledge of them.
template <typename Fn>
EA_INLINE void by_word(DType dtype, Fn&& fn) {
  switch (size_of(dtype)) {
    case 2:
      return fn(std::uint16_t{});
    case 4:
      return fn(std::uint32_t{});
    default:
      return fn(std::uint64_t{});
  }
}

// Copies n elements. If n is 0, pointers may be null, which memcpy() forbids.
template <typename T>
EA_INLINE void copy_elements(const T* from, std::int64_t n, T* to) {
  if (n == 0) return;
  __builtin_memcpy(static_cast<void*>(to), from,
                   static_cast<std::size_t>(n) * sizeof(T));
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
