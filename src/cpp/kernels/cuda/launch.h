// Launches kernels and declares shared memory: the only place that differs
// between a GPU and the host emulation of tests/cuda_host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "kernels/cuda/stream.h"
#include "runtime/check.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>

// Declare static and dynamic shared memory inside a kernel's body:
//   EA_SHARED(float, partial, 32);     float partial[32]
//   EA_DYNAMIC_SHARED(float, tile);    float* tile, sized by launch()
// Raw bytes, because __shared__ variables cannot have constructors.
#define EA_SHARED(Type, name, count)                                           \
  __shared__ __align__(16) unsigned char name##_bytes[sizeof(Type) * (count)]; \
  Type(&name)[count] = reinterpret_cast<Type(&)[count]>(name##_bytes)
#define EA_DYNAMIC_SHARED(Type, name)                                 \
  extern __shared__ __align__(128) unsigned char ea_dynamic_shared[]; \
  Type* const name = reinterpret_cast<Type*>(ea_dynamic_shared)
#endif

namespace ea::cuda {

#if defined(__CUDACC__)

// A kernel must opt in to more dynamic shared memory than this many bytes.
constexpr std::size_t kPlainShared = 48 * 1024;

// Launches kernel(args...) with `shared` bytes of dynamic shared memory. Blocks
// must be whole warps. An empty grid, as for empty tensors, launches nothing.
template <typename... Params, typename... Args>
void launch(cudaStream_t stream, dim3 grid, dim3 block, std::size_t shared,
            void (*kernel)(Params...), Args&&... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const void* entry = reinterpret_cast<const void*>(kernel);
  if (shared > kPlainShared) {
    check_cuda(
        cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared)),
        "launch");
  }
  std::tuple<Params...> values(std::forward<Args>(args)...);
  std::apply(
      [&](auto&... value) {
        // A kernel without parameters still needs an array to point to.
        void* pointers[] = {static_cast<void*>(&value)..., nullptr};
        check_cuda(
            cudaLaunchKernel(entry, grid, block, pointers, shared, stream),
            "launch");
      },
      values);
}

#endif

// Returns the number of blocks for n items, `per_block` in each. The grid's x
// axis allows 2^31 - 1 blocks, the other axes only 65535: kernels use only x.
inline unsigned blocks_for(std::int64_t n, std::int64_t per_block) {
  const std::int64_t blocks = (n + per_block - 1) / per_block;
  EA_CHECK(blocks < (std::int64_t{1} << 31), "launch",
           "{} elements need {} blocks; at most 2^31 - 1 fit one launch", n,
           blocks);
  return static_cast<unsigned>(blocks);
}

}  // namespace ea::cuda
