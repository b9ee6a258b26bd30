// Convolutions of 3 x 3 pixels with fewer multiplications: Winograd's
// F(2 x 2, 3 x 3) (Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks", CVPR 2016, section 4.1), 4 for each pixel and pair of channels
// where the direct sum has 9.
//
// A tile of 2 x 2 pixels of y reads a tile d of 4 x 4 pixels of x, and is
//
//   A^T [sum_c (G g_c G^T) * (B^T d_c B)] A,
//
//         1  0 -1  0         1    0    0
//   B^T = 0  1  1  0     G = 1/2  1/2  1/2    A^T = 1  1  1  0
//         0 -1  1  0         1/2 -1/2  1/2          0  1 -1 -1
//         0  1  0 -1         0    0    1
//
// where * is elementwise: each of the 16 places needs a matrix product of
// [tiles, in] and [in, out].
#pragma once

#include "kernels/conv2d.h"
#include "kernels/cpu/gemm_rows.h"

namespace ea::cpu {

constexpr std::int64_t kWinogradPlaces = 16;
// Output channels per slab of factors: [place][in, channels], each matrix in
// panels for row products (kernels/cpu/gemm_rows.h).
constexpr std::int64_t kWinogradSlab = kWidestPanel;

// Computes the convolution from the factors G g G^T of its weight, in slabs.
struct WinogradForward {
  struct Args {
    Conv2dForward::Args convolution;
    const float* factors;
  };
};

// True for float32, and for bfloat16 where it is multiplied in pairs, with a
// fixed weight for which the direct sums take longer.
bool winograd_supports(const Conv2dForward::Args& args);
// Computes the convolution with the instruction set in use.
void winograd(const Conv2dForward::Args& args);

}  // namespace ea::cpu
