// Partitions bfloat16 products into a small set of tile shapes, so that
// arbitrary token counts need a bounded number of primitives.
#include "kernels/cpu/onednn/gemm_bf16.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/onednn/engine.h"
#include "kernels/cpu/onednn/gemm_blocked.h"
#include "kernels/cpu/onednn/group_sums.h"
#include "kernels/cpu/onednn/primitive_cache.h"
#include "kernels/cpu/onednn/transpose.h"
#include "runtime/bfloat16.h"
#include "runtime/threads.h"
#include "tensor/storage.h"

namespace ea::onednn {

namespace {

// Rows of a (tokens in forward products) and, where a is transposed, the depth
// (tokens in weight gradients) are padded with zeros to multiples of these.
constexpr std::int64_t kTileRows = 16, kDepthStep = 32;
constexpr std::int64_t kDepthBlock = 2048;  // for a transposed a

Tiles bf16_tiles(const Problem& p) {
  return tiles_within(
      p, {.rows = 256, .cols = 3072, .col_step = 32, .work = 1 << 23},
      [](std::int64_t rows, std::int64_t) { return rows > 128; });
}

// One span of the depth.
struct Piece {
  std::int64_t begin, depth;
  ProductPtr product;
};

// Plan of one tile shape: pieces of the depth in order of summation.
struct Plan {
  std::int64_t padded_rows;  // rows of its primitives
  bool plain;                // one piece, which writes y; else finish() does
  std::vector<Piece> pieces;
};

// Returns false where oneDNN has no fast primitive for a piece.
bool make_plan(const Problem& p, std::int64_t rows, std::int64_t cols,
               std::int64_t depth_block, bool plain, Plan& plan) {
  plan.padded_rows = round_up(rows, kTileRows);
  plan.plain = plain;
  const bool padded = plan.padded_rows != rows;
  for (std::int64_t at = 0; at < p.k; at += depth_block) {
    ProductKey key{};
    key.m = plan.padded_rows;
    key.n = cols;
    key.k = std::min(depth_block, p.k - at);
    key.a_stride = padded ? key.k : p.a_stride;
    key.b_stride = p.b_stride;
    key.y_stride = plan.plain && !padded ? p.n : cols;
    key.layout = p.transpose_b ? Layout::columns : Layout::rows;
    key.dtype = DType::bf16;
    key.bias = plan.plain && p.bias != nullptr;
    key.output = plan.plain ? Output::same
                 : at == 0  ? Output::f32
                            : Output::f32_add;
    plan.pieces.push_back({at, key.k, find_product(key)});
    if (!plan.pieces.back().product) return false;
  }
  return true;
}

bfloat16* bf16_scratch(Scratch slot, std::int64_t elements) {
  return static_cast<bfloat16*>(scratch(slot, elements * sizeof(bfloat16)));
}

// y = bf16(alpha sum + bias), for products of several pieces or with a factor.
void finish(const Problem& p, const Rectangle& r, const float* sum,
            const bfloat16* bias, bfloat16* y) {
  for (std::int64_t i = 0; i < r.rows; ++i) {
    for (std::int64_t j = 0; j < r.cols; ++j) {
      const float b = bias != nullptr ? static_cast<float>(bias[j]) : 0.0f;
      y[i * p.n + j] = bfloat16(p.alpha * sum[i * r.cols + j] + b);
    }
  }
}

void bf16_tile(const Problem& p, const Plan& plan, std::int64_t batch,
               const Rectangle& r) {
  const bfloat16* a0 = static_cast<const bfloat16*>(p.a) + batch * p.a_batch;
  const bfloat16* b0 = static_cast<const bfloat16*>(p.b) + batch * p.b_batch;
  const bfloat16* bias = p.bias != nullptr
                             ? static_cast<const bfloat16*>(p.bias) + r.col
                             : nullptr;
  bfloat16* y =
      static_cast<bfloat16*>(p.y) + (batch * p.m + r.row) * p.n + r.col;
  const bool rows_padded = plan.padded_rows != r.rows;
  float* sum = nullptr;
  if (!plan.plain) {
    sum = static_cast<float*>(
        scratch(Scratch::sum, plan.padded_rows * r.cols * sizeof(float)));
  }
  bfloat16* target =
      rows_padded ? bf16_scratch(Scratch::c, plan.padded_rows * r.cols) : y;
  for (const Piece& piece : plan.pieces) {
    const bfloat16* a = a0 + a_offset(p, r.row, piece.begin);
    const bfloat16* b = b0 + b_offset(p, piece.begin, r.col);
    if (rows_padded) {
      bfloat16* copy = bf16_scratch(Scratch::a, plan.padded_rows * piece.depth);
      copy_padded(a, p.a_stride, r.rows, piece.depth, copy, plan.padded_rows,
                  piece.depth);
      a = copy;
    }
    execute(*piece.product, {a, b, plan.plain ? bias : nullptr,
                             plan.plain ? static_cast<void*>(target) : sum});
  }
  if (!plan.plain) {
    finish(p, r, sum, bias, y);
  } else if (rows_padded) {
    for (std::int64_t i = 0; i < r.rows; ++i) {
      std::memcpy(static_cast<void*>(y + i * p.n), target + i * r.cols,
                  r.cols * sizeof(bfloat16));
    }
  }
}

// Widens or narrows a [rows, cols] matrix, in chunks of whole rows.
template <typename From, typename To>
void convert(const From* from, std::int64_t stride, std::int64_t rows,
             std::int64_t cols, To* to) {
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 16) / cols);
  parallel_chunks(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        to[i * cols + j] = To(static_cast<float>(from[i * stride + j]));
      }
    }
  });
}

void widened_product(const Problem& p, void (*f32_product)(const Problem&)) {
  const std::int64_t a_rows = p.transpose_a ? p.k : p.m;
  const std::int64_t a_cols = p.transpose_a ? p.m : p.k;
  const std::int64_t b_rows = p.transpose_b ? p.n : p.k;
  const std::int64_t b_cols = p.transpose_b ? p.k : p.n;
  const Storage a(p.m * p.k * sizeof(float)), b(p.k * p.n * sizeof(float));
  const Storage bias(p.n * sizeof(float)), y(p.m * p.n * sizeof(float));
  Problem wide = p;
  wide.batch = 1;
  wide.a = a.data();
  wide.b = b.data();
  wide.y = y.data();
  wide.a_stride = a_cols;
  wide.b_stride = b_cols;
  if (p.bias != nullptr) {
    convert(static_cast<const bfloat16*>(p.bias), p.n, 1, p.n,
            static_cast<float*>(bias.data()));
    wide.bias = bias.data();
  }
  for (std::int64_t i = 0; i < p.batch; ++i) {
    convert(static_cast<const bfloat16*>(p.a) + i * p.a_batch, p.a_stride,
            a_rows, a_cols, static_cast<float*>(a.data()));
    convert(static_cast<const bfloat16*>(p.b) + i * p.b_batch, p.b_stride,
            b_rows, b_cols, static_cast<float*>(b.data()));
    f32_product(wide);
    convert(static_cast<const float*>(y.data()), p.n, p.m, p.n,
            static_cast<bfloat16*>(p.y) + i * p.m * p.n);
  }
}

// Computes the product from a as stored, with the depth in blocks of
// `depth_block`. Returns false where oneDNN has no fast primitive.
bool tiled_product(const Problem& p, std::int64_t depth_block) {
  const Tiles tiles = bf16_tiles(p);
  const std::int64_t last_rows = p.m - (tiles.down - 1) * tiles.rows;
  const std::int64_t last_cols = p.n - (tiles.across - 1) * tiles.cols;
  const bool plain = p.alpha == 1.0f && p.k <= depth_block;
  Plan plans[2][2];  // [last row of tiles][last column of tiles]
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      if (!make_plan(p, i == 0 ? tiles.rows : last_rows,
                     j == 0 ? tiles.cols : last_cols, depth_block, plain,
                     plans[i][j])) {
        return false;
      }
    }
  }
  parallel_for(p.batch * tiles.count(), [&](std::int64_t job) {
    const std::int64_t tile = job % tiles.count();
    const bool bottom = tile / tiles.across == tiles.down - 1;
    const bool right = tile % tiles.across == tiles.across - 1;
    const SingleThreaded single;
    bf16_tile(p, plans[bottom][right], job / tiles.count(),
              tile_at(p, tiles, tile));
  });
  return true;
}

// Whether y = a^T b is too small to split among threads while its depth is
// large. With AMX such products use panels instead.
bool is_deep(const Problem& p) {
  constexpr std::int64_t kElements = 1 << 17;
  return !has_tiles() && p.m * p.n <= kElements && p.k > kDepthBlock &&
         p.batch == 1 && p.alpha == 1.0f && p.bias == nullptr &&
         !p.transpose_b && p.m % kTileRows == 0 && p.n % kTileRows == 0 &&
         p.k % kDepthStep == 0;
}

// to = bf16(from [rows, cols]), transposed if `turned`.
void narrow(const float* from, std::int64_t rows, std::int64_t cols,
            bool turned, bfloat16* to) {
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 13) / cols);
  parallel_chunks(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        to[turned ? j * rows + i : i * cols + j] = bfloat16(from[i * cols + j]);
      }
    }
  });
}

// Computes a deep product: each group of the depth has its own sum. Only the
// narrower of a and b is transposed, piece by piece; for b, y^T = b^T a.
bool deep_product(const Problem& p) {
  constexpr std::int64_t kGroups = 8, kPiece = 1024;
  const bool turned = p.m > p.n;
  Problem part = p;
  part.transpose_a = false;
  part.m = turned ? p.n : p.m;
  part.n = turned ? p.m : p.n;
  part.a_stride = kPiece + kDepthStep;  // an odd number of cache lines
  part.b_stride = turned ? p.a_stride : p.b_stride;
  part.k = round_up(ceil_div(p.k, kGroups), kDepthStep);
  const std::int64_t groups = ceil_div(p.k, part.k);
  Problem last = part;
  last.k = p.k - (groups - 1) * part.k;
  Plan plans[2];
  if (!make_plan(part, part.m, part.n, kPiece, false, plans[0]) ||
      !make_plan(last, part.m, part.n, kPiece, false, plans[1])) {
    return false;
  }
  const std::int64_t size = p.m * p.n;
  const Storage sums(static_cast<std::size_t>(groups * size) * sizeof(float));
  float* const all = static_cast<float*>(sums.data());
  const auto* left = static_cast<const bfloat16*>(turned ? p.b : p.a);
  const auto* right = static_cast<const bfloat16*>(turned ? p.a : p.b);
  const std::int64_t left_stride = turned ? p.b_stride : p.a_stride;
  parallel_for(groups, [&](std::int64_t g) {
    const SingleThreaded single;
    bfloat16* const copy = bf16_scratch(Scratch::a, part.m * part.a_stride);
    for (const Piece& piece : plans[g == groups - 1].pieces) {
      const std::int64_t at = g * part.k + piece.begin;
      transpose_padded(left + at * left_stride, left_stride, piece.depth,
                       part.m, copy, part.a_stride);
      execute(*piece.product,
              {copy, right + at * part.b_stride, nullptr, all + g * size});
    }
  });
  add_groups(all, groups, size);
  narrow(all, part.m, part.n, turned, static_cast<bfloat16*>(p.y));
  return true;
}

// oneDNN packs b again for every tile. With AMX that takes as long as the
// multiplication itself; without AMX it matters only where b is large.
bool prefers_panels(const Problem& p) {
  constexpr std::int64_t kRows = 256, kLarge = 1 << 19;  // elements of b
  if (p.batch != 1 || p.alpha != 1.0f) return false;
  if (p.transpose_a) return !is_deep(p);
  return p.m >= kRows && (has_tiles() || p.n * p.k >= kLarge);
}

// Computes a product whose a is transposed, so that the depth is a token count.
// Copies a in untransposed order; pads a and b in depth.
bool transposed_product(const Problem& p) {
  const std::int64_t k = round_up(p.k, kDepthStep);
  if (is_deep(p) && deep_product(p)) return true;
  const bool panels = prefers_panels(p);  // these need dense rows
  // An odd number of cache lines, so that rows do not share cache sets.
  const std::int64_t stride = k % 64 == 0 && !panels ? k + 32 : k;
  const Storage a(p.batch * p.m * stride * sizeof(bfloat16));
  Problem q = p;
  q.k = k;
  q.a = a.data();
  q.a_stride = stride;
  q.a_batch = p.m * stride;
  q.transpose_a = false;
  for (std::int64_t i = 0; i < p.batch; ++i) {
    transpose_padded(static_cast<const bfloat16*>(p.a) + i * p.a_batch,
                     p.a_stride, p.k, p.m,
                     static_cast<bfloat16*>(a.data()) + i * q.a_batch, stride);
  }
  if (panels && blocked_product(q, nullptr, p.k)) return true;
  const std::int64_t b_rows = p.transpose_b ? p.n : k;
  const std::int64_t b_cols = p.transpose_b ? k : p.n;
  const Storage b(k == p.k ? 0 : p.batch * k * p.n * sizeof(bfloat16));
  if (k != p.k) {
    q.b = b.data();
    q.b_stride = b_cols;
    q.b_batch = k * p.n;
    for (std::int64_t i = 0; i < p.batch; ++i) {
      const auto* from = static_cast<const bfloat16*>(p.b) + i * p.b_batch;
      auto* to = static_cast<bfloat16*>(b.data()) + i * q.b_batch;
      parallel_chunks(b_rows, 64, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t rows = p.transpose_b ? p.n : p.k;
        copy_padded(from + begin * p.b_stride, p.b_stride,
                    std::clamp<std::int64_t>(rows - begin, 0, end - begin),
                    p.transpose_b ? p.k : p.n, to + begin * b_cols, end - begin,
                    b_cols);
      });
    }
  }
  return tiled_product(q, kDepthBlock);
}

}  // namespace

void bf16_product(const Problem& p, void (*f32_product)(const Problem&)) {
  const bool done =
      has_bf16() &&
      (p.transpose_a ? transposed_product(p)
                     : (prefers_panels(p) && blocked_product(p, nullptr)) ||
                           tiled_product(p, p.k));
  if (!done) widened_product(p, f32_product);
}

}  // namespace ea::onednn
