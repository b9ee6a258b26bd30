// Pooling and resizing of images.
#include "nn/image_layers.h"

#include "ops/pool2d.h"
#include "ops/shape_ops.h"

namespace ea {

namespace {

// Doubles the rows of the middle axis: [n, size, width] -> [n, 2 size, width].
Var doubled_rows(const Var& x) {
  const std::int64_t n = x.dim(0), size = x.dim(1), width = x.dim(2);
  const Var last = slice(x, 1, size - 1, size);
  const Var next = size > 1 ? concat({slice(x, 1, 1, size), last}, 1) : last;
  const Var between = axpby(0.5, x, 0.5, next);
  const Shape apart{n, size, 1, width};
  return reshape(concat({reshape(x, apart), reshape(between, apart)}, 2),
                 {n, 2 * size, width});
}

}  // namespace

Var halved_by_maximum(const Var& x) {
  return max_pool2d(x, {3, 3, 2, 2, 1, 1, 1, 1});
}

Var halved_by_mean(const Var& x) {
  return avg_pool2d(x, {3, 3, 2, 2, x.dim(1) % 2, x.dim(2) % 2, 1, 1},
                    /*ceiling=*/true, /*counts_padding=*/false);
}

Var mean_of_fours(const Var& x) {
  return avg_pool2d(x, {2, 2, 2, 2, 0, 0, 1, 1});
}

Var doubled(const Var& x) {
  const std::int64_t n = x.dim(0), height = x.dim(1), width = x.dim(2);
  const std::int64_t channels = x.dim(3);
  const Var tall = doubled_rows(reshape(x, {n, height, width * channels}));
  const Var rows = reshape(tall, {n * 2 * height, width, channels});
  return reshape(doubled_rows(rows), {n, 2 * height, 2 * width, channels});
}

Var mean_of_pixels(const Var& x) {
  return reshape(adaptive_avg_pool2d(x, 1, 1), {x.dim(0), x.dim(3)});
}

}  // namespace ea
