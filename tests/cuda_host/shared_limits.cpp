// Shared memory of the emulated GPU, and the convolution shapes that fit in it.
#include "kernels/cuda/shared_limits.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "kernels/cuda/conv_weights.cuh"

namespace ea::cuda {

namespace {

// KB per block and per multiprocessor, from the CUDA Programming Guide,
// technical specifications per compute capability.
SharedLimits limits_of(int architecture) {
  constexpr std::size_t kKilo = 1024;
  switch (architecture) {
    case 80:
      return limits_from(163 * kKilo, 164 * kKilo);
    case 86:
      return limits_from(99 * kKilo, 100 * kKilo);
    default:
      return limits_from(227 * kKilo, 228 * kKilo);
  }
}

}  // namespace

// EA_CUDA_HOST_ARCHITECTURE selects another GPU than sm_90.
SharedLimits shared_limits() {
  const char* named = std::getenv("EA_CUDA_HOST_ARCHITECTURE");
  return limits_of(named == nullptr ? 90 : std::atoi(named));
}

}  // namespace ea::cuda

// For tests: returns the limits, and columns and bytes of the blocks of a
// convolution and of its weight gradient.
extern "C" __attribute__((visibility("default"))) void ea_conv_plan(
    int architecture, int heads, int kernel, int bf16, long long* found) {
  using namespace ea::cuda;
  const SharedLimits limits = limits_of(architecture);
  const auto put = [&](std::size_t n) { *found++ = static_cast<long long>(n); };
  const auto put_shapes = [&]<typename T>(T) {
    const ConvShape conv = shape_of_conv<T>(heads, kernel, limits);
    put(static_cast<std::size_t>(conv.columns));
    put(conv_bytes<T>(conv));
    const ConvShape weights = shape_of_weights<T>(heads, kernel, limits);
    put(static_cast<std::size_t>(weights.columns));
    put(weights_bytes<T>(weights));
  };
  put(limits.block);
  put(limits.of_two);
  if (bf16 != 0) {
    put_shapes(ea::bfloat16());
  } else {
    put_shapes(0.0f);
  }
}

// For tests: returns the convolution's error text for one sequence's maps, or
// an empty text.
extern "C" __attribute__((visibility("default"))) void ea_conv_refusal(
    long long queries, long long keys, char* text, int size) {
  const std::int64_t q[] = {0, queries}, k[] = {0, keys};
  const std::int64_t cells[] = {0, queries * keys};
  const ea::MapLayout layout{1, 1, q, k, cells};
  std::string found;
  try {
    ea::cuda::check_heads(layout);
  } catch (const std::exception& error) {
    found = error.what();
  }
  std::snprintf(text, static_cast<std::size_t>(size), "%s", found.c_str());
}
