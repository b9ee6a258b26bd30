// Bounded cache of matrix products: oneDNN primitives of fixed shape.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <dnnl.hpp>
#include <memory>

#include "runtime/dtype.h"

namespace ea::onednn {

// Output of a product: in the operands' type, in float32, or accumulated onto
// float32.
enum class Output : std::uint8_t { same, f32, f32_add };

// Layout of b: [k, n], [n, k], or the panels of panels.h.
enum class Layout : std::uint8_t { rows, columns, panels };

// y [m, n] = a [m, k] b [k, n] of bfloat16 or float32.
// Strides are between stored rows, in elements.
struct ProductKey {
  std::int64_t m, n, k;
  std::int64_t a_stride, b_stride, y_stride;
  Layout layout;
  bool a_columns;  // a is stored as [k, m]
  bool bias;       // [n]
  Output output;
  DType dtype;
  int threads = 1;  // among which oneDNN divides it

  bool operator==(const ProductKey&) const = default;
  std::array<std::int64_t, 8> words() const {
    return {m,
            n,
            k,
            a_stride,
            b_stride,
            y_stride,
            bias + 4 * static_cast<int>(output) +
                16 * static_cast<int>(layout) + 64 * static_cast<int>(dtype),
            a_columns + 2 * threads};
  }
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

// Returns a cached product, or makes one. Null if oneDNN has no fast
// implementation. Callable from any thread.
ProductPtr find_product(const ProductKey& key);

}  // namespace ea::onednn
