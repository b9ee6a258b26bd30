// SIMD convolution over the heads of attention maps (kernels/map_conv.h).
#include "kernels/map_conv.h"
#include "kernels/cpu/simd/map_sums-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// About 2048 cells per head: input, halo and output stay in the L2 cache.
constexpr std::int64_t kConvCells = 2048, kConvRows = 8;

// Copies the block's rows of x, moved by `down`, with a halo of r rows.
template <typename T>
Padded<float> padded(const T* x, const SequenceMaps& m, const MapBlock& block,
                     const ConvSizes& s, std::int64_t down,
                     const Existing& cells, float* memory) {
  const Padded<float> to(memory, s.pad, m.n_k, block.rows + 2 * s.r);
  fill(to, s.heads, cells, block.row + down - s.r,
       [&](std::int64_t h, std::int64_t row, std::int64_t j, auto part) {
         return load(x + m.at(h, row) + j, part);
       });
  return to;
}

// Computes y = w * x for one block, in the existing `cells`.
template <typename T>
void convolve_block(const Padded<float>& x, const SequenceMaps& m,
                    const MapBlock& block, const ConvSizes& s,
                    const std::int64_t* offset, const TapWeights<>& w,
                    const Existing& cells, float* memory, T* y) {
  const Convolved z(memory, x, block.rows);
  convolve(x, offset, s.heads, w, block.rows, z);
  for (std::int64_t h = 0; h < s.heads; ++h) {
    for (std::int64_t i = 0; i < block.rows; ++i) {
      const float* from = z.row(h, i);
      T* to = y + m.at(h, block.row + i);
      for_vectors(m.n_k, [&](std::int64_t j, auto part) {
        store(to + j, load(from + j, part), part);
      });
      cells.clear(block.row + i, to);
    }
  }
}

std::int64_t padded_size(const MapLayout& layout, const MapBlock& b,
                         const ConvSizes& s) {
  return padded_size(s.heads, s.pad, layout.n_k(b.sequence), b.rows + 2 * s.r);
}

std::int64_t convolved_size(const MapLayout& layout, const MapBlock& b,
                            const ConvSizes& s) {
  return convolved_size(s.heads, s.pad, layout.n_k(b.sequence), b.rows);
}

template <typename T>
void forward_of(const MapConvForward::Args& args) {
  const ConvSizes s(args.weight, args.shift);
  const TapWeights<> w(args.weight.as<const T>(), args.bias.as<const T>(),
                       s.heads, s.k, false);
  const MapJobs jobs(args.layout, kConvCells, kConvRows);
  const std::int64_t x_size = jobs.largest(
      [&](const MapBlock& b) { return padded_size(args.layout, b, s); });
  const std::int64_t y_size = jobs.largest(
      [&](const MapBlock& b) { return convolved_size(args.layout, b, s); });
  parallel_for(jobs.count(), [&](std::int64_t job) {
    const Scratch scratch((x_size + y_size) * sizeof(float) +
                          s.taps * sizeof(std::int64_t));
    std::int64_t* offset = scratch.as<std::int64_t>();
    float* memory = reinterpret_cast<float*>(offset + s.taps);
    jobs.for_blocks(job, [&](const MapBlock& block) {
      const SequenceMaps m(args.layout, block.sequence);
      const Padded<float> x =
          padded(args.x.as<const T>(), m, block, s, -s.down, m.cells, memory);
      tap_offsets(x, s.heads, s.k, offset);
      convolve_block(x, m, block, s, offset, w,
                     Existing(args.layout, block.sequence, args.shift),
                     memory + x_size, args.y.as<T>());
    });
  });
}

// dx is the convolution of dy with the adjoint kernel. dweight[o, tap] is the
// sum of dy[o] x[tap] over all cells; dy is zero in the padding, so both run
// over padded rows as over one line. The sums of jobs are combined in job
// order.
template <typename T>
void backward_of(const MapConvBackward::Args& args) {
  const MapLayout& layout = args.layout;
  const ConvSizes s(args.weight, args.shift);
  const TapWeights<> w(args.weight.as<const T>(),
                       static_cast<const T*>(nullptr), s.heads, s.k, true);
  const MapJobs jobs(layout, kConvCells, kConvRows);
  const std::int64_t x_size = jobs.largest(
      [&](const MapBlock& b) { return padded_size(layout, b, s); });
  const std::int64_t y_size = jobs.largest(
      [&](const MapBlock& b) { return convolved_size(layout, b, s); });
  const std::int64_t weights = s.heads * s.taps;
  const bool summed = args.dweight.defined() || args.dbias.defined();
  const std::int64_t partial_size = summed ? weights + s.heads : 0;
  const Scratch partials(jobs.count() * partial_size * sizeof(float) + 1);
  parallel_for(jobs.count(), [&](std::int64_t job) {
    const std::int64_t sums_size =
        summed ? WeightSums<>::size(s.heads, s.taps) : 0;
    const Scratch scratch((2 * x_size + y_size + sums_size) * sizeof(float) +
                          s.taps * sizeof(std::int64_t));
    std::int64_t* const offset = scratch.as<std::int64_t>();
    float* const sums_memory = reinterpret_cast<float*>(offset + s.taps);
    float* const y_memory = sums_memory + sums_size;
    float* const dy_memory = y_memory + y_size;
    float* const x_memory = dy_memory + x_size;
    float* const partial = partials.as<float>() + job * partial_size;
    WeightSums<> sums(sums_memory, summed ? s.heads : 0, s.taps);
    for (std::int64_t o = 0; summed && o < s.heads; ++o) {
      partial[weights + o] = 0.0f;
    }
    jobs.for_blocks(job, [&](const MapBlock& block) {
      const SequenceMaps m(layout, block.sequence);
      const Padded<float> dy =
          padded(args.dy.as<const T>(), m, block, s, s.down,
                 Existing(layout, block.sequence, args.shift), dy_memory);
      tap_offsets(dy, s.heads, s.k, offset);
      if (args.dx.defined()) {
        convolve_block(dy.ahead(2 * s.right), m, block, s, offset, w, m.cells,
                       y_memory, args.dx.as<T>());
      }
      if (!summed) return;
      const Padded<float> x =
          padded(args.x.as<const T>(), m, block, s, 0, m.cells, x_memory);
      sums.add(dy, s.r, x.data, offset, block.rows);
      add_cells(dy, s.heads, s.r, block.rows, partial + weights);
    });
    if (summed) sums.finish(partial);
  });
  const float* all = partials.as<const float>();
  if (args.dweight.defined()) {
    combine_blocks(all, jobs.count(), partial_size, args.dweight.as<T>(),
                   weights);
  }
  if (args.dbias.defined()) {
    combine_blocks(all + weights, jobs.count(), partial_size,
                   args.dbias.as<T>(), s.heads);
  }
}

}  // namespace

EA_RUN(MapConvForward, forward_of, weight)
EA_RUN(MapConvBackward, backward_of, weight)

}  // namespace ea::simd::EA_TARGET
