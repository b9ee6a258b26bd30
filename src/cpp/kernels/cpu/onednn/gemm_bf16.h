// bfloat16 products: oneDNN primitives where the processor multiplies bfloat16.
#pragma once

#include "kernels/cpu/onednn/problem.h"

namespace ea::onednn {

// Computes y = alpha op(a) op(b) + bias in bfloat16, sums in float32. Where
// oneDNN has no fast bfloat16 product, widens the operands and runs
// `f32_product`.
void bf16_product(const Problem& p, void (*f32_product)(const Problem&));

}  // namespace ea::onednn
