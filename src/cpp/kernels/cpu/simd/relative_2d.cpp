// SIMD products by distance along two axes, spread over maps row by row
// (kernels/relative_2d.h).
#include "kernels/relative_2d.h"
#include "kernels/cpu/simd/map_rows-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Calls fn(first key, keys, distance in rows) for each row of pixels.
template <typename Fn>
EA_INLINE void for_pixel_rows(const QueryRow& q, std::int64_t width,
                              std::int64_t reach, Fn&& fn) {
  for (std::int64_t j = 0, down = -(q.i / width); j < q.keys;
       j += width, ++down) {
    const std::int64_t rest = q.keys - j;
    fn(j, rest < width ? rest : width,
       down < -reach  ? -reach
       : down > reach ? reach
                      : down);
  }
}

template <typename T>
void run_cells(const Relative2dCells::Args& args) {
  const std::int64_t reach = args.rows.shape[1] / 2;
  const std::int64_t width = args.columns.shape[1] / 2 + 1;
  for_queries(args.layout, [&](const QueryRow& q) {
    const T* rows = args.rows.as<T>() + q.row * (2 * reach + 1) + reach;
    const T* columns = args.columns.as<T>() + q.row * (2 * width - 1) + width -
                       1 - q.i % width;
    T* y = args.y.as<T>() + q.cell;
    for_pixel_rows(q, width, reach,
                   [&](std::int64_t j, std::int64_t n, std::int64_t down) {
                     const Vf here = set(load_one(rows + down));
                     for_vectors(n, [&](std::int64_t k, auto part) {
                       store(y + j + k, here + load(columns + k, part), part);
                     });
                   });
  });
}

template <typename T>
void run_sums(const Relative2dSums::Args& args) {
  const std::int64_t reach = args.rows.shape[1] / 2;
  const std::int64_t width = args.columns.shape[1] / 2 + 1;
  const std::int64_t tall = 2 * reach + 1, wide = 2 * width - 1;
  for_queries(args.layout, [&](const QueryRow& q) {
    const T* x = args.x.as<T>() + q.cell;
    T* rows = args.rows.as<T>() + q.row * tall;
    T* columns = args.columns.as<T>() + q.row * wide;
    for (std::int64_t e = 0; e < tall; ++e) store_one(rows + e, 0.0f);
    // Clipped distances share an element; their rows of pixels are adjacent.
    float sum = 0.0f;
    std::int64_t before = -reach - 1;
    for_pixel_rows(q, width, reach,
                   [&](std::int64_t j, std::int64_t n, std::int64_t down) {
                     if (down != before) sum = 0.0f;
                     before = down;
                     sum += sum_over(n, [&](std::int64_t k, auto part) {
                       return load(x + j + k, part);
                     });
                     store_one(rows + reach + down, sum);
                   });
    const std::int64_t first = width - 1 - q.i % width;
    for (std::int64_t e = 0; e < wide; ++e) {
      if (e < first || e >= first + width) store_one(columns + e, 0.0f);
    }
    for_vectors(width, [&](std::int64_t k, auto part) {
      Vf total = set(0.0f);
      for (std::int64_t j = 0; j + k < q.keys; j += width) {
        const std::int64_t rest = q.keys - j - k;
        const std::int64_t room = width - k;
        const std::int64_t n = rest < room ? rest : room;
        total += n < kLanes ? load(x + j + k, Part(n)) : load(x + j + k, part);
      }
      store(columns + first + k, total, part);
    });
  });
}

}  // namespace

EA_RUN(Relative2dCells, run_cells, y)
EA_RUN(Relative2dSums, run_sums, x)

}  // namespace ea::simd::EA_TARGET
