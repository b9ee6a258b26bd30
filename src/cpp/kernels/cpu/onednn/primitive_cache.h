// Bounded cache of bfloat16 matrix products, oneDNN primitives of fixed shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <dnnl.hpp>
#include <memory>

namespace ea::onednn {

// What a product writes: bf16, or float32 on its own or added to what is there.
enum class Output : std::uint8_t { bf16, f32, f32_add };

// y [m, n] = a [m, k] b [k, n] of bfloat16. transpose_b: stored [n, k].
// Strides are those of the stored rows, in elements.
struct ProductKey {
  std::int64_t m, n, k;
  std::int64_t a_stride, b_stride, y_stride;
  bool transpose_b;
  bool bias;    // bf16 [n]
  bool addend;  // y = bf16(a b + addend), addend float32 [m, n] contiguous
  Output output;

  bool operator==(const ProductKey&) const = default;
};

struct Product {
  dnnl::matmul primitive;
  dnnl::memory::desc a, b, bias, addend, y, scratchpad;
};

using ProductPtr = std::shared_ptr<const Product>;

// From the cache, or made now. Null when oneDNN has no fast implementation.
// Callable from any thread.
ProductPtr find_product(const ProductKey& key);

}  // namespace ea::onednn
