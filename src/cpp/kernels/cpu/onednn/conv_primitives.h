// Bounded cache of image convolutions: oneDNN primitives of fixed shape.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <dnnl.hpp>
#include <memory>
#include <unordered_map>

#include "runtime/dtype.h"

namespace ea::onednn {

enum class ConvPass : std::uint8_t { forward, data, weights };

// Bias of a forward pass. It computes y = sums + bias, adds the old y if
// `joined`, and takes max(y, 0) if `rectified`.
enum class ConvBias : std::uint8_t { none, as_images, f32 };

// A convolution of `images` images, channels last, with a weight in the layout
// that the primitive prefers. The gradient of the weight is float32.
struct ConvKey {
  std::int64_t pass, dtype, bias;  // ConvPass, DType, ConvBias
  std::int64_t joined, rectified;  // 0 or 1
  std::int64_t images, height, width, in, out_height, out_width, out, groups;
  std::int64_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
  std::int64_t pad_top, pad_left, pad_bottom, pad_right;

  bool operator==(const ConvKey&) const = default;
  auto words() const {
    return std::bit_cast<std::array<std::int64_t, sizeof(ConvKey) / 8>>(*this);
  }
};

struct Convolution {
  using Arguments = std::unordered_map<int, dnnl::memory>;

  dnnl::primitive primitive;
  // image: x or its gradient; result: y or its gradient.
  dnnl::memory::desc image, weight, bias, result, scratchpad;
  // Arguments of an earlier call, for reuse: making them takes longer than
  // setting their pointers. In a forked child they may stay busy forever.
  struct Spare {
    std::atomic_flag busy;
    Arguments arguments;
  };
  mutable std::array<Spare, 4> spares;
};

using ConvolutionPtr = std::shared_ptr<const Convolution>;

// Returns a cached convolution, or makes one. Callable from any thread.
ConvolutionPtr find_convolution(const ConvKey& key);

// Runs it on the calling thread; the pass decides which operand is written.
// bias: null if the key has none.
void execute(const Convolution& one, ConvPass pass, void* image, void* weight,
             void* bias, void* result);

// Returns the contracts' weight layout: [out, in / groups, height, width].
dnnl::memory::desc plain_weight(const ConvKey& key, DType dtype);
// Copies a weight from one layout to another, on the calling thread.
void reorder(const dnnl::memory::desc& from, const void* source,
             const dnnl::memory::desc& to, void* target);

}  // namespace ea::onednn
