// Caches the Winograd factors of a weight and picks the instruction set.
#include "kernels/cpu/winograd.h"

#include <algorithm>
#include <array>

#include "kernels/cpu/gemm_rows.h"
#include "kernels/cpu/kept_matrix.h"
#include "kernels/cpu/scaled_weight.h"
#include "kernels/cpu/simd/targets.h"
#include "runtime/bfloat16.h"
#include "runtime/fast_paths.h"

namespace ea::cpu {

namespace {

using Four = std::array<float, 4>;

// Returns G times a vector of three.
Four transformed(float first, float second, float third) {
  const float sum = 0.5f * (first + third), half = 0.5f * second;
  return {first, sum + half, sum - half, third};
}

// Returns the rows of G g G^T.
template <typename T>
std::array<Four, 4> transformed(const T* g) {
  const auto at = [g](std::int64_t i) { return static_cast<float>(g[i]); };
  std::array<Four, 3> columns{};  // columns of G g
  for (std::int64_t j = 0; j < 3; ++j) {
    columns[static_cast<std::size_t>(j)] =
        transformed(at(j), at(3 + j), at(6 + j));
  }
  std::array<Four, 4> all{};
  for (std::size_t i = 0; i < 4; ++i) {
    all[i] = transformed(columns[0][i], columns[1][i], columns[2][i]);
  }
  return all;
}

// Winograd factors of a weight [out, in, 3, 3] of type T.
template <typename T>
struct WinogradFactors : Storage::Derived {
  WinogradFactors(const TensorView& weight, Scale scale)
      : of(weight, scale),
        in(weight.dim(1)),
        cells(in * static_cast<std::int64_t>(sizeof(T)) / 4),
        data(static_cast<std::size_t>(kWinogradPlaces *
                                      row_panels_size(cells, weight.dim(0))) *
             sizeof(float)) {
    const std::int64_t out = weight.dim(0);
    for (std::int64_t o = 0; o < out; o += kWinogradSlab) {
      fill_slab(weight.as<T>() + o * in * 9, o,
                std::min(kWinogradSlab, out - o));
    }
  }
  bool made_of(const TensorView& weight, Scale scale) const {
    return of.is(weight, scale);
  }
  const float* panels() const { return static_cast<const float*>(data.data()); }

  ScaledWeight of;
  std::int64_t in, cells;  // cells: 4-byte units that hold `in` channels
  Storage data;

 private:
  void fill_slab(const T* weight, std::int64_t first, std::int64_t count) {
    const std::int64_t place = count * in;
    const Storage plain(static_cast<std::size_t>(kWinogradPlaces * place) *
                        sizeof(T));  // [place][channel of the slab, in]
    T* const at = static_cast<T*>(plain.data());
    for (std::int64_t o = 0; o < count; ++o) {
      const float by = of.scale.empty()
                           ? 1.0f
                           : of.scale[static_cast<std::size_t>(first + o)];
      for (std::int64_t c = 0; c < in; ++c) {
        T* to = at + o * in + c;
        for (const Four& row : transformed(weight + (o * in + c) * 9)) {
          for (const float factor : row) {
            *to = T(factor * by);
            to += place;
          }
        }
      }
    }
    auto* to = static_cast<float*>(data.data()) +
               kWinogradPlaces * row_panels_size(cells, first);
    for (std::int64_t p = 0; p < kWinogradPlaces; ++p) {
      MatMulProblem problem{};
      problem.n = count;
      problem.k = problem.b_stride = cells;
      problem.b = at + p * place;
      problem.transpose_b = true;
      simd_kernel<PackRowPanels>()({problem, DType::f32, false, to});
      to += row_panels_size(cells, count);
    }
  }
};

template <typename T>
void run_winograd(const Conv2dForward::Args& args) {
  const auto factors = kept_or_made<WinogradFactors<T>>(
      args.kept_weight, args.weight, scale_of(args));
  simd_kernel<WinogradForward>()({args, factors->panels()});
}

// Whether products of this type are as fast as those in oneDNN's convolutions.
bool multiplies(DType dtype) {
  return dtype == DType::f32 || (dtype == DType::bf16 && multiplies_pairs());
}

// Whether `out` channels fill at least two thirds of their slabs.
bool fills_slabs(std::int64_t out) {
  const std::int64_t slabs = (out + kWinogradSlab - 1) / kWinogradSlab;
  return 3 * out >= 2 * slabs * kWinogradSlab;
}

}  // namespace

bool winograd_supports(const Conv2dForward::Args& args) {
  // With fewer channels the products are too small to gain; fewer pixels give
  // few whole tiles.
  constexpr std::int64_t kChannels = 32, kPixels = 16;
  const Conv2dTaps& t = args.taps;
  const TensorView& w = args.weight;
  return enabled(FastPath::winograd) && args.kept_weight != nullptr &&
         w.dim(2) == 3 && w.dim(3) == 3 && t.groups == 1 && t.stride_h == 1 &&
         t.stride_w == 1 && t.dilation_h == 1 && t.dilation_w == 1 &&
         fills_slabs(w.dim(0)) && w.dim(1) >= kChannels && w.dim(1) % 2 == 0 &&
         args.y.dim(1) * args.y.dim(2) >= kPixels && multiplies(args.x.dtype);
}

void winograd(const Conv2dForward::Args& args) {
  if (args.y.numel() == 0) return;
  (args.x.dtype == DType::f32 ? run_winograd<float>
                              : run_winograd<bfloat16>)(args);
}

}  // namespace ea::cpu
