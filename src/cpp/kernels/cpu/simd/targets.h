// Declares every SIMD kernel once per instruction set that is built, and picks.
//
// register.cpp includes it without EA_TARGET and sees all of them; the sources
// of this folder have EA_TARGET set and see their own.
#pragma once

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/batch_norm.h"
#include "kernels/conv1d.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/evolve.h"
#include "kernels/fused_attention.h"
#include "kernels/gather.h"
#include "kernels/layer_norm.h"
#include "kernels/map_conv.h"
#include "kernels/optimizer.h"
#include "kernels/pair_sum.h"
#include "kernels/reduce.h"
#include "kernels/relative_cells.h"
#include "kernels/softmax.h"
#include "kernels/unpack_maps.h"
#include "kernels/weight_norm.h"

#if defined(EA_TARGET)
#include "kernels/cpu/simd/functions-inl.h"
#else
#define EA_TARGET avx2
#include "kernels/cpu/simd/functions-inl.h"
#undef EA_TARGET
#define EA_TARGET avx512
#include "kernels/cpu/simd/functions-inl.h"
#undef EA_TARGET
#endif
