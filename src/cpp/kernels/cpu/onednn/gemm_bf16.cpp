// Cuts bfloat16 products into a small set of tile shapes, so that arbitrary
// token counts do not make an endless number of primitives.
#include "kernels/cpu/onednn/gemm_bf16.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "kernels/cpu/onednn/engine.h"
#include "kernels/cpu/onednn/primitive_cache.h"
#include "runtime/bfloat16.h"
#include "runtime/threads.h"
#include "tensor/storage.h"

namespace ea::onednn {

namespace {

// Rows of a (tokens in forward products) and, where a is transposed, the depth
// (tokens in weight gradients) are padded with zeros to multiples of these.
constexpr std::int64_t kRowStep = 16, kDepthStep = 32;
constexpr std::int64_t kDepthBlock = 1024;  // of a transposed a

std::int64_t up(std::int64_t n, std::int64_t step) {
  return (n + step - 1) / step * step;
}

Tiles bf16_tiles(const Problem& p) {
  constexpr std::int64_t kMaxRows = 256, kMaxCols = 3072, kJobs = 8;
  constexpr std::int64_t kSmallTile = 1 << 23;
  std::int64_t down = (p.m + kMaxRows - 1) / kMaxRows;
  std::int64_t across = (p.n + kMaxCols - 1) / kMaxCols;
  const auto rows = [&] { return up((p.m + down - 1) / down, kRowStep); };
  const auto cols = [&] { return up((p.n + across - 1) / across, 32); };
  while (p.batch * down * across < kJobs &&
         rows() * cols() * p.k > kSmallTile) {
    if (rows() > 128) {
      down *= 2;
    } else {
      across *= 2;
    }
  }
  return {std::min(rows(), p.m), std::min(cols(), p.n),
          (p.m + rows() - 1) / rows(), (p.n + cols() - 1) / cols()};
}

// One stretch of the depth: `depth` of the operands, `padded` of the product.
struct Piece {
  std::int64_t begin, depth, padded;
  ProductPtr product;
};

// The depth of one tile shape, in the order in which it is summed.
struct Plan {
  std::int64_t rows, cols;   // of the tile, and ...
  std::int64_t padded_rows;  // ... of its product
  std::int64_t y_stride;
  bool plain;  // one piece straight into y
  std::vector<Piece> pieces;
};

std::vector<Piece> cut_depth(const Problem& p) {
  std::vector<Piece> pieces;
  if (!p.transpose_a) {
    pieces.push_back({0, p.k, p.k, nullptr});
    return pieces;
  }
  const std::int64_t whole = p.k / kDepthStep * kDepthStep;
  for (std::int64_t at = 0; at < whole; at += kDepthBlock) {
    const std::int64_t depth = std::min(kDepthBlock, whole - at);
    pieces.push_back({at, depth, depth, nullptr});
  }
  if (whole < p.k) pieces.push_back({whole, p.k - whole, kDepthStep, nullptr});
  return pieces;
}

// False where oneDNN has no fast primitive for a piece.
bool make_plan(const Problem& p, std::int64_t rows, std::int64_t cols,
               Plan& plan) {
  plan.rows = rows;
  plan.cols = cols;
  plan.padded_rows = p.transpose_a ? rows : up(rows, kRowStep);
  const bool padded = plan.padded_rows != rows;
  plan.y_stride = padded ? cols : p.n;
  plan.pieces = cut_depth(p);
  plan.plain = p.alpha == 1.0f;
  for (std::size_t i = 0; i < plan.pieces.size(); ++i) {
    Piece& piece = plan.pieces[i];
    const bool copied = piece.depth != piece.padded;
    const bool last = i + 1 == plan.pieces.size();
    const bool into_y = last && plan.plain;
    ProductKey key{};
    key.m = plan.padded_rows;
    key.n = cols;
    key.k = piece.padded;
    key.a_stride = copied ? rows : padded ? piece.padded : p.a_stride;
    key.b_stride = copied ? (p.transpose_b ? piece.padded : cols) : p.b_stride;
    key.y_stride = into_y ? plan.y_stride : cols;
    key.transpose_a = p.transpose_a;
    key.transpose_b = p.transpose_b;
    key.bias = into_y && p.bias != nullptr;
    key.addend = into_y && i > 0;
    key.output = into_y ? Output::bf16 : i == 0 ? Output::f32 : Output::f32_add;
    piece.product = find_product(key);
    if (!piece.product) return false;
  }
  return true;
}

// Copies a rectangle of `rows` rows and fills it up with zero rows and columns.
void copy_padded(const bfloat16* from, std::int64_t stride, std::int64_t rows,
                 std::int64_t cols, bfloat16* to, std::int64_t to_rows,
                 std::int64_t to_cols) {
  for (std::int64_t i = 0; i < to_rows; ++i) {
    const std::int64_t used = i < rows ? cols : 0;
    std::memcpy(static_cast<void*>(to + i * to_cols), from + i * stride,
                used * sizeof(bfloat16));
    std::memset(static_cast<void*>(to + i * to_cols + used), 0,
                (to_cols - used) * sizeof(bfloat16));
  }
}

bfloat16* bf16_scratch(Scratch slot, std::int64_t elements) {
  return static_cast<bfloat16*>(scratch(slot, elements * sizeof(bfloat16)));
}

struct Operands {
  const bfloat16* a;
  const bfloat16* b;
  const bfloat16* bias;  // null: none
  const float* addend;   // null: none
  void* y;
};

void execute(const Product& product, const Operands& o) {
  std::unordered_map<int, dnnl::memory> args;
  const auto add = [&](int name, const dnnl::memory::desc& desc,
                       const void* data) {
    args.emplace(name, dnnl::memory(desc, engine(), const_cast<void*>(data)));
  };
  add(DNNL_ARG_SRC, product.a, o.a);
  add(DNNL_ARG_WEIGHTS, product.b, o.b);
  add(DNNL_ARG_DST, product.y, o.y);
  if (o.bias != nullptr) add(DNNL_ARG_BIAS, product.bias, o.bias);
  if (o.addend != nullptr) {
    add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, product.addend,
        o.addend);
  }
  const std::size_t bytes = product.scratchpad.get_size();
  if (bytes > 0) {
    add(DNNL_ARG_SCRATCHPAD, product.scratchpad,
        scratch(Scratch::primitive, bytes));
  }
  product.primitive.execute(stream(), args);
}

// y = bf16(alpha sum + bias), for the rare product with a factor.
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
  if (!plan.plain || plan.pieces.size() > 1) {
    sum = static_cast<float*>(
        scratch(Scratch::sum, plan.padded_rows * r.cols * sizeof(float)));
  }
  bfloat16* target =
      rows_padded ? bf16_scratch(Scratch::c, plan.padded_rows * r.cols) : y;
  for (std::size_t i = 0; i < plan.pieces.size(); ++i) {
    const Piece& piece = plan.pieces[i];
    const bool into_y = plan.plain && i + 1 == plan.pieces.size();
    const bool depth_padded = piece.padded != piece.depth;
    const bfloat16* a = a0 + a_offset(p, r.row, piece.begin);
    const bfloat16* b = b0 + b_offset(p, piece.begin, r.col);
    if (depth_padded) {  // a is transposed: [depth, rows]
      bfloat16* copy = bf16_scratch(Scratch::a, piece.padded * r.rows);
      copy_padded(a, p.a_stride, piece.depth, r.rows, copy, piece.padded,
                  r.rows);
      a = copy;
      copy = bf16_scratch(Scratch::b, piece.padded * r.cols);
      if (p.transpose_b) {
        copy_padded(b, p.b_stride, r.cols, piece.depth, copy, r.cols,
                    piece.padded);
      } else {
        copy_padded(b, p.b_stride, piece.depth, r.cols, copy, piece.padded,
                    r.cols);
      }
      b = copy;
    } else if (rows_padded) {
      bfloat16* copy = bf16_scratch(Scratch::a, plan.padded_rows * p.k);
      copy_padded(a, p.a_stride, r.rows, p.k, copy, plan.padded_rows, p.k);
      a = copy;
    }
    execute(*piece.product,
            {a, b, into_y ? bias : nullptr, into_y && i > 0 ? sum : nullptr,
             into_y ? static_cast<void*>(target) : sum});
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

// Widens [rows, cols] matrices, or narrows one, in chunks of whole rows.
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

}  // namespace

void bf16_product(const Problem& p, void (*f32_product)(const Problem&)) {
  if (!has_bf16()) return widened_product(p, f32_product);
  const Tiles tiles = bf16_tiles(p);
  const std::int64_t last_rows = p.m - (tiles.down - 1) * tiles.rows;
  const std::int64_t last_cols = p.n - (tiles.across - 1) * tiles.cols;
  Plan plans[2][2];  // [last row of tiles][last column of tiles]
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      if (!make_plan(p, i == 0 ? tiles.rows : last_rows,
                     j == 0 ? tiles.cols : last_cols, plans[i][j])) {
        return widened_product(p, f32_product);
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
}

}  // namespace ea::onednn
