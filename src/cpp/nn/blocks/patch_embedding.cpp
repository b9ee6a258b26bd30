// Gathers patches line by line and multiplies all of them in one product.
#include "nn/blocks/patch_embedding.h"

#include "ops/gather.h"
#include "ops/linear.h"
#include "ops/reduce.h"
#include "ops/shape_ops.h"

namespace ea {

namespace {

// Returns the indices of the lines of `width` pixels that form each patch, in
// the patch's order, in images [B, C, rows * height, columns * width].
Tensor lines_of_patches(std::int64_t batch, const PatchSizes& sizes,
                        std::int64_t rows, std::int64_t columns) {
  const std::int64_t lines = sizes.channels * sizes.height;
  const Tensor index = empty({batch * rows * columns, lines}, DType::i64);
  auto* to = index.data<std::int64_t>();
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t k = 0; k < columns; ++k) {
        for (std::int64_t line = 0; line < lines; ++line) {
          const std::int64_t channel = line / sizes.height;
          const std::int64_t y = r * sizes.height + line % sizes.height;
          const std::int64_t plane = b * sizes.channels + channel;
          *to++ = (plane * rows * sizes.height + y) * columns + k;
        }
      }
    }
  }
  return index;
}

}  // namespace

PatchEmbedding::PatchEmbedding(const PatchSizes& sizes, DType dtype,
                               double init_std)
    : sizes_(sizes),
      weight_(add_parameter(
          "weight", {sizes.hidden, sizes.channels, sizes.height, sizes.width},
          dtype, Init::normal(init_std))),
      bias_(add_parameter("bias", {sizes.hidden}, dtype, {})) {}

Var PatchEmbedding::operator()(const Var& images) const {
  const std::int64_t rows = images.dim(2) / sizes_.height;
  const std::int64_t columns = images.dim(3) / sizes_.width;
  const std::int64_t height = rows * sizes_.height;
  const std::int64_t width = columns * sizes_.width;
  Var x = images;
  if (x.dim(2) != height) x = slice(x, 2, 0, height);
  if (x.dim(3) != width) x = slice(x, 3, 0, width);
  const std::int64_t batch = x.dim(0);
  const Var lines = reshape(x, {x.numel() / sizes_.width, sizes_.width});
  const Tensor index = lines_of_patches(batch, sizes_, rows, columns);
  const Var patches = reshape(gather_rows(lines, index),
                              {batch * rows * columns, sizes_.pixels()});
  return linear(patches, reshape(weight_, {sizes_.hidden, sizes_.pixels()}),
                bias_);
}

Var mean_of_patches(const Var& rows, std::int64_t batch, std::int64_t first) {
  const Var images = reshape(rows, {batch, rows.dim(0) / batch, rows.dim(1)});
  return mean(slice(images, 1, first, images.dim(1)), 1);
}

}  // namespace ea
