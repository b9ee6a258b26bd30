// The CPU's fast kernels, in order of preference, for the ISA in use.
#include "kernels/cpu/gemm_rows.h"
#include "kernels/cpu/onednn/conv2d.h"
#include "kernels/cpu/onednn/gemm.h"
#include "kernels/cpu/simd/targets.h"
#include "kernels/cpu/winograd.h"
#include "kernels/list.h"
#include "kernels/registry.h"
#include "runtime/cpu_info.h"

namespace ea {

namespace {

// Returns whether the SIMD kernel of K takes the arguments. By default it
// leaves float64 to the reference kernel; kernels that copy take it too.
template <typename K>
bool supports(const typename K::Args& args) {
  if constexpr (is_one_of<K, GatherRows>) {
    return true;
  } else if constexpr (is_one_of<K, RelativeCells>) {
    return is_floating(args.y.dtype);
  } else if constexpr (is_one_of<K, UnpackMaps, PackMaps, UnpackWindows,
                                 PackWindows>) {
    return is_floating(args.flat.dtype);
  } else {
    return narrow<K>(args);
  }
}

// Registers the kernels that are compiled for each instruction set.
struct Simd {
  template <typename K>
  void kernel() const {
    // register_products() adds the products. The others compute a few numbers,
    // for which the reference kernels suffice.
    if constexpr (!is_one_of<K, MatMul, Conv2dForward, Conv2dBackward,
                             MoveAverage, RecordLoss, StepScale>) {
      register_kernel<K>("simd", cpu::simd_kernel<K>(), supports<K>);
    }
  }
};

// Registers matrix products and image convolutions: oneDNN's, and ours that
// share the work with them.
void register_products() {
  if (isa_used() != Isa::scalar) {
    register_kernel<Conv2dForward>("winograd", cpu::winograd,
                                   cpu::winograd_supports);
  }
  register_kernel<Conv2dForward>("onednn", onednn::conv2d_forward,
                                 narrow<Conv2dForward>);
  register_kernel<Conv2dBackward>("onednn", onednn::conv2d_backward,
                                  narrow<Conv2dBackward>);
  register_kernel<MatMul>("onednn", onednn::matmul,
                          [](const MatMul::Args& args) {
                            return onednn::matmul_supports(args) &&
                                   !cpu::row_product_is_faster(args);
                          });
  if (isa_used() != Isa::scalar) {
    // Takes products whose rows must be invariant and, with AVX2, those that it
    // computes faster.
    register_kernel<MatMul>("simd", cpu::row_product,
                            cpu::row_product_supports);
  }
  // Takes the same products as "onednn". Runs only when forced, for comparison.
  register_kernel<MatMul>("onednn_parallel", onednn::matmul_parallel,
                          onednn::matmul_supports);
}

}  // namespace

void register_cpu_kernels() {
  if (isa_used() != Isa::scalar) for_each_kernel(Simd{});
  register_products();
}

}  // namespace ea
