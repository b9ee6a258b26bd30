// SIMD AdamW in one pass over all tensors (kernels/optimizer.h).
#include <cmath>

#include "kernels/cpu/simd/pieces-inl.h"
#include "kernels/cpu/simd/targets.h"

namespace ea::simd::EA_TARGET {
namespace {

// What is the same for all elements of a tensor.
struct Step {
  Vf decay;    // 1 - lr wd
  Vf rate;     // lr / (1 - b1^t)
  Vf root;     // 1 / sqrt(1 - b2^t)
  Vf b1_rest;  // 1 - b1
  Vf b2, b2_rest, eps, grad_scale;
};

Step make_step(const AdamW::Args& args, const AdamWTensor& tensor) {
  const auto t = static_cast<double>(args.step);
  const auto f = [](double x) { return set(static_cast<float>(x)); };
  return {f(1.0 - tensor.lr * tensor.weight_decay),
          f(tensor.lr / (1.0 - std::pow(args.beta1, t))),
          f(1.0 / std::sqrt(1.0 - std::pow(args.beta2, t))),
          f(1.0 - args.beta1),
          f(args.beta2),
          f(1.0 - args.beta2),
          f(args.eps),
          f(args.grad_scale)};
}

// `value` is what is updated: the parameter itself, or its float32 master. The
// gradient is zero where there is none.
template <bool HasGrad, typename T>
void update(const Step& step, T* param, const T* grad, float* value, float* m,
            float* v, std::int64_t n) {
  for_vectors(n, [&](std::int64_t i, auto part) {
    Vf g = set(0.0f);
    if constexpr (HasGrad) g = load(grad + i, part) * step.grad_scale;
    const Vf old_m = load(m + i, part);
    const Vf new_m = fma(step.b1_rest, g - old_m, old_m);
    const Vf new_v = fma(step.b2_rest * g, g, step.b2 * load(v + i, part));
    const Vf denominator = fma(sqrt(new_v), step.root, step.eps);
    const Vf x = fnma(step.rate, new_m / denominator,
                      load(value + i, part) * step.decay);
    store(m + i, new_m, part);
    store(v + i, new_v, part);
    store(value + i, x, part);
    if constexpr (sizeof(T) != sizeof(float)) store(param + i, x, part);
  });
}

// n elements from `at` on; their gradient, or none, which is zero.
template <typename T>
void update_span(const Step& step, const AdamWTensor& tensor, const T* grad,
                 std::int64_t at, std::int64_t n) {
  T* param = tensor.param.as<T>() + at;
  float* value;
  if constexpr (sizeof(T) == sizeof(float)) {
    value = param;
  } else {
    value = tensor.master.as<float>() + at;
  }
  float* m = tensor.exp_avg.as<float>() + at;
  float* v = tensor.exp_avg_sq.as<float>() + at;
  if (grad != nullptr) {
    update<true>(step, param, grad, value, m, v, n);
  } else {
    update<false>(step, param, grad, value, m, v, n);
  }
}

// The first of `count` increasing numbers that is not below `row`.
std::int64_t first_from(const std::int64_t* rows, std::int64_t count,
                        std::int64_t row) {
  std::int64_t low = 0;
  while (low < count) {
    const std::int64_t middle = (low + count) / 2;
    if (rows[middle] < row) {
      low = middle + 1;
    } else {
      count = middle;
    }
  }
  return low;
}

template <typename T>
void run_piece(const AdamW::Args& args, const AdamWTensor& tensor,
               const Piece& piece) {
  const Step step = make_step(args, tensor);
  const T* grad = tensor.grad.as<T>();
  std::int64_t at = piece.begin;
  if (!tensor.rows.defined()) {
    return update_span(step, tensor, grad + at, at, piece.end - at);
  }
  // In turn: what lies before the next listed row, and that row.
  const std::int64_t width = tensor.param.shape[1];
  const std::int64_t count = tensor.rows.shape[0];
  const std::int64_t* rows = tensor.rows.as<std::int64_t>();
  const T* const none = nullptr;
  std::int64_t k = first_from(rows, count, at / width);
  while (at < piece.end) {
    const std::int64_t row = k < count ? rows[k] * width : piece.end;
    if (at < row) {
      const std::int64_t end = row < piece.end ? row : piece.end;
      update_span(step, tensor, none, at, end - at);
      at = end;
    } else {
      const std::int64_t end =
          row + width < piece.end ? row + width : piece.end;
      update_span(step, tensor, grad + k * width + (at - row), at, end - at);
      at = end;
      ++k;
    }
  }
}

}  // namespace

void adamw(const AdamW::Args& args) {
  const AdamWTensor* tensors = args.tensors->data();
  const auto count = static_cast<std::int64_t>(args.tensors->size());
  std::int64_t total = 0;
  for (std::int64_t t = 0; t < count; ++t) {
    total += piece_count(tensors[t].param.numel());
  }
  const Scratch scratch(total * static_cast<std::int64_t>(sizeof(Piece)));
  Piece* pieces = scratch.as<Piece>();
  Piece* out = pieces;
  for (std::int64_t t = 0; t < count; ++t) {
    out = cut(t, tensors[t].param.numel(), out);
  }
  parallel_for(total, [&](std::int64_t job) {
    const Piece& piece = pieces[job];
    const AdamWTensor& tensor = tensors[piece.tensor];
    if (tensor.param.dtype == DType::bf16) {
      run_piece<bfloat16>(args, tensor, piece);
    } else {
      run_piece<float>(args, tensor, piece);
    }
  });
}

}  // namespace ea::simd::EA_TARGET
