// SIMD gather of rows by index and scatter-add of rows (kernels/gather.h).
#include "kernels/gather.h"
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Links the source rows of each destination row into a list in increasing
// order: first[row], then next[source], -1 at the end. The list of row `skip`
// is empty.
void link_rows(const std::int64_t* index, std::int64_t count, std::int64_t skip,
               std::int64_t* first, std::int64_t rows, std::int64_t* next) {
  for (std::int64_t r = 0; r < rows; ++r) first[r] = -1;
  for (std::int64_t i = count - 1; i >= 0; --i) {
    if (index[i] < 0 || index[i] == skip) continue;
    next[i] = first[index[i]];
    first[index[i]] = i;
  }
}

// Sums columns [0, n) of the listed rows of dy into dx. A few vectors of
// columns stay in registers while the list is traversed.
template <typename T>
void sum_listed(const T* dy, std::int64_t width, std::int64_t source,
                const std::int64_t* next, T* dx, std::int64_t n) {
  if (next[source] < 0) {
    __builtin_memcpy(static_cast<void*>(dx), dy + source * width,
                     static_cast<std::size_t>(n) * sizeof(T));
    return;
  }
  constexpr std::int64_t kAtOnce = 4 * kLanes;
  std::int64_t c = 0;
  for (; c + kAtOnce <= n; c += kAtOnce) {
    Vf sum[4] = {set(0.0f), set(0.0f), set(0.0f), set(0.0f)};
    for (std::int64_t i = source; i >= 0; i = next[i]) {
      for (int k = 0; k < 4; ++k) {
        sum[k] += load(dy + i * width + c + k * kLanes);
      }
    }
    for (int k = 0; k < 4; ++k) store(dx + c + k * kLanes, sum[k]);
  }
  for_vectors(n - c, [&](std::int64_t at, auto part) {
    Vf sum = set(0.0f);
    for (std::int64_t i = source; i >= 0; i = next[i]) {
      sum += load(dy + i * width + c + at, part);
    }
    store(dx + c + at, sum, part);
  });
}

// Fills rows [begin, end) of columns [column, column + n) of dx: sums the
// listed rows and zeroes the others, whole runs of them at once.
template <typename T>
void fill_rows(const ScatterAddRows::Args& args, const std::int64_t* first,
               const std::int64_t* next, std::int64_t begin, std::int64_t end,
               std::int64_t column, std::int64_t n) {
  const std::int64_t width = args.dx.shape[1];
  T* dx = args.dx.as<T>() + column;
  for (std::int64_t r = begin; r < end;) {
    if (first[r] >= 0) {
      sum_listed(args.dy.as<T>() + column, width, first[r], next,
                 dx + r * width, n);
      ++r;
      continue;
    }
    std::int64_t stop = r + 1;
    while (n == width && stop < end && first[stop] < 0) ++stop;
    __builtin_memset(
        static_cast<void*>(dx + r * width), 0,
        static_cast<std::size_t>((stop - r - 1) * width + n) * sizeof(T));
    r = stop;
  }
}

template <typename T>
void run_scatter(const ScatterAddRows::Args& args) {
  const std::int64_t rows = args.dx.shape[0], width = args.dx.shape[1];
  const std::int64_t count = args.index.shape[0];
  if (rows == 0 || width == 0) return;
  const Scratch scratch((rows + count) * 8);
  std::int64_t* first = scratch.as<std::int64_t>();
  std::int64_t* next = first + rows;
  link_rows(args.index.as<std::int64_t>(), count, args.skip, first, rows, next);
  // With many rows, a job takes several rows. With few rows that receive many,
  // a job takes a strip of columns, since one row may receive nearly all.
  const bool strips = rows * 4 < count;
  const std::int64_t columns = strips ? 64 : width;
  const std::int64_t per_job = strips ? rows : items_per_job(width);
  const std::int64_t across = ceil_div(width, columns);
  parallel_for(ceil_div(rows, per_job) * across, [&](std::int64_t job) {
    const std::int64_t begin = job / across * per_job;
    const std::int64_t end = begin + per_job < rows ? begin + per_job : rows;
    const std::int64_t column = job % across * columns;
    const std::int64_t left = width - column;
    fill_rows<T>(args, first, next, begin, end, column,
                 left < columns ? left : columns);
  });
}

}  // namespace

template <>
void run<GatherRows>(const GatherRows::Args& args) {
  const std::int64_t width = args.x.shape[1];
  const std::int64_t bytes =
      width * static_cast<std::int64_t>(size_of(args.x.dtype));
  const char* x = args.x.as<char>();
  char* y = args.y.as<char>();
  const std::int64_t* index = args.index.as<std::int64_t>();
  parallel_each(args.index.shape[0], items_per_job(width), [&](std::int64_t i) {
    char* row = y + i * bytes;
    const auto size = static_cast<std::size_t>(bytes);
    if (index[i] >= 0) {
      __builtin_memcpy(row, x + index[i] * bytes, size);
    } else {
      __builtin_memset(row, 0, size);
    }
  });
}

EA_RUN(ScatterAddRows, run_scatter, dx)

}  // namespace ea::simd::EA_TARGET
