// SIMD masked softmax over keys, forward and backward (kernels/softmax.h).
#include "kernels/softmax.h"
#include "kernels/cpu/simd/cells-inl.h"
#include "kernels/cpu/simd/map_rows-inl.h"
#include "kernels/cpu/simd/math-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Calls fn(sequence, first row, rows) for runs of rows of one sequence; rows
// are numbered across all heads.
template <typename Fn>
void for_map_rows(const MapLayout& layout, Fn&& fn) {
  for_row_runs(layout, layout.q_offsets, layout.numel(), fn);
}

// Computes the softmax of a row. `exps` holds its exponentials between the
// passes and may be y.
template <typename T, typename Mask>
EA_INLINE void softmax_row(const T* x, T* y, float* exps, std::int64_t n,
                           float scale, Mask mask) {
  const float top = max_over(n, [&](std::int64_t j, auto part) {
    return mask(j, part, load(x + j, part) * set(scale), -__builtin_inff());
  });
  const float total = sum_over(n, [&](std::int64_t j, auto part) {
    const Vf v = load(x + j, part) * set(scale) - set(top);
    const Vf e = mask(j, part, exp(v), 0.0f);
    store(exps + j, e, part);
    return e;
  });
  const Vf inverse = set(1.0f / total);
  for_vectors(n, [&](std::int64_t j, auto part) {
    store(y + j, load(exps + j, part) * inverse, part);
  });
}

template <typename T, typename Mask>
EA_INLINE void softmax_by(const T* x, T* y, float* scratch, std::int64_t n,
                          float scale, Mask mask) {
  if constexpr (sizeof(T) == sizeof(float)) {
    softmax_row(x, y, y, n, scale, mask);
  } else {
    softmax_row(x, y, scratch, n, scale, mask);
  }
}

// Computes the softmax of row i, which has missing cells.
template <typename T>
void softmax_some(const Existing& cells, std::int64_t i, const T* x, T* y,
                  float* scratch, float scale) {
  const std::int64_t n = cells.columns_left(i);
  if (n > 0 && cells.mask() != nullptr) {
    softmax_by(x, y, scratch, n, scale, KeyMask{cells.mask()});
  } else if (n > 0) {
    softmax_by(x, y, scratch, n, scale, NoMask{});
  }
  cells.clear(i, y);
}

template <typename T>
void run_forward(const SoftmaxForward::Args& args) {
  const float scale = static_cast<float>(args.scale);
  for_map_rows(
      args.layout, [&](std::int64_t b, std::int64_t row, std::int64_t rows) {
        const Existing cells(args.layout, b);
        const std::int64_t keys = cells.n_k();
        const T* x = args.x.as<T>() + args.layout.begin(b) + row * keys;
        T* y = args.y.as<T>() + args.layout.begin(b) + row * keys;
        const Scratch scratch(sizeof(T) < sizeof(float) ? keys * 4 : 0);
        float* exps = scratch.as<float>();
        for (std::int64_t r = 0; r < rows; ++r, x += keys, y += keys) {
          if (cells.all()) {
            softmax_by(x, y, exps, keys, scale, NoMask{});
          } else {
            softmax_some(cells, (row + r) % cells.n_q(), x, y, exps, scale);
          }
        }
      });
}

template <typename T>
void run_backward(const SoftmaxBackward::Args& args) {
  const Vf scale = set(static_cast<float>(args.scale));
  for_map_rows(args.layout, [&](std::int64_t b, std::int64_t row,
                                std::int64_t rows) {
    const Existing cells(args.layout, b);
    for (std::int64_t r = row; r < row + rows; ++r) {
      const std::int64_t cell = args.layout.begin(b) + r * cells.n_k();
      const std::int64_t i = cells.all() ? 0 : r % cells.n_q();
      const std::int64_t keys = cells.columns(i);
      const T* dy = args.dy.as<T>() + cell;
      const T* y = args.y.as<T>() + cell;
      T* dx = args.dx.as<T>() + cell;
      const auto dot_of = [&](auto mask) {
        return sum_over(keys, [&](std::int64_t j, auto part) {
          return mask(j, part, load(dy + j, part) * load(y + j, part), 0.0f);
        });
      };
      const Vf dot =
          set(cells.mask() == nullptr ? dot_of(NoMask{})
                                      : dot_of(KeyMask{cells.mask()}));
      for_vectors(keys, [&](std::int64_t j, auto part) {
        const Vf g = load(dy + j, part) - dot;
        store(dx + j, scale * load(y + j, part) * g, part);
      });
      cells.clear(i, dx);
    }
  });
}

}  // namespace

EA_RUN(SoftmaxForward, run_forward, x)
EA_RUN(SoftmaxBackward, run_backward, y)

}  // namespace ea::simd::EA_TARGET
