// Bounded cache of matrix products, oneDNN primitives of fixed shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <dnnl.hpp>
#include <memory>

#include "runtime/dtype.h"

namespace ea::onednn {

// What a product writes: its own type, or float32 on its own or added to what
// is there.
enum class Output : std::uint8_t { same, f32, f32_add };

// How b lies: [k, n], [n, k], or in the panels of panels.h.
enum class Layout : std::uint8_t { rows, columns, panels };

// y [m, n] = a [m, k] b [k, n] of bfloat16 or float32.
// Strides are those of the stored rows, in elements.
struct ProductKey {
  std::int64_t m, n, k;
  std::int64_t a_stride, b_stride, y_stride;
  Layout layout;
  bool a_columns;  // a lies as [k, m]
  bool bias;       // [n]
  Output output;
  DType dtype;
  int threads = 1;  // that oneDNN divides it among

  bool operator==(const ProductKey&) const = default;
};

struct Product {
  dnnl::matmul primitive;
  dnnl::memory::desc a, b, bias, y, scratchpad;
};

using ProductPtr = std::shared_ptr<const Product>;

struct Operands {
  const void* a;
  const void* b;
  const void* bias;  // null: none
  void* y;
};

void execute(const Product& product, const Operands& operands);

// From the cache, or made now. Null when oneDNN has no fast implementation.
// Callable from any thread.
ProductPtr find_product(const ProductKey& key);

}  // namespace ea::onednn
