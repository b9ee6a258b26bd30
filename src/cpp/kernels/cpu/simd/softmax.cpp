// SIMD masked softmax over keys, forward and backward (kernels/softmax.h).
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/math-inl.h"
#include "kernels/cpu/simd/targets.h"

namespace ea::simd::EA_TARGET {
namespace {

// Rows of all maps numbered through: those of sequence b begin here.
EA_INLINE std::int64_t rows_before(const MapLayout& layout, std::int64_t b) {
  return layout.heads * (layout.q_offsets[b] - layout.q_offsets[0]);
}

// Calls fn(sequence, element of the first cell, rows, keys) for runs of rows of
// one sequence, in jobs cut by rows: short sequences share a job.
template <typename Fn>
void for_map_rows(const MapLayout& layout, Fn&& fn) {
  if (layout.sequences == 0) return;
  const std::int64_t rows = rows_before(layout, layout.sequences);
  if (rows == 0 || layout.numel() == 0) return;
  const std::int64_t grain = items_per_job(ceil_div(layout.numel(), rows));
  parallel_chunks(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t b = 0, above = layout.sequences;  // rows_before(b) <= begin
    while (above - b > 1) {
      const std::int64_t middle = (b + above) / 2;
      (rows_before(layout, middle) <= begin ? b : above) = middle;
    }
    for (; begin < end; ++b) {
      const std::int64_t last = rows_before(layout, b + 1);
      const std::int64_t stop = last < end ? last : end;
      if (stop <= begin) continue;
      const std::int64_t row = begin - rows_before(layout, b);
      const std::int64_t keys = layout.n_k(b);
      fn(b, layout.begin(b) + row * keys, stop - begin, keys);
      begin = stop;
    }
  });
}

bool any_allowed(const std::uint8_t* mask, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    if (mask[j] != 0) return true;
  }
  return false;
}

struct NoMask {
  template <typename P>
  EA_INLINE Vf operator()(std::int64_t, P, Vf v, float) const {
    return v;
  }
};

struct KeyMask {
  const std::uint8_t* allowed;
  template <typename P>
  EA_INLINE Vf operator()(std::int64_t j, P part, Vf v, float other) const {
    return load_mask(allowed + j, part) ? v : set(other);
  }
};

// exps holds the row's exponentials between the passes; it may be y.
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
EA_INLINE void softmax_rows(const T* x, T* y, float* scratch, std::int64_t rows,
                            std::int64_t keys, float scale, Mask mask) {
  for (std::int64_t r = 0; r < rows; ++r, x += keys, y += keys) {
    if constexpr (sizeof(T) == sizeof(float)) {
      softmax_row(x, y, y, keys, scale, mask);
    } else {
      softmax_row(x, y, scratch, keys, scale, mask);
    }
  }
}

template <typename T>
void run_forward(const SoftmaxForward::Args& args) {
  const float scale = static_cast<float>(args.scale);
  for_map_rows(args.layout, [&](std::int64_t b, std::int64_t cell,
                                std::int64_t rows, std::int64_t keys) {
    const T* x = args.x.as<T>() + cell;
    T* y = args.y.as<T>() + cell;
    const Scratch scratch(sizeof(T) < sizeof(float) ? keys * 4 : 0);
    float* exps = scratch.as<float>();
    if (!args.key_mask.defined()) {
      return softmax_rows(x, y, exps, rows, keys, scale, NoMask{});
    }
    const std::uint8_t* mask =
        args.key_mask.as<std::uint8_t>() + (args.layout.k_offsets[b]);
    if (any_allowed(mask, keys)) {
      return softmax_rows(x, y, exps, rows, keys, scale, KeyMask{mask});
    }
    __builtin_memset(static_cast<void*>(y), 0,
                     static_cast<std::size_t>(rows * keys) * sizeof(T));
  });
}

template <typename T>
void run_backward(const SoftmaxBackward::Args& args) {
  const Vf scale = set(static_cast<float>(args.scale));
  for_map_rows(args.layout, [&](std::int64_t, std::int64_t cell,
                                std::int64_t rows, std::int64_t keys) {
    for (std::int64_t r = 0; r < rows; ++r, cell += keys) {
      const T* dy = args.dy.as<T>() + cell;
      const T* y = args.y.as<T>() + cell;
      T* dx = args.dx.as<T>() + cell;
      const Vf dot = set(sum_over(keys, [&](std::int64_t j, auto part) {
        return load(dy + j, part) * load(y + j, part);
      }));
      for_vectors(keys, [&](std::int64_t j, auto part) {
        const Vf g = load(dy + j, part) - dot;
        store(dx + j, scale * load(y + j, part) * g, part);
      });
    }
  });
}

}  // namespace

void softmax_forward(const SoftmaxForward::Args& args) {
  if (args.x.dtype == DType::bf16) return run_forward<bfloat16>(args);
  run_forward<float>(args);
}

void softmax_backward(const SoftmaxBackward::Args& args) {
  if (args.y.dtype == DType::bf16) return run_backward<bfloat16>(args);
  run_backward<float>(args);
}

}  // namespace ea::simd::EA_TARGET
