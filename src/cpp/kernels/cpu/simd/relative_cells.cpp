// SIMD products by distance, spread over maps row by row
// (kernels/relative_cells.h).
#include "kernels/relative_cells.h"
#include "kernels/cpu/simd/map_rows-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

EA_INLINE std::int64_t clip(std::int64_t x, std::int64_t low,
                            std::int64_t high) {
  return x < low ? low : x > high ? high : x;
}

// Row i of a map has three parts: cells [0, below) are at distance -D or
// further, each cell up to `above` has its own distance, and cells [above,
// keys) are at distance D or further. With D = 0 the first part is the whole
// row.
struct RowParts {
  std::int64_t below, above;

  EA_INLINE RowParts(std::int64_t i, std::int64_t keys, std::int64_t furthest)
      : below(furthest == 0 ? keys : clip(i - furthest + 1, 0, keys)),
        above(clip(i + furthest, below, keys)) {}
  EA_INLINE std::int64_t size() const { return above - below; }
};

template <typename Word>
void run_cells(const RelativeCells::Args& args) {
  const std::int64_t width = args.x.shape[1], furthest = width / 2;
  for_queries(args.layout, [&](const QueryRow& q) {
    const Word* x = args.x.as<Word>() + q.row * width;
    Word* y = args.y.as<Word>() + q.cell;
    const RowParts parts(q.i, q.keys, furthest);
    for (std::int64_t j = 0; j < parts.below; ++j) y[j] = x[0];
    copy_elements(x + furthest + parts.below - q.i, parts.size(),
                  y + parts.below);
    for (std::int64_t j = parts.above; j < q.keys; ++j) y[j] = x[width - 1];
  });
}

template <typename T>
EA_INLINE float sum_of_cells(const T* x, std::int64_t n) {
  return sum_over(n,
                  [&](std::int64_t j, auto part) { return load(x + j, part); });
}

template <typename T>
void run_sums(const RelativeSums::Args& args) {
  const std::int64_t width = args.y.shape[1], furthest = width / 2;
  for_queries(args.layout, [&](const QueryRow& q) {
    const T* x = args.x.as<T>() + q.cell;
    T* y = args.y.as<T>() + q.row * width;
    const RowParts parts(q.i, q.keys, furthest);
    store_one(y, sum_of_cells(x, parts.below));
    if (furthest == 0) return;
    store_one(y + width - 1,
              sum_of_cells(x + parts.above, q.keys - parts.above));
    // The columns between 0 and width - 1; of these, [first, last) have a cell.
    const bool any = parts.size() > 0;
    const std::int64_t first = any ? furthest + parts.below - q.i : 1;
    const std::int64_t last = first + parts.size();
    for (std::int64_t e = 1; e < first; ++e) store_one(y + e, 0.0f);
    copy_elements(x + parts.below, parts.size(), y + first);
    for (std::int64_t e = last; e < width - 1; ++e) store_one(y + e, 0.0f);
  });
}

}  // namespace

template <>
void run<RelativeCells>(const RelativeCells::Args& args) {
  by_word(args.y.dtype, [&](auto word) { run_cells<decltype(word)>(args); });
}

EA_RUN(RelativeSums, run_sums, y)

}  // namespace ea::simd::EA_TARGET
