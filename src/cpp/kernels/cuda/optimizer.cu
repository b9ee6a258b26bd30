// AdamW and RAdam over many tensors at once: one launch updates as many as
// their descriptions fit into a kernel's parameters.
#include <vector>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/vec.cuh"
#include "kernels/optimizer_numbers.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kChunk = 8192;  // elements of one block

template <typename T>
struct One {
  T* param;
  const T* grad;
  float *exp_avg, *exp_avg_sq, *master;
  const std::int64_t* rows;  // or null: those that `grad` has
  std::int64_t numel, n_rows, width;
  float shrink, decay, rate;  // as kernels/optimizer_numbers.h has them
  int number;                 // of its row, where these are on the device
  bool aligned;
};

// At most 4 KB.
template <typename T>
struct Batch {
  static constexpr int kMost = 32;
  One<T> all[kMost];
  unsigned first_block[kMost + 1];
  int count = 0;
};

struct Coefficients {
  float one_minus_beta1, beta2, one_minus_beta2, eps;
  double grad_scale;
  const double* scale;  // or null
  float root_correction2;
  bool rectified;
  const float *numbers, *last;  // rows on the device, or null
};

// What the step does to one tensor.
struct Numbers {
  float shrink, decay, rate, root_correction2;
  bool rectified;
};

template <typename T>
__device__ inline Numbers numbers_for(const One<T>& one,
                                      const Coefficients& c) {
  if (c.numbers == nullptr) {
    return {one.shrink, one.decay, one.rate, c.root_correction2, c.rectified};
  }
  const float* const row = c.numbers + 3 * std::int64_t{one.number};
  return {row[0], row[1], row[2], c.last[0], c.last[1] != 0.0f};
}

// The gradient g of a parameter x, and its next value from the new moments:
// kernels/optimizer.h has the formulas.
struct AdamWRule {
  using Args = AdamW::Args;
  static __device__ float gradient(const Numbers&, float g, float) { return g; }
  static __device__ float next(const Numbers& n, float x, float m, float v,
                               float eps) {
    return x * n.shrink - n.rate * m / (sqrtf(v) / n.root_correction2 + eps);
  }
};

struct RAdamRule {
  using Args = RAdam::Args;
  static __device__ float gradient(const Numbers& n, float g, float x) {
    return g + n.decay * x;
  }
  static __device__ float next(const Numbers& n, float x, float m, float v,
                               float eps) {
    const float direction = n.rectified ? m / (sqrtf(v) + eps) : m;
    return x * n.shrink - n.rate * direction;
  }
};

// count floats from p on into a pack of N, in loads of four.
template <int N>
__device__ inline void load_floats(const float* p, std::int64_t count,
                                   bool aligned, float (&out)[N]) {
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    float four[4];
    load_pack(p + i, count - i, aligned, four);
#pragma unroll
    for (int k = 0; k < 4; ++k) out[i + k] = four[k];
  }
}

template <int N>
__device__ inline void store_floats(float* p, std::int64_t count, bool aligned,
                                    const float (&in)[N]) {
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    const float four[4] = {in[i], in[i + 1], in[i + 2], in[i + 3]};
    store_pack(p + i, count - i, aligned, four);
  }
}

// The gradient of elements i .. i + count; of rows without one it is zero.
template <typename T>
__device__ inline void load_gradient(const One<T>& one, std::int64_t i,
                                     std::int64_t count, float (&g)[kPack<T>]) {
  if (one.rows == nullptr)
    return load_pack(one.grad + i, count, one.aligned, g);
  std::int64_t row = -1, place = -1;
#pragma unroll
  for (int k = 0; k < kPack<T>; ++k) {
    g[k] = 0.0f;
    if (k >= count) continue;
    if ((i + k) / one.width != row) {
      row = (i + k) / one.width;
      std::int64_t low = 0, high = one.n_rows;
      while (low < high) {
        const std::int64_t middle = (low + high) / 2;
        if (one.rows[middle] < row) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      place = low < one.n_rows && one.rows[low] == row ? low : -1;
    }
    if (place >= 0) {
      g[k] = static_cast<float>(
          one.grad[place * one.width + i + k - row * one.width]);
    }
  }
}

template <typename Rule, typename T>
__device__ inline void update(const One<T>& one, const Coefficients& c,
                              float grad_scale, std::int64_t i,
                              std::int64_t count) {
  constexpr int kN = kPack<T>;
  float g[kN], m[kN], v[kN], x[kN];
  load_gradient(one, i, count, g);
  load_floats(one.exp_avg + i, count, one.aligned, m);
  load_floats(one.exp_avg_sq + i, count, one.aligned, v);
  if (one.master != nullptr) {
    load_floats(one.master + i, count, one.aligned, x);
  } else {
    load_pack(one.param + i, count, one.aligned, x);
  }
  // Read again for each pack: they are in the nearest cache, and kept across
  // the loop they would be a few registers too many.
  const Numbers n = numbers_for(one, c);
#pragma unroll
  for (int k = 0; k < kN; ++k) {
    g[k] = Rule::gradient(n, g[k] * grad_scale, x[k]);
    m[k] += c.one_minus_beta1 * (g[k] - m[k]);
    v[k] = c.beta2 * v[k] + c.one_minus_beta2 * g[k] * g[k];
    x[k] = Rule::next(n, x[k], m[k], v[k], c.eps);
  }
  store_floats(one.exp_avg + i, count, one.aligned, m);
  store_floats(one.exp_avg_sq + i, count, one.aligned, v);
  if (one.master != nullptr) {
    store_floats(one.master + i, count, one.aligned, x);
  }
  store_pack(one.param + i, count, one.aligned, x);
}

template <typename Rule, typename T>
__global__ void __launch_bounds__(kThreads)
    update_kernel(Batch<T> batch, Coefficients c) {
  const double scale = c.scale != nullptr ? *c.scale : 1.0;
  if (0.0 * scale != 0.0) return;  // NaN or infinite
  const float grad_scale = static_cast<float>(c.grad_scale * scale);
  int which = 0;
  while (blockIdx.x >= batch.first_block[which + 1]) ++which;
  const One<T>& one = batch.all[which];
  const std::int64_t begin =
      std::int64_t{blockIdx.x - batch.first_block[which]} * kChunk;
  const std::int64_t end =
      begin + kChunk < one.numel ? begin + kChunk : one.numel;
  for (std::int64_t i = begin + threadIdx.x * kPack<T>; i < end;
       i += kThreads * kPack<T>) {
    update<Rule>(one, c, grad_scale, i, end - i);
  }
}

template <typename T>
One<T> described(const StepNumbers& step, const AdamWTensor& t) {
  const TensorNumbers own = step.of(t.lr, t.weight_decay);
  One<T> one{t.param.as<T>(),
             t.grad.as<const T>(),
             t.exp_avg.as<float>(),
             t.exp_avg_sq.as<float>(),
             t.master.as<float>(),
             t.rows.as<const std::int64_t>(),
             t.param.numel(),
             t.rows.defined() ? t.rows.numel() : 0,
             t.rows.defined() ? t.param.dim(1) : 0,
             static_cast<float>(own.shrink),
             static_cast<float>(own.decay),
             static_cast<float>(own.rate),
             static_cast<int>(t.number),
             false};
  one.aligned = packs_aligned(one.param) && packs_aligned(one.grad) &&
                packs_aligned(one.exp_avg) && packs_aligned(one.exp_avg_sq) &&
                packs_aligned(one.master);
  return one;
}

// The tensors of dtype T, in their order.
template <typename Rule, typename T>
void update_tensors(const typename Rule::Args& args) {
  const StepNumbers step = numbers_of(args);
  const auto* numbers = args.numbers.template as<const float>();
  const Coefficients c{
      static_cast<float>(1.0 - args.beta1),
      static_cast<float>(args.beta2),
      static_cast<float>(1.0 - args.beta2),
      static_cast<float>(args.eps),
      args.grad_scale,
      args.scale.template as<const double>(),
      static_cast<float>(step.root_correction2),
      step.rectified(),
      numbers,
      numbers != nullptr ? numbers + 3 * (args.numbers.dim(0) - 1) : nullptr};
  Batch<T> batch;
  batch.first_block[0] = 0;
  const auto flush = [&] {
    launch(current_stream(), batch.first_block[batch.count], kThreads, 0,
           update_kernel<Rule, T>, batch, c);
    batch.count = 0;
  };
  for (const AdamWTensor& t : *args.tensors) {
    if (t.param.dtype != dtype_of<T>() || t.param.numel() == 0) continue;
    batch.all[batch.count] = described<T>(step, t);
    batch.first_block[batch.count + 1] =
        batch.first_block[batch.count] + blocks_for(t.param.numel(), kChunk);
    if (++batch.count == Batch<T>::kMost) flush();
  }
  flush();
}

template <typename Rule>
void update_all(const typename Rule::Args& args) {
  update_tensors<Rule, float>(args);
  update_tensors<Rule, bfloat16>(args);
}

}  // namespace

void adamw(const AdamW::Args& args) { update_all<AdamWRule>(args); }

void radam(const RAdam::Args& args) { update_all<RAdamRule>(args); }

}  // namespace ea::cuda
