// SIMD batch normalisation over the rows of a batch (kernels/batch_norm.h).
#include "kernels/batch_norm.h"
#include "kernels/cpu/simd/row_sums-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Computes the mean [width] of a block and, in a second pass while the block is
// in cache, squares [width]: the sum of (x - mean)^2.
template <typename T>
void block_statistics(const T* x, std::int64_t rows, std::int64_t width,
                      float* mean, float* squares) {
  __builtin_memset(mean, 0, static_cast<std::size_t>(width) * 4);
  __builtin_memset(squares, 0, static_cast<std::size_t>(width) * 4);
  add_rows(x, rows, width, mean);
  const Vf inverse = set(1.0f / static_cast<float>(rows));
  for_vectors(width, [&](std::int64_t i, auto part) {
    store(mean + i, load(mean + i, part) * inverse, part);
  });
  for (std::int64_t r = 0; r < rows; ++r, x += width) {
    for_vectors(width, [&](std::int64_t i, auto part) {
      const Vf d = load(x + i, part) - load(mean + i, part);
      store(squares + i, fma(d, d, load(squares + i, part)), part);
    });
  }
}

// Merges the statistics of blocks a and b of n and k rows (Chan et al., 1979):
// with d = mean_b - mean_a, mean = mean_a + d k / (n + k) and squares =
// squares_a + squares_b + d^2 n k / (n + k).
template <typename T>
void run_statistics(const BatchStatistics::Args& args) {
  const std::int64_t width = args.x.shape[1];
  const Blocks blocks(args.x.shape[0], width);
  const Scratch scratch(blocks.count * 2 * width * 4);
  float* partial = scratch.as<float>();  // [blocks, mean and squares, width]
  parallel_for(blocks.count, [&](std::int64_t b) {
    float* mean = partial + b * 2 * width;
    block_statistics(args.x.as<T>() + b * blocks.size * width,
                     blocks.rows_of(b), width, mean, mean + width);
  });
  const Vf inverse = set(1.0f / static_cast<float>(blocks.rows));
  parallel_chunks(width, 256, [&](std::int64_t begin, std::int64_t end) {
    for_vectors(end - begin, [&](std::int64_t i, auto part) {
      const float* from = partial + begin + i;
      Vf mean = load(from, part), squares = load(from + width, part);
      std::int64_t rows = blocks.rows_of(0);
      for (std::int64_t b = 1; b < blocks.count; ++b) {
        from += 2 * width;
        const auto n = static_cast<float>(rows);
        const auto k = static_cast<float>(blocks.rows_of(b));
        const Vf d = load(from, part) - mean;
        mean = fma(d, set(k / (n + k)), mean);
        squares = fma(d * d, set(n * (k / (n + k))),
                      squares + load(from + width, part));
        rows += blocks.rows_of(b);
      }
      store(args.mean.as<float>() + begin + i, mean, part);
      store(args.variance.as<float>() + begin + i, squares * inverse, part);
    });
  });
}

// kResidual adds the residual after the norm, kRectify applies ReLU; both are
// compile-time constants.
template <typename T, bool kResidual, bool kRectify>
void run_forward_as(const BatchNormForward::Args& args) {
  const std::int64_t rows = args.x.shape[0], width = args.x.shape[1];
  const float* mean = args.mean.as<float>();
  const T* bias = args.bias.as<T>();
  const Scratch scratch(width * 4 + 4);
  float* scale = scratch.as<float>();  // rstd weight
  const Vf eps = set(static_cast<float>(args.eps));
  for_vectors(width, [&](std::int64_t i, auto part) {
    const Vf variance = load(args.variance.as<float>() + i, part);
    const Vf rstd = set(1.0f) / sqrt(variance + eps);
    store(args.rstd.as<float>() + i, rstd, part);
    store(scale + i, rstd * load(args.weight.as<T>() + i, part), part);
  });
  parallel_each(rows, items_per_job(width), [&](std::int64_t r) {
    const T* x = args.x.as<T>() + r * width;
    T* y = args.y.as<T>() + r * width;
    const T* residual = nullptr;
    if constexpr (kResidual) {
      residual = args.residual.as<T>() + r * width;
    }
    for_vectors(width, [&](std::int64_t i, auto part) {
      const Vf centred = load(x + i, part) - load(mean + i, part);
      Vf v = fma(centred, load(scale + i, part), load(bias + i, part));
      if constexpr (kResidual) v = v + load(residual + i, part);
      if constexpr (kRectify) v = max(set(0.0f), v);
      store(y + i, v, part);
    });
  });
}

template <typename T>
void run_forward(const BatchNormForward::Args& args) {
  if (args.residual.defined()) {
    return args.rectify ? run_forward_as<T, true, true>(args)
                        : run_forward_as<T, true, false>(args);
  }
  return args.rectify ? run_forward_as<T, false, true>(args)
                      : run_forward_as<T, false, false>(args);
}

// Per-channel values that the backward reads.
template <typename T, bool kRectified>
struct Channels {
  const float *mean, *rstd;
  const float* scale;  // rstd weight
  const T* bias;       // only for a rectified y

  EA_INLINE Vf standard(Vf x, std::int64_t i, auto part) const {
    return (x - load(mean + i, part)) * load(rstd + i, part);
  }
  // Returns dy, set to 0 where a rectified y is not positive; y is recomputed
  // as in the forward.
  EA_INLINE Vf arriving(Vf dy, Vf x, std::int64_t i, auto part) const {
    if constexpr (kRectified) {
      const Vf y = fma(x - load(mean + i, part), load(scale + i, part),
                       load(bias + i, part));
      return y > set(0.0f) ? dy : set(0.0f);
    } else {
      return dy;
    }
  }
};

// Computes the sums of dy and dy h over one block, [width] each.
template <typename T, bool kRectified>
void block_sums(const T* dy, const T* x, std::int64_t rows, std::int64_t width,
                const Channels<T, kRectified>& channels, float* sum,
                float* sum_h) {
  __builtin_memset(sum, 0, static_cast<std::size_t>(width) * 4);
  __builtin_memset(sum_h, 0, static_cast<std::size_t>(width) * 4);
  for (std::int64_t r = 0; r < rows; ++r, dy += width, x += width) {
    for_vectors(width, [&](std::int64_t i, auto part) {
      const Vf from = load(x + i, part);
      const Vf d = channels.arriving(load(dy + i, part), from, i, part);
      const Vf h = channels.standard(from, i, part);
      store(sum + i, load(sum + i, part) + d, part);
      store(sum_h + i, fma(d, h, load(sum_h + i, part)), part);
    });
  }
}

template <typename T, bool kRectified>
void run_backward_as(const BatchNormBackward::Args& args) {
  const std::int64_t width = args.x.shape[1];
  const Blocks blocks(args.x.shape[0], width);
  const float* rstd = args.rstd.as<float>();
  const Scratch scratch((blocks.count + 2) * 2 * width * 4);
  float* partial = scratch.as<float>();  // [blocks, sums of dy and dy h, width]
  float* sums = partial + blocks.count * 2 * width;
  float* scale = sums + 2 * width;
  for_vectors(width, [&](std::int64_t i, auto part) {
    store(scale + i, load(rstd + i, part) * load(args.weight.as<T>() + i, part),
          part);
  });
  const Channels<T, kRectified> channels{args.mean.as<float>(), rstd, scale,
                                         args.bias.as<T>()};
  parallel_for(blocks.count, [&](std::int64_t b) {
    const std::int64_t at = b * blocks.size * width;
    float* sum = partial + b * 2 * width;
    block_sums(args.dy.as<T>() + at, args.x.as<T>() + at, blocks.rows_of(b),
               width, channels, sum, sum + width);
  });
  combine_blocks(partial, blocks.count, 2 * width, sums, 2 * width);
  const Vf part_of_mean =
      set(args.of_batch ? 1.0f / static_cast<float>(blocks.rows) : 0.0f);
  for_vectors(width, [&](std::int64_t i, auto part) {
    const Vf sum = load(sums + i, part), sum_h = load(sums + width + i, part);
    store(args.dbias.as<T>() + i, sum, part);
    store(args.dweight.as<T>() + i, sum_h, part);
    store(sums + i, sum * part_of_mean, part);
    store(sums + width + i, sum_h * part_of_mean, part);
  });
  parallel_for(blocks.count, [&](std::int64_t b) {
    for (std::int64_t r = 0; r < blocks.rows_of(b); ++r) {
      const std::int64_t at = (b * blocks.size + r) * width;
      const T* x = args.x.as<T>() + at;
      const T* dy = args.dy.as<T>() + at;
      T* dx = args.dx.as<T>() + at;
      for_vectors(width, [&](std::int64_t i, auto part) {
        const Vf from = load(x + i, part);
        const Vf h = channels.standard(from, i, part);
        const Vf d = channels.arriving(load(dy + i, part), from, i, part);
        const Vf centred = d - load(sums + i, part);
        store(dx + i,
              load(scale + i, part) *
                  fnma(h, load(sums + width + i, part), centred),
              part);
      });
    }
  });
}

template <typename T>
void run_backward(const BatchNormBackward::Args& args) {
  if (args.bias.defined()) return run_backward_as<T, true>(args);
  run_backward_as<T, false>(args);
}

}  // namespace

EA_RUN(BatchStatistics, run_statistics, x)
EA_RUN(BatchNormForward, run_forward, x)
EA_RUN(BatchNormBackward, run_backward, x)

}  // namespace ea::simd::EA_TARGET
