// SIMD layer normalisation, forward and backward (kernels/layer_norm.h).
#include "kernels/layer_norm.h"
#include "kernels/cpu/simd/dropout-inl.h"
#include "kernels/cpu/simd/row_sums-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Stores s = x + residual and returns the sum over the row of s as stored.
template <typename T>
EA_INLINE float add_residual(const T* x, const T* residual, T* s,
                             std::int64_t width) {
  return sum_over(width, [&](std::int64_t i, auto part) {
    const Vf v = load(x + i, part) + load(residual + i, part);
    store(s + i, v, part);
    return as_stored(v, s);
  });
}

template <typename T>
void run_forward(const LayerNormForward::Args& args) {
  const std::int64_t rows = args.x.shape[0], width = args.x.shape[1];
  const T* weight = args.weight.as<T>();
  const T* bias = args.bias.as<T>();
  float* means = args.mean.as<float>();
  float* rstds = args.rstd.as<float>();
  const float inverse = 1.0f / static_cast<float>(width);
  const float eps = static_cast<float>(args.eps);
  Drop drop;
  if (args.p > 0.0) make_drop(args.p, args.seed, args.stream, drop);
  parallel_chunks(
      rows, items_per_job(width), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          const T* s = args.x.as<T>() + r * width;
          float total;
          if (args.residual.defined()) {
            T* sum = args.sum.as<T>() + r * width;
            if (args.p > 0.0) {  // the row stays in the L1 cache
              drop_run(drop, s, sum, r * width, width);
              s = sum;
            }
            total =
                add_residual(s, args.residual.as<T>() + r * width, sum, width);
            s = sum;
          } else {
            total = sum_over(width, [&](std::int64_t i, auto part) {
              return load(s + i, part);
            });
          }
          const Vf mean = set(total * inverse);
          const float squares = sum_over(width, [&](std::int64_t i, auto part) {
            const Vf d = load(s + i, part) - mean;
            return d * d;
          });
          const float rstd = 1.0f / sqrt(set(squares * inverse + eps))[0];
          means[r] = total * inverse;
          rstds[r] = rstd;
          T* y = args.y.as<T>() + r * width;
          for_vectors(width, [&](std::int64_t i, auto part) {
            const Vf h = (load(s + i, part) - mean) * set(rstd);
            store(y + i, fma(h, load(weight + i, part), load(bias + i, part)),
                  part);
          });
        }
      });
}

// Computes one row of dx and adds the row's part of dweight and dbias.
template <typename T>
EA_INLINE void backward_row(const T* dy, const T* s, const T* weight,
                            float mean, float rstd, T* dx, float* dweight,
                            float* dbias, std::int64_t width) {
  Vf sum_gh_low = set(0.0f), sum_gh_high = set(0.0f);
  const float sum_g = sum_over(width, [&](std::int64_t i, auto part) {
    const Vf d = load(dy + i, part);
    const Vf h =
        only((load(s + i, part) - set(mean)) * set(rstd), part, set(0.0f));
    const Vf g = d * load(weight + i, part);
    store(dweight + i, fma(d, h, load(dweight + i, part)), part);
    store(dbias + i, load(dbias + i, part) + d, part);
    // Two accumulators, by the parity of the vector, shorten the chain.
    if ((i / kLanes) % 2 == 0) {
      sum_gh_low = fma(g, h, sum_gh_low);
    } else {
      sum_gh_high = fma(g, h, sum_gh_high);
    }
    return g;
  });
  const float inverse = 1.0f / static_cast<float>(width);
  const Vf mean_g = set(sum_g * inverse);
  const Vf mean_gh = set(reduce_add(sum_gh_low + sum_gh_high) * inverse);
  for_vectors(width, [&](std::int64_t i, auto part) {
    const Vf h = (load(s + i, part) - set(mean)) * set(rstd);
    const Vf g = load(dy + i, part) * load(weight + i, part);
    store(dx + i, set(rstd) * fnma(h, mean_gh, g - mean_g), part);
  });
}

template <typename T>
void run_backward(const LayerNormBackward::Args& args) {
  const std::int64_t width = args.x.shape[1];
  const float* means = args.mean.as<float>();
  const float* rstds = args.rstd.as<float>();
  const Blocks blocks(args.x.shape[0], width);
  // Per block: the sums of dy h, then the sums of dy.
  const Scratch scratch(blocks.count * 2 * width * 4);
  Drop drop;
  if (args.p > 0.0) make_drop(args.p, args.seed, args.stream, drop);
  float* partial = scratch.as<float>();
  parallel_for(blocks.count, [&](std::int64_t b) {
    float* dweight = partial + b * 2 * width;
    float* dbias = dweight + width;
    __builtin_memset(dweight, 0, static_cast<std::size_t>(width) * 8);
    const std::int64_t first = b * blocks.size;
    for (std::int64_t r = first; r < first + blocks.rows_of(b); ++r) {
      T* dx = args.dx.as<T>() + r * width;
      T* ds = args.p > 0.0 ? args.dresidual.as<T>() + r * width : dx;
      backward_row(args.dy.as<T>() + r * width, args.x.as<T>() + r * width,
                   args.weight.as<T>(), means[r], rstds[r], ds, dweight, dbias,
                   width);
      if (args.p > 0.0) drop_run(drop, ds, dx, r * width, width);
    }
  });
  parallel_chunks(width, 256, [&](std::int64_t begin, std::int64_t end) {
    combine_blocks(partial + begin, blocks.count, 2 * width,
                   args.dweight.as<T>() + begin, end - begin);
    combine_blocks(partial + width + begin, blocks.count, 2 * width,
                   args.dbias.as<T>() + begin, end - begin);
  });
}

}  // namespace

EA_RUN(LayerNormForward, run_forward, x)
EA_RUN(LayerNormBackward, run_backward, x)

}  // namespace ea::simd::EA_TARGET
