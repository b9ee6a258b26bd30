// Small kernels for the tests of the emulation, called through ctypes: mistakes
// that it must find, and correct uses of the building blocks.
#include <map>
#include <string>

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/vec.cuh"
#include "operands.h"

namespace ea {

namespace {

// y = f(x), vectors of float32.
struct Toy {
  static constexpr const char* name = "toy";
  struct Args {
    TensorView x;
    Output y;
  };
};

}  // namespace

namespace cuda {

namespace {

struct Copy {
  static __device__ void body(const float* x, float* y, int n) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) y[i] = x[i];
  }
};

struct LeavesBeforeBarrier {
  static __device__ void body(const float* x, float* y, int n) {
    const int i = static_cast<int>(threadIdx.x);
    if (i >= n) return;
    __syncthreads();
    y[i] = x[i];
  }
};

struct DivergentShuffle {
  static __device__ void body(const float* x, float* y, int n) {
    const int i = static_cast<int>(threadIdx.x);
    if (i < n) y[i] = __shfl_xor_sync(kAllLanes, x[i], 1);
  }
};

struct ShuffleAgainstBarrier {
  static __device__ void body(const float* x, float* y, int n) {
    const int i = static_cast<int>(threadIdx.x);
    float v = i < n ? x[i] : 0.0f;
    if (i % 2 == 0) {
      v = __shfl_xor_sync(kAllLanes, v, 1);
    } else {
      __syncthreads();
    }
    if (i < n) y[i] = v;
  }
};

struct OutsideMask {
  static __device__ void body(const float* x, float* y, int n) {
    const int i = static_cast<int>(threadIdx.x);
    if (i < 16 && i < n) y[i] = __shfl_sync(0xffffu, x[i], 20);
  }
};

template <int shift>
struct ReadsAt {
  static __device__ void body(const float* x, float* y, int n) {
    const int i = static_cast<int>(threadIdx.x);
    if (i < n) y[i] = x[i + shift];
  }
};

template <int shift>
struct WritesAt {
  static __device__ void body(const float* x, float* y, int n) {
    const int i = static_cast<int>(threadIdx.x);
    if (i < n) y[i + shift] = x[i];
    if (i == 0) y[0] = y[n - 1] = x[0];
  }
};

struct WritesInput {
  static __device__ void body(const float* x, float* y, int n) {
    const int i = static_cast<int>(threadIdx.x);
    if (i < n) y[i] = const_cast<float*>(x)[i] = 1.0f;
  }
};

struct LeavesOneOut {
  static __device__ void body(const float* x, float* y, int n) {
    const int i = static_cast<int>(threadIdx.x);
    if (i < n && i != 5) y[i] = x[i];
  }
};

struct UnwrittenShared {
  static __device__ void body(const float* x, float* y, int n) {
    EA_SHARED(float, tile, 64);
    const int i = static_cast<int>(threadIdx.x);
    if (i != 3) tile[i] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < n) y[i] = tile[i] + 0.0f;
  }
};

struct OutsideShared {
  static __device__ void body(const float* x, float* y, int n) {
    EA_DYNAMIC_SHARED(float, tile);
    const int i = static_cast<int>(threadIdx.x);
    tile[i + 1] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < n) y[i] = tile[i + 1];
  }
};

struct MissingBarrier {
  static __device__ void body(const float* x, float* y, int n) {
    EA_SHARED(float, tile, 64);
    const int i = static_cast<int>(threadIdx.x);
    tile[i] = i < n ? x[i] : 0.0f;
    if (i < n) y[i] = tile[63 - i] != tile[63 - i] ? 0.0f : tile[63 - i];
  }
};

struct BlocksInOrder {  // relies on block 0 being first
  static __device__ void body(const float*, float* y, int n) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < n; ++i) y[i] = static_cast<float>(blockIdx.x);
    }
  }
};

struct Misaligned {
  static __device__ void body(const float* x, float* y, int n) {
    const uint4 words = *reinterpret_cast<const uint4*>(x + 1);
    float v[4];
    unpack(words, v);
    const int i = static_cast<int>(threadIdx.x);
    if (i < n) y[i] = v[i % 4];
  }
};

struct OutsideArray {
  static __device__ void body(const float* x, float* y, int n) {
    float v[4] = {x[0], x[1], x[2], x[3]};
    const int i = static_cast<int>(threadIdx.x);
    if (i < n) y[i] = v[i];
  }
};

// Correct kernels.
struct BlockSum {
  static __device__ void body(const float* x, float* y, int n) {
    EA_SHARED(float, partial, kWarp);
    const int i = static_cast<int>(threadIdx.x);
    const float total = block_sum(i < n ? x[i] : 0.0f, partial);
    const float most = block_max(i < n ? x[i] : -INFINITY, partial);
    if (i < n) y[i] = i % 2 == 0 ? total : most;
  }
};

// The upper half of each warp returns; the lower half keeps exchanging.
struct HalfWarps {
  static __device__ void body(const float* x, float* y, int n) {
    const int i = static_cast<int>(threadIdx.x);
    if (i < n) y[i] = x[i];
    if (i % 32 >= 16) return;
    const float other = __shfl_down_sync(0xffffu, x[i % n], 1, 16);
    const unsigned votes = __ballot_sync(0xffffu, x[i % n] > 0.0f);
    if (i < n) y[i] = other + static_cast<float>(votes & 1u);
  }
};

// x: A [16, 16], B [16, 8], both row-major; y: A B twice, B read in both ways.
struct TileProduct {
  static __device__ void body(const float* x, float* y, int) {
    EA_SHARED(bfloat16, a, 256);
    EA_SHARED(bfloat16, b, 128);
    EA_SHARED(bfloat16, bt, 128);
    if (threadIdx.x >= 32) return;
    const int lane = static_cast<int>(threadIdx.x);
    for (int i = lane; i < 256; i += 32) a[i] = bfloat16(x[i]);
    for (int i = lane; i < 128; i += 32) {
      b[i] = bfloat16(x[256 + i]);
      bt[i % 8 * 16 + i / 8] = b[i];
    }
    __syncwarp();
    FragmentA left;
    load_tiles<false>(a + lane % 16 * 16 + lane / 16 * 8, left.a);
    std::uint32_t right[4], turned[4];  // words 2 and 3 repeat 0 and 1
    load_tiles<true>(b + lane % 16 * 8, right);
    load_tiles<false>(bt + lane % 8 * 16 + lane / 8 % 2 * 8, turned);
    FragmentC c, ct;
    mma(c, left, {{right[0], right[1]}});
    mma(ct, left, {{turned[0], turned[1]}});
    for (int i = 0; i < 4; ++i) {
      const int at = row_of_c(lane, i) * 8 + column_of_c(lane, i);
      y[at] = c.c[i];
      y[128 + at] = ct.c[i];
    }
  }
};

// The rows of a tile start at an odd element.
struct UnalignedTile {
  static __device__ void body(const float*, float* y, int n) {
    EA_SHARED(bfloat16, tile, 128);
    const int i = static_cast<int>(threadIdx.x);
    tile[i] = tile[64 + i] = bfloat16(1.0f);
    __syncthreads();
    std::uint32_t words[4];
    load_tiles<false>(tile + i % 8 * 8 + 1, words);
    if (i < n) y[i] = static_cast<float>(words[0]);
  }
};

template <typename Body>
__global__ void kernel(const float* x, float* y, int n) {
  Body::body(x, y, n);
}

// Launches two blocks of 64 threads for `Body`, with 256 bytes of dynamic
// shared memory.
template <typename Body>
void entry(const Toy::Args& args) {
  launch(current_stream(), 2, 64, 256, kernel<Body>, args.x.as<const float>(),
         args.y.as<float>(), static_cast<int>(args.y.numel()));
}

void host_reads_device(const Toy::Args& args) {
  args.y.as<float>()[0] = args.x.as<float>()[0];
}

void kernel_after_free(const Toy::Args& args) {
  const float* p;
  {
    const Scratch<float> scratch(current_stream(), 256);
    p = scratch.data();
  }
  launch(current_stream(), 2, 64, 0, kernel<Copy>, p, args.y.as<float>(),
         static_cast<int>(args.y.numel()));
}

void block_of_33(const Toy::Args& args) {
  launch(current_stream(), 8, 33, 0, kernel<Copy>, args.x.as<const float>(),
         args.y.as<float>(), static_cast<int>(args.y.numel()));
}

using Run = void (*)(const Toy::Args&);

template <auto one>
constexpr Run run = emulation::guarded<Toy, one>;
template <typename Body>
constexpr Run of = emulation::guarded<Toy, entry<Body>>;

const std::map<std::string, Run> kToys = {
    {"copy", of<Copy>},
    {"leaves_before_barrier", of<LeavesBeforeBarrier>},
    {"divergent_shuffle", of<DivergentShuffle>},
    {"shuffle_against_barrier", of<ShuffleAgainstBarrier>},
    {"outside_mask", of<OutsideMask>},
    {"reads_behind", of<ReadsAt<1>>},
    {"reads_before", of<ReadsAt<-1>>},
    {"writes_behind", of<WritesAt<1>>},
    {"writes_before", of<WritesAt<-1>>},
    {"writes_input", of<WritesInput>},
    {"leaves_one_out", of<LeavesOneOut>},
    {"unwritten_shared", of<UnwrittenShared>},
    {"outside_shared", of<OutsideShared>},
    {"missing_barrier", of<MissingBarrier>},
    {"blocks_in_order", of<BlocksInOrder>},
    {"misaligned", of<Misaligned>},
    {"outside_array", of<OutsideArray>},
    {"unaligned_tile", of<UnalignedTile>},
    {"block_sum", of<BlockSum>},
    {"half_warps", of<HalfWarps>},
    {"tile_product", of<TileProduct>},
    {"host_reads_device", run<host_reads_device>},
    {"kernel_after_free", run<kernel_after_free>},
    {"block_of_33", run<block_of_33>},
};

}  // namespace

}  // namespace cuda

}  // namespace ea

// Runs a toy; returns the emulation's error text, or "".
extern "C" __attribute__((visibility("default"))) const char* ea_run_toy(
    const char* name, float* x, std::int64_t n_x, float* y, std::int64_t n_y) {
  static std::string message;
  ea::TensorView in{x, {n_x}, {1}, ea::DType::f32};
  ea::Output out{{y, {n_y}, {1}, ea::DType::f32}};
  try {
    ea::cuda::kToys.at(name)({in, out});
    message.clear();
  } catch (const std::exception& error) {
    message = error.what();
  }
  return message.c_str();
}
