// The entries of the SIMD kernels, once per instruction set that is built, and
// the one in use.
#pragma once

#include "runtime/cpu_info.h"

#define EA_TARGET avx2
#include "kernels/cpu/simd/run-inl.h"
#undef EA_TARGET
#define EA_TARGET avx512
#include "kernels/cpu/simd/run-inl.h"
#undef EA_TARGET

namespace ea::cpu {

// The entry of K for the instruction set in use, which is not scalar.
template <typename K>
auto simd_kernel() {
  return isa_used() == Isa::avx512 ? simd::avx512::run<K> : simd::avx2::run<K>;
}

}  // namespace ea::cpu
