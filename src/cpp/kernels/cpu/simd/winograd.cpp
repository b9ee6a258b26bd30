// SIMD convolution by Winograd's transform (kernels/cpu/winograd.h).
//
// A job computes B^T d B of some tiles, multiplies by the factors of some
// panels of output channels, and writes A^T m A. Its buffers stay in the L2
// cache: the transforms of d [place][tile][in] and the sums
// [place][tile][panel]. Each tile is summed independently, so partitions change
// no bit.
#include "kernels/cpu/winograd.h"

#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/row_tiles-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

constexpr std::int64_t kPlaces = cpu::kWinogradPlaces;

// Sizes of the images and of the results, and the tiles of all images.
struct WinogradShape {
  std::int64_t images, height, width, in, out_height, out_width, out;
  std::int64_t pad_h, pad_w, down, across;  // tiles of an image

  explicit WinogradShape(const Conv2dForward::Args& args)
      : images(args.x.shape[0]),
        height(args.x.shape[1]),
        width(args.x.shape[2]),
        in(args.x.shape[3]),
        out_height(args.y.shape[1]),
        out_width(args.y.shape[2]),
        out(args.y.shape[3]),
        pad_h(args.taps.pad_h),
        pad_w(args.taps.pad_w),
        down(ceil_div(out_height, 2)),
        across(ceil_div(out_width, 2)) {}
  EA_INLINE std::int64_t tiles() const { return images * down * across; }
};

// Location of a tile: its image, and its upper-left pixel of y.
struct TilePlace {
  std::int64_t image, row, column;

  EA_INLINE TilePlace(const WinogradShape& s, std::int64_t tile)
      : image(tile / (s.down * s.across)),
        row(tile / s.across % s.down * 2),
        column(tile % s.across * 2) {}
};

// Partition of the work, by shape only: `down` groups of tiles, whose
// transforms fit the L2 cache if channels are few, and `across` groups of
// panels if the tiles alone give too few jobs.
struct WinogradJobs {
  std::int64_t panels, down, across;

  explicit WinogradJobs(const WinogradShape& s)
      : panels(ceil_div(s.out, kTileColumns)) {
    constexpr std::int64_t kElements = 1 << 17;      // of a job's transforms
    constexpr std::int64_t kLeast = 24, kMost = 48;  // tiles of a job
    constexpr std::int64_t kJobs = 8;
    const std::int64_t fit = kElements / (kPlaces * s.in);
    const std::int64_t each = fit < kLeast ? kLeast : fit > kMost ? kMost : fit;
    const std::int64_t all = s.tiles();
    down = ceil_div(all, each);
    const std::int64_t most = ceil_div(kJobs, down);
    across = most < panels ? most : panels;
  }
};

// Applies B^T to four values, a row or a column of d.
EA_INLINE void transform_four(const Vf (&d)[4], Vf (&v)[4]) {
  v[0] = d[0] - d[2];
  v[1] = d[1] + d[2];
  v[2] = d[2] - d[1];
  v[3] = d[1] - d[3];
}

// Computes v[place][tile][in] = B^T d B of the tiles from `first`. Places are
// `next` elements apart. `zeros` is the pixel outside an image.
template <typename T, typename Map>
void transform_tiles(const WinogradShape& s, const T* x, std::int64_t first,
                     std::int64_t count, const T* zeros, Map* v,
                     std::int64_t next) {
  for (std::int64_t tile = 0; tile < count; ++tile) {
    const TilePlace at(s, first + tile);
    const T* pixels[4][4];
    for (std::int64_t i = 0; i < 4; ++i) {
      const std::int64_t row = at.row - s.pad_h + i;
      for (std::int64_t j = 0; j < 4; ++j) {
        const std::int64_t column = at.column - s.pad_w + j;
        const bool inside =
            row >= 0 && row < s.height && column >= 0 && column < s.width;
        pixels[i][j] =
            inside ? x + ((at.image * s.height + row) * s.width + column) * s.in
                   : zeros;
      }
    }
    for_vectors(s.in, [&](std::int64_t c, auto part) {
      Vf half[4][4];  // [column][place]: B^T d
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        Vf d[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) d[i] = load(pixels[i][j] + c, part);
        transform_four(d, half[j]);
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const Vf row[4] = {half[0][i], half[1][i], half[2][i], half[3][i]};
        Vf whole[4];
        transform_four(row, whole);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          store_factor(v + (i * 4 + j) * next + tile * s.in + c, whole[j],
                       part);
        }
      }
    });
  }
}

// Epilogue of a convolution: adds a bias, or a norm's float32 shift, then the
// residual; each may be null. `rectify` applies ReLU last.
template <typename T>
struct Behind {
  const T* bias;
  const float* shift;
  const T* residual;
  bool rectify;
};

// Applies A^T to four values.
EA_INLINE void combine_four(Vf a, Vf b, Vf c, Vf d, Vf (&y)[2]) {
  y[0] = (a + b) + c;
  y[1] = (b - c) - d;
}

// Writes the pixels of y of the tiles from `first` in channels [channel,
// channel + channels): A^T m A of the sums m[place][tile][kTileColumns].
template <typename T>
void combine_tiles(const WinogradShape& s, std::int64_t first,
                   std::int64_t count, std::int64_t channel,
                   std::int64_t channels, const float* sums,
                   const Behind<T>& with, T* y) {
  const std::int64_t next = count * kTileColumns;
  for (std::int64_t tile = 0; tile < count; ++tile) {
    const TilePlace at(s, first + tile);
    const std::int64_t corner =
        ((at.image * s.out_height + at.row) * s.out_width + at.column) * s.out +
        channel;
    const int rows = at.row + 1 < s.out_height ? 2 : 1;
    const int columns = at.column + 1 < s.out_width ? 2 : 1;
    for_vectors(channels, [&](std::int64_t c, auto part) {
      const float* const m = sums + tile * kTileColumns + c;
      Vf half[4][2];  // [column][row of y]: A^T m
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        combine_four(load(m + j * next), load(m + (4 + j) * next),
                     load(m + (8 + j) * next), load(m + (12 + j) * next),
                     half[j]);
      }
      Vf shift = set(0);
      if (with.shift != nullptr) shift = load(with.shift + channel + c, part);
      if (with.bias != nullptr) shift = load(with.bias + channel + c, part);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        Vf pixel[2];
        combine_four(half[0][i], half[1][i], half[2][i], half[3][i], pixel);
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j) {
          if (i >= rows || j >= columns) continue;
          const std::int64_t to = corner + (i * s.out_width + j) * s.out + c;
          Vf value = pixel[j] + shift;
          if (with.residual != nullptr) value += load(with.residual + to, part);
          store(y + to, with.rectify ? max(set(0), value) : value, part);
        }
      }
    });
  }
}

template <typename T, typename Cells>
void run_winograd(const cpu::WinogradForward::Args& args) {
  using Map = typename Cells::Map;
  const Conv2dForward::Args& all = args.convolution;
  const WinogradShape s(all);
  const WinogradJobs jobs(s);
  const Behind<T> with{all.bias.as<T>(), all.shift.as<float>(),
                       all.residual.as<T>(), all.rectify};
  constexpr std::int64_t kSlab = cpu::kWinogradSlab;
  const std::int64_t depth = s.in / Cells::kValues;
  parallel_for(jobs.down * jobs.across, [&](std::int64_t job) {
    const std::int64_t i = job / jobs.across, j = job % jobs.across;
    const std::int64_t first = s.tiles() * i / jobs.down;
    const std::int64_t count = s.tiles() * (i + 1) / jobs.down - first;
    // The extra line keeps the places of a tile from sharing a few cache sets.
    const std::int64_t next = count * s.in + Cells::kValues * kLine;
    const Scratch sums(kPlaces * count * kTileColumns * sizeof(float));
    const Scratch transforms(kPlaces * next * sizeof(Map));
    const Scratch zeros(s.in * sizeof(T));
    clear(zeros.as<T>(), s.in);
    transform_tiles(s, all.x.as<T>(), first, count, zeros.as<T>(),
                    transforms.as<Map>(), next);
    const float* const cells = transforms.as<float>();
    for (std::int64_t panel = jobs.panels * j / jobs.across;
         panel < jobs.panels * (j + 1) / jobs.across; ++panel) {
      const std::int64_t channel = panel * kTileColumns;
      const float* factors =
          args.factors +
          (channel / kSlab * kSlab * kPlaces + channel % kSlab) * depth;
      for (std::int64_t p = 0; p < kPlaces; ++p) {
        panel_sums<Cells, false>({cells + p * next / Cells::kValues, depth, 1},
                                 factors + p * kSlab * depth, count, depth,
                                 false,
                                 sums.as<float>() + p * count * kTileColumns);
      }
      const std::int64_t rest = s.out - channel;
      combine_tiles(s, first, count, channel,
                    rest < kTileColumns ? rest : kTileColumns, sums.as<float>(),
                    with, all.y.as<T>());
    }
  });
}

}  // namespace

template <>
void run<cpu::WinogradForward>(const cpu::WinogradForward::Args& args) {
#if defined(__AVX512F__)
  if (args.convolution.x.dtype == DType::bf16) {
    return run_winograd<bfloat16, Pairs>(args);
  }
#endif
  run_winograd<float, Floats>(args);
}

}  // namespace ea::simd::EA_TARGET
