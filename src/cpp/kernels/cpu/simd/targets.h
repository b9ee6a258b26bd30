// Entries of the SIMD kernels, one per built instruction set, and the entry in
// use.
#pragma once

#include "runtime/cpu_info.h"

#define EA_TARGET avx2
#include "kernels/cpu/simd/run-inl.h"
#undef EA_TARGET
#define EA_TARGET avx512
#include "kernels/cpu/simd/run-inl.h"
#undef EA_TARGET

namespace ea::cpu {

// Returns the entry of K for the instruction set in use, which is not scalar.
template <typename K>
auto simd_kernel() {
  return isa_used() == Isa::avx512 ? simd::avx512::run<K> : simd::avx2::run<K>;
}

}  // namespace ea::cpu
