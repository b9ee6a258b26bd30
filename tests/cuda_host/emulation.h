// Emulates on the CPU the part of CUDA that src/cpp/kernels/cuda uses, for the
// same sources compiled as plain C++. Included before the first line of each
// source.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)
      : x(x_), y(y_), z(z_) {}
};
struct uint3 {
  unsigned x, y, z;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct CUstream_st;
using cudaStream_t = CUstream_st*;

// Indices of the running thread: one thread of one block runs at a time.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace ea::emulation {

// Value that a lane deposits for the other lanes of its warp.
struct alignas(16) Deposit {
  unsigned char bytes[32];
};

// Waits until all lanes of `mask` have called it with the same mask, then
// returns the deposits of all 32 lanes; valid until this lane's next exchange.
const Deposit* exchange(unsigned mask, const void* mine, std::size_t bytes);
std::uint64_t exchange_number();  // of the last complete exchange
void wait_for_block();
int lane();

// Return `bytes` of the block's static shared memory, the same for all threads
// that pass the same key; and the block's dynamic shared memory.
void* static_shared(const void* key, std::size_t bytes);
void* dynamic_shared();

// Runs thread(context) for every thread of every block, one at a time.
void run_grid(dim3 grid, dim3 block, std::size_t shared,
              void (*thread)(void* context), void* context);

// Stops the kernel with an error that says `why`.
[[noreturn]] void refuse(const char* why);

template <typename T>
T from_lane(unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= sizeof(Deposit));
  const Deposit* all = exchange(mask, &value, sizeof value);
  if ((mask >> source & 1u) == 0) refuse("a shuffle reads a lane outside mask");
  T got;
  std::memcpy(&got, all[source].bytes, sizeof got);
  return got;
}

// Emulates mma.sync.m16n8k16 with the layout of kernels/cuda/mma.cuh.
void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4],
                  const std::uint32_t (&b)[2]);
// Emulates ldmatrix as described in kernels/cuda/mma.cuh.
void load_tiles(const void* row, bool turned, std::uint32_t (&to)[4]);

}  // namespace ea::emulation

#define EA_SHARED(Type, name, count)                 \
  static const char name##_key = 0;                  \
  Type(&name)[count] = *static_cast<Type(*)[count]>( \
      ::ea::emulation::static_shared(&name##_key, sizeof(Type) * (count)))
#define EA_DYNAMIC_SHARED(Type, name) \
  Type* const name = static_cast<Type*>(::ea::emulation::dynamic_shared())

inline void __syncthreads() { ea::emulation::wait_for_block(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  ea::emulation::exchange(mask, nullptr, 0);
}

// A lane whose source is outside its segment of `width` lanes keeps its own
// value, as on a GPU.
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int first = ea::emulation::lane() / width * width;
  return ea::emulation::from_lane(mask, value, first + (source & (width - 1)));
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const int lane = ea::emulation::lane();
  const int source = lane ^ lane_mask;
  const bool inside = source / width <= lane / width;
  return ea::emulation::from_lane(mask, value, inside ? source : lane);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = ea::emulation::lane();
  const int source = lane + static_cast<int>(delta);
  return ea::emulation::from_lane(
      mask, value, source / width == lane / width ? source : lane);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = ea::emulation::lane();
  const int source = lane - static_cast<int>(delta);
  return ea::emulation::from_lane(
      mask, value, source >= lane / width * width ? source : lane);
}
unsigned __ballot_sync(unsigned mask, int predicate);
inline int __any_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0;
}
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == mask;
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(x); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
template <typename T>
T __ldg(const T* p) {
  return *p;
}

namespace ea::cuda {

template <typename... Params, typename... Args>
void launch(cudaStream_t, dim3 grid, dim3 block, std::size_t shared,
            void (*kernel)(Params...), Args&&... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  struct Call {
    void (*kernel)(Params...);
    std::tuple<Params...> values;
  } call{kernel, {std::forward<Args>(args)...}};
  emulation::run_grid(
      grid, block, shared,
      [](void* context) {
        // Passed by value: each thread has its own parameters.
        const Call& c = *static_cast<const Call*>(context);
        std::apply(c.kernel, c.values);
      },
      &call);
}

}  // namespace ea::cuda
