// SIMD evolving step of attention maps in closed form (kernels/evolve.h).
#include "kernels/evolve.h"
#include "kernels/cpu/simd/map_sums-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// About 2048 cells per head, so that the intermediates of a block stay in the
// L2 cache. The backward recomputes a halo of Z and therefore uses taller
// blocks.
constexpr std::int64_t kStepCells = 2048;
constexpr std::int64_t kForwardRows = 8, kBackwardRows = 12;

// Maps of one sequence and the current block of rows.
struct Maps : SequenceMaps {
  std::int64_t first, rows;
  Maps(const MapLayout& layout, const MapBlock& block)
      : SequenceMaps(layout, block.sequence),
        first(block.row),
        rows(block.rows) {}
};

// Computes `rows` rows of I = a M + b S, from row `first`.
template <typename T>
Padded<float> mixed(const T* previous, const T* scores,
                    const EvolveCoefficients& c, const Maps& m,
                    std::int64_t pad, std::int64_t first, std::int64_t rows,
                    float* memory) {
  const Padded<float> to(memory, pad, m.n_k, rows);
  const Vf a = set(static_cast<float>(c.a)), b = set(static_cast<float>(c.b));
  fill(to, m.heads, m.cells, first,
       [&](std::int64_t h, std::int64_t i, std::int64_t j, auto part) {
         const std::int64_t at = m.at(h, i) + j;
         const T* const cell = previous == nullptr ? nullptr : previous + at;
         return mix(a, cell, b, load(scores + at, part), part);
       });
  return to;
}

// Writes L = p M + s S + w ReLU(Z) for the rows of the block; `moved` tells
// which cells of the shifted Z exist.
template <typename T>
void write_output(const EvolveForward::Args& args, const Maps& m,
                  const Existing& moved, const Convolved& z) {
  const T* const previous = args.previous.as<const T>();
  const T* const scores = args.scores.as<const T>();
  const Vf p = set(static_cast<float>(args.c.p));
  const Vf s = set(static_cast<float>(args.c.s));
  const Vf w = set(static_cast<float>(args.c.w));
  for (std::int64_t h = 0; h < m.heads; ++h) {
    for (std::int64_t i = 0; i < m.rows; ++i) {
      float* const row = z.row(h, i);
      moved.clear(m.first + i, row);
      const std::int64_t at = m.at(h, m.first + i);
      T* const out = args.out.as<T>() + at;
      for_vectors(m.n_k, [&](std::int64_t j, auto part) {
        const Vf relu = max(set(0.0f), load(row + j, part));  // keeps NaN
        Vf y = fma(s, load(scores + at + j, part), w * relu);
        if (previous != nullptr) {
          y = fma(p, load(previous + at + j, part), y);
        }
        store(out + j, y, part);
      });
      m.cells.clear(m.first + i, out);
    }
  }
}

template <typename T>
void forward_of(const EvolveForward::Args& args) {
  const ConvSizes s(args.weight, args.shift);
  const TapWeights<> w(args.weight.as<const T>(), args.bias.as<const T>(),
                       s.heads, s.k, false);
  const MapJobs jobs(args.layout, kStepCells, kForwardRows);
  const std::int64_t i_size = jobs.largest([&](const MapBlock& b) {
    const Maps m(args.layout, b);
    return padded_size(m.heads, s.pad, m.n_k, m.rows + 2 * s.r);
  });
  const std::int64_t z_size = jobs.largest([&](const MapBlock& b) {
    const Maps m(args.layout, b);
    return convolved_size(m.heads, s.pad, m.n_k, m.rows);
  });
  parallel_for(jobs.count(), [&](std::int64_t job) {
    const Scratch scratch(s.taps * sizeof(std::int64_t) +
                          (i_size + z_size) * sizeof(float));
    std::int64_t* const offset = scratch.as<std::int64_t>();
    float* const memory = reinterpret_cast<float*>(offset + s.taps);
    jobs.for_blocks(job, [&](const MapBlock& block) {
      const Maps m(args.layout, block);
      const Padded<float> input =
          mixed(args.previous.as<const T>(), args.scores.as<const T>(), args.c,
                m, s.pad, m.first - s.down - s.r, m.rows + 2 * s.r, memory);
      tap_offsets(input, s.heads, s.k, offset);
      const Convolved z(memory + i_size, input, m.rows);
      convolve(input, offset, s.heads, w, m.rows, z);
      write_output<T>(args, m,
                      Existing(args.layout, block.sequence, args.shift), z);
    });
  });
}

// Computes G = w dL [Z > 0] in the cells to which the block's Z is shifted,
// with a halo of r rows; Z has the same halo.
template <typename T>
Padded<float> gated(const T* dout, const Convolved& z,
                    const EvolveCoefficients& c, const Maps& m,
                    const Existing& moved, const ConvSizes& s, float* memory) {
  const Padded<float> to(memory, s.pad, m.n_k, m.rows + 2 * s.r);
  const Vf w = set(static_cast<float>(c.w));
  const std::int64_t first = m.first + s.down - s.r;
  fill(to, m.heads, moved, first,
       [&](std::int64_t h, std::int64_t i, std::int64_t j, auto part) {
         const Vf sign = load(z.row(h, i - first) + j, part);
         const Vf g = w * load(dout + m.at(h, i) + j, part);
         return sign <= set(0.0f) ? set(0.0f) : g;
       });
  return to;
}

// Writes dM = p dL + a dI and dS = s dL + b dI for the rows of the block.
template <typename T>
void write_gradients(const EvolveBackward::Args& args, const Maps& m,
                     const Convolved& di) {
  T* const dprevious = args.dprevious.as<T>();
  const Vf a = set(static_cast<float>(args.c.a));
  const Vf b = set(static_cast<float>(args.c.b));
  const Vf p = set(static_cast<float>(args.c.p));
  const Vf s = set(static_cast<float>(args.c.s));
  for (std::int64_t h = 0; h < m.heads; ++h) {
    for (std::int64_t i = 0; i < m.rows; ++i) {
      const float* const row = di.row(h, i);
      const std::int64_t at = m.at(h, m.first + i);
      for_vectors(m.n_k, [&](std::int64_t j, auto part) {
        const Vf dl = load(args.dout.as<const T>() + at + j, part);
        const Vf d = load(row + j, part);
        store(args.dscores.as<T>() + at + j, fma(b, d, s * dl), part);
        if (dprevious != nullptr) {
          store(dprevious + at + j, fma(a, d, p * dl), part);
        }
      });
      m.cells.clear(m.first + i, args.dscores.as<T>() + at);
      if (dprevious != nullptr) m.cells.clear(m.first + i, dprevious + at);
    }
  }
}

// Sizes, in floats, of the parts of a job's scratch.
struct BackwardSizes {
  std::int64_t input, conv, gate, sums, total;
  BackwardSizes(const MapJobs& jobs, const MapLayout& layout,
                const ConvSizes& s) {
    input = jobs.largest([&](const MapBlock& b) {
      const Maps m(layout, b);
      return padded_size(m.heads, s.pad, m.n_k, m.rows + 4 * s.r);
    });
    conv = jobs.largest([&](const MapBlock& b) {
      const Maps m(layout, b);
      return convolved_size(m.heads, s.pad, m.n_k, m.rows + 2 * s.r);
    });
    gate = jobs.largest([&](const MapBlock& b) {
      const Maps m(layout, b);
      return padded_size(m.heads, s.pad, m.n_k, m.rows + 2 * s.r);
    });
    sums = WeightSums<>::size(s.heads, s.taps);
    total = input + conv + gate + sums;
  }
};

// Computes per block I with a halo of 2 r rows, Z and G with a halo of r, and
// dI without a halo. The weight gradient sums G times I. The sums of jobs are
// combined in job order.
template <typename T>
void backward_of(const EvolveBackward::Args& args) {
  const ConvSizes s(args.weight, args.shift);
  const TapWeights<> w(args.weight.as<const T>(), args.bias.as<const T>(),
                       s.heads, s.k, false);
  const TapWeights<> turned(args.weight.as<const T>(),
                            static_cast<const T*>(nullptr), s.heads, s.k, true);
  const MapJobs jobs(args.layout, kStepCells, kBackwardRows);
  const BackwardSizes size(jobs, args.layout, s);
  const std::int64_t weights = s.heads * s.taps;
  const std::int64_t partial_size = weights + s.heads;
  const Scratch partials(jobs.count() * partial_size * sizeof(float) + 1);
  parallel_for(jobs.count(), [&](std::int64_t job) {
    const Scratch scratch(2 * s.taps * sizeof(std::int64_t) +
                          size.total * sizeof(float));
    std::int64_t* const offset = scratch.as<std::int64_t>();
    std::int64_t* const g_offset = offset + s.taps;
    float* const i_memory = reinterpret_cast<float*>(g_offset + s.taps);
    float* const z_memory = i_memory + size.input;
    float* const g_memory = z_memory + size.conv;
    WeightSums<> sums(g_memory + size.gate, s.heads, s.taps);
    float* const dweight = partials.as<float>() + job * partial_size;
    float* const dbias = dweight + weights;
    for (std::int64_t o = 0; o < s.heads; ++o) dbias[o] = 0.0f;
    jobs.for_blocks(job, [&](const MapBlock& block) {
      const Maps m(args.layout, block);
      const Padded<float> input =
          mixed(args.previous.as<const T>(), args.scores.as<const T>(), args.c,
                m, s.pad, m.first - 2 * s.r, m.rows + 4 * s.r, i_memory);
      tap_offsets(input, s.heads, s.k, offset);
      const Convolved z(z_memory, input, m.rows + 2 * s.r);
      convolve(input, offset, s.heads, w, m.rows + 2 * s.r, z);
      const Padded<float> g =
          gated(args.dout.as<const T>(), z, args.c, m,
                Existing(args.layout, block.sequence, args.shift), s, g_memory);
      tap_offsets(g, s.heads, s.k, g_offset);
      const Convolved di(z_memory, g, m.rows);  // overwrites Z
      convolve(g.ahead(2 * s.right), g_offset, s.heads, turned, m.rows, di);
      write_gradients<T>(args, m, di);
      sums.add(g, s.r, input.data + s.r * input.width, offset, m.rows);
      add_cells(g, s.heads, s.r, m.rows, dbias);
    });
    sums.finish(dweight);
  });
  const float* const all = partials.as<const float>();
  combine_blocks(all, jobs.count(), partial_size, args.dweight.as<T>(),
                 weights);
  combine_blocks(all + weights, jobs.count(), partial_size, args.dbias.as<T>(),
                 s.heads);
}

}  // namespace

EA_RUN(EvolveForward, forward_of, scores)
EA_RUN(EvolveBackward, backward_of, scores)

}  // namespace ea::simd::EA_TARGET
