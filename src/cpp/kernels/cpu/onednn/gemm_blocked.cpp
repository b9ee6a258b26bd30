// Partitions products with panels into tiles of a few heights, so that
// arbitrary token counts need a bounded number of primitives.
#include "kernels/cpu/onednn/gemm_blocked.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/cpu/onednn/engine.h"
#include "kernels/cpu/onednn/panels.h"
#include "kernels/cpu/onednn/primitive_cache.h"
#include "runtime/bfloat16.h"
#include "runtime/threads.h"

namespace ea::onednn {

namespace {

// Partition into `count` spans of nearly equal numbers of units, the longer
// ones first.
struct Cut {
  std::int64_t count, unit, length, total;  // length: units of a short span
  std::int64_t longer;                      // number of spans with one more

  Cut(std::int64_t total, std::int64_t unit, std::int64_t count)
      : count(count), unit(unit), total(total) {
    const std::int64_t units = ceil_div(total, unit);
    length = units / count;
    longer = units % count;
  }
  std::int64_t begin(std::int64_t i) const {
    return (i * length + std::min(i, longer)) * unit;
  }
  std::int64_t size(std::int64_t i) const {
    return std::min(begin(i + 1), total) - begin(i);
  }
};

// Tiles have a multiple of kRowStep rows, except the last. If there are many
// rows, the last tile is padded with zeros, so that other token counts can use
// its primitive. With AMX it always is: AMX computes 16 rows at a time and
// takes as long for fewer. oneDNN sums a short depth in another order if there
// are few rows, so that all of its tiles are whole.
constexpr std::int64_t kRowStep = 16;

std::int64_t padded(const Problem& p, std::int64_t rows) {
  constexpr std::int64_t kMany = 256, kShort = 64;
  std::int64_t step = p.m <= kMany ? 1 : 4;
  if (has_tiles()) {
    step = rows > 8 || p.k < kShort ? kRowStep : rows > 4 ? 8 : 4;
  }
  return round_up(rows, step);
}

struct Grid {
  Cut rows, cols;
};

Grid grid_of(const Problem& p) {
  constexpr std::int64_t kMaxRows = 128, kJobs = 8;
  constexpr std::int64_t kSmallTile = 1 << 22;  // multiply-adds worth a job
  constexpr std::int64_t kSmallRead = 1 << 17;  // elements of b worth a job
  // With AMX oneDNN uses a slow implementation if y is much wider than a.
  const std::int64_t widest = has_tiles() ? 8 * p.k : p.n;
  const std::int64_t panels = ceil_div(p.n, kPanel);
  const std::int64_t down = ceil_div(p.m, kMaxRows);
  // With few rows, reading b takes the time.
  const std::int64_t work =
      std::max(p.m * p.n * p.k / kSmallTile, p.n * p.k / kSmallRead);
  const std::int64_t jobs = std::clamp<std::int64_t>(work, 1, kJobs);
  const std::int64_t across =
      std::min(std::max(ceil_div(jobs, down), ceil_div(p.n, widest)), panels);
  return {Cut(p.m, kRowStep, down), Cut(p.n, kPanel, across)};
}

ProductKey key_of(const Problem& p, std::int64_t rows, std::int64_t cols) {
  ProductKey key{};
  key.m = padded(p, rows);
  key.n = cols;
  key.k = p.k;
  key.a_stride = p.k;  // oneDNN's blocked products require dense rows
  key.y_stride = cols;
  key.bias = p.bias != nullptr;
  key.dtype = DType::bf16;
  key.layout = Layout::panels;
  return key;
}

// Returns a tile's kind in one direction: 0 longer, 1 shorter, 2 the last.
int kind(const Cut& cut, std::int64_t i) {
  return i == cut.count - 1 ? 2 : i < cut.longer ? 0 : 1;
}

using Products = std::array<std::array<ProductPtr, 3>, 3>;

bool find_products(const Problem& p, const Grid& grid, Products& found) {
  const std::int64_t rows[] = {0, grid.rows.longer, grid.rows.count - 1};
  const std::int64_t cols[] = {0, grid.cols.longer, grid.cols.count - 1};
  for (const std::int64_t i : rows) {
    for (const std::int64_t j : cols) {
      if (i >= grid.rows.count || j >= grid.cols.count) continue;
      ProductPtr& one = found[kind(grid.rows, i)][kind(grid.cols, j)];
      one = find_product(key_of(p, grid.rows.size(i), grid.cols.size(j)));
      if (one == nullptr) return false;
    }
  }
  return true;
}

struct Place {
  const char* data;
  std::int64_t stride;  // in bytes
};

void copy_rows(const Place& from, std::int64_t rows, std::int64_t bytes,
               char* to, std::int64_t to_stride) {
  for (std::int64_t i = 0; i < rows; ++i) {
    std::memcpy(to + i * to_stride, from.data + i * from.stride, bytes);
  }
}

void blocked_tile(const Problem& p, const Product& product, const char* panels,
                  const Rectangle& r) {
  constexpr std::int64_t size = sizeof(bfloat16);
  const std::int64_t rows = padded(p, r.rows);
  const char* a = static_cast<const char*>(p.a) + r.row * p.a_stride * size;
  const char* bias = static_cast<const char*>(p.bias);
  char* y = static_cast<char*>(p.y) + (r.row * p.n + r.col) * size;
  char* target = y;
  if (rows != r.rows || p.a_stride != p.k) {
    char* copy = static_cast<char*>(scratch(Scratch::a, rows * p.k * size));
    copy_rows({a, p.a_stride * size}, r.rows, p.k * size, copy, p.k * size);
    std::memset(copy + r.rows * p.k * size, 0, (rows - r.rows) * p.k * size);
    a = copy;
  }
  if (rows != r.rows || r.cols != p.n) {
    target = static_cast<char*>(scratch(Scratch::c, rows * r.cols * size));
  }
  execute(product, {a, panels + r.col / kPanel * panels_bytes(p.k, 1),
                    bias == nullptr ? nullptr : bias + r.col * size, target});
  if (target != y) {
    copy_rows({target, r.cols * size}, r.rows, r.cols * size, y, p.n * size);
  }
}

}  // namespace

bool blocked_product(const Problem& p, const Storage* kept,
                     std::optional<std::int64_t> b_depth) {
  if (p.batch != 1 || p.alpha != 1.0f || p.transpose_a) return false;
  const Grid grid = grid_of(p);
  Products products;
  if (!find_products(p, grid, products)) return false;
  Problem laid = p;
  laid.k = b_depth.value_or(p.k);
  const auto panels = kept_or_made<Panels>(kept, laid);
  const auto* data = static_cast<const char*>(panels->data.data());
  const std::int64_t across = grid.cols.count;
  parallel_for(grid.rows.count * across, [&](std::int64_t job) {
    const std::int64_t i = job / across, j = job % across;
    const SingleThreaded single;
    blocked_tile(p, *products[kind(grid.rows, i)][kind(grid.cols, j)], data,
                 {grid.rows.begin(i), grid.cols.begin(j), grid.rows.size(i),
                  grid.cols.size(j)});
  });
  return true;
}

}  // namespace ea::onednn
