// The entries of the SIMD kernels, once per instruction set that is built, for
// register.cpp, which picks.
#pragma once

#define EA_TARGET avx2
#include "kernels/cpu/simd/run-inl.h"
#undef EA_TARGET
#define EA_TARGET avx512
#include "kernels/cpu/simd/run-inl.h"
#undef EA_TARGET
