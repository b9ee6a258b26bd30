// Convolutions of 3 x 3 pixels with fewer multiplications: Winograd's
// F(2 x 2, 3 x 3) (Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks", CVPR 2016, section 4.1), 4 for each pixel and pair of channels
// where the sum itself has 9.
//
// A tile of 2 x 2 pixels of y reads d, 4 x 4 pixels of x, and is
//
//   A^T [sum_c (G g_c G^T) * (B^T d_c B)] A,
//
//         1  0 -1  0         1    0    0
//   B^T = 0  1  1  0     G = 1/2  1/2  1/2    A^T = 1  1  1  0
//         0 -1  1  0         1/2 -1/2  1/2          0  1 -1 -1
//         0  1  0 -1         0    0    1
//
// where * is by element: at each of the 16 places a product of matrices, of
// [tiles, in] and [in, out].
#pragma once

#include "kernels/conv2d.h"
#include "kernels/cpu/gemm_rows.h"

namespace ea::cpu {

constexpr std::int64_t kWinogradPlaces = 16;
// Output channels whose factors lie together: [place][in, channels], each
// matrix in panels for products row by row (kernels/cpu/gemm_rows.h).
constexpr std::int64_t kWinogradSlab = kWidestPanel;

// Computes the convolution from the factors G g G^T of its weight, in slabs.
struct WinogradForward {
  struct Args {
    Conv2dForward::Args convolution;
    const float* factors;
  };
};

// Float32, or bfloat16 where it is multiplied in pairs, with a fixed weight
// whose sums take longer.
bool winograd_supports(const Conv2dForward::Args& args);
// By the code for the instruction set in use.
void winograd(const Conv2dForward::Args& args);

}  // namespace ea::cpu
