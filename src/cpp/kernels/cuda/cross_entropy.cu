// Cross entropy with label smoothing and an ignored label: one block per row.
#include "kernels/cross_entropy.h"
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/run.h"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/vec.cuh"

namespace ea::cuda {

namespace {

constexpr int kThreads = 256;

struct Labels {
  const std::int64_t* data;
  std::int64_t ignore_index;
  float smoothing;
};

// Computes m and l of the row (kernels/cross_entropy.h) and the row's term of
// the loss (0 for ignored rows).
template <typename T>
__global__ void __launch_bounds__(kThreads)
    rows_kernel(const T* logits, Labels labels, float* sums, float* terms,
                std::int64_t classes, bool aligned) {
  EA_SHARED(float, partial, kWarp);
  const std::int64_t row = blockIdx.x;
  const T* x = logits + row * classes;
  constexpr int kStep = kThreads * kPack<T>;
  const auto first = static_cast<std::int64_t>(threadIdx.x) * kPack<T>;
  float v[kPack<T>];
  float largest = -INFINITY;
  for (std::int64_t i = first; i < classes; i += kStep) {
    load_pack(x + i, classes - i, aligned, v);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      if (i + k < classes) largest = fmaxf(largest, v[k]);
    }
  }
  largest = block_max(largest, partial);
  float total = 0.0f;
  float plain = 0.0f;
  for (std::int64_t i = first; i < classes; i += kStep) {
    load_pack(x + i, classes - i, aligned, v);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      const float below = i + k < classes ? v[k] - largest : -INFINITY;
      total += expf(below);
      plain += i + k < classes ? below : 0.0f;
    }
  }
  total = block_sum(total, partial);
  plain = block_sum(plain, partial);
  if (threadIdx.x != 0) return;
  const float l = logf(total);
  sums[2 * row] = largest;
  sums[2 * row + 1] = l;
  const std::int64_t label = labels.data[row];
  if (label == labels.ignore_index) {
    terms[row] = 0.0f;
    return;
  }
  const float mean = plain / static_cast<float>(classes);
  const float below = static_cast<float>(x[label]) - largest;
  const float smoothed =  // 0 times the mean may be 0 times inf
      labels.smoothing == 0.0f ? 0.0f : labels.smoothing * (l - mean);
  terms[row] = (1.0f - labels.smoothing) * (l - below) + smoothed;
}

// Returns, to all threads of one block, the number of rows that count.
__device__ inline float count_rows(const Labels& labels, std::int64_t rows) {
  EA_SHARED(int, partial, kWarp);
  int mine = 0;
  for (std::int64_t i = threadIdx.x; i < rows; i += kThreads) {
    mine += labels.data[i] != labels.ignore_index ? 1 : 0;
  }
  return static_cast<float>(block_sum(mine, partial));
}

// loss = sum of the terms / rows that count; 0 / 0 if there are none.
__global__ void __launch_bounds__(kThreads)
    loss_kernel(Labels labels, const float* terms, float* loss,
                std::int64_t rows) {
  EA_SHARED(float, partial, kWarp);
  float total = 0.0f;
  for (std::int64_t i = threadIdx.x; i < rows; i += kThreads) total += terms[i];
  total = block_sum(total, partial);
  const float n = count_rows(labels, rows);
  if (threadIdx.x == 0) *loss = total / n;
}

// scale = dloss / rows that count.
template <typename L>
__global__ void __launch_bounds__(kThreads)
    scale_kernel(Labels labels, const L* dloss, float* scale,
                 std::int64_t rows) {
  const float n = count_rows(labels, rows);
  if (threadIdx.x == 0) *scale = static_cast<float>(*dloss) / n;
}

// dx_c = scale (exp(x_c - m - l) - target_c); one block per row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const T* logits, Labels labels, const float* sums,
                    const float* scale, T* dlogits, std::int64_t classes,
                    bool aligned) {
  const std::int64_t row = blockIdx.x;
  const T* x = logits + row * classes;
  T* dx = dlogits + row * classes;
  const std::int64_t label = labels.data[row];
  const bool ignored = label == labels.ignore_index;
  const float largest = sums[2 * row];
  const float l = sums[2 * row + 1];
  const float factor = *scale;
  const float rest = labels.smoothing / static_cast<float>(classes);
  for (std::int64_t i = static_cast<std::int64_t>(threadIdx.x) * kPack<T>;
       i < classes; i += kThreads * kPack<T>) {
    float v[kPack<T>];
    load_pack(x + i, classes - i, aligned, v);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      const float target =
          (i + k == label ? 1.0f - labels.smoothing : 0.0f) + rest;
      v[k] = ignored ? 0.0f : factor * (expf(v[k] - largest - l) - target);
    }
    store_pack(dx + i, classes - i, aligned, v);
  }
}

Labels labels_of(const auto& args) {
  return {args.labels.template as<const std::int64_t>(), args.ignore_index,
          static_cast<float>(args.label_smoothing)};
}

}  // namespace

template <>
void run<CrossEntropyForward>(const CrossEntropyForward::Args& args) {
  const std::int64_t rows = args.logits.dim(0);
  const std::int64_t classes = args.logits.dim(1);
  const Labels labels = labels_of(args);
  const Scratch<float> terms(current_stream(), rows);
  visit_narrow(args.logits.dtype, CrossEntropyForward::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = args.logits.as<const T>();
    launch(current_stream(), blocks_for(rows, 1), kThreads, 0, rows_kernel<T>,
           x, labels, args.sums.as<float>(), terms.data(), classes,
           packs_aligned(x, classes));
  });
  launch(current_stream(), 1, kThreads, 0, loss_kernel, labels, terms.data(),
         args.loss.as<float>(), rows);
}

template <>
void run<CrossEntropyBackward>(const CrossEntropyBackward::Args& args) {
  const std::int64_t rows = args.logits.dim(0);
  const std::int64_t classes = args.logits.dim(1);
  const Labels labels = labels_of(args);
  const Scratch<float> scale(current_stream(), 1);
  visit_floating(args.dloss.dtype, CrossEntropyBackward::name, [&](auto tag) {
    using L = typename decltype(tag)::type;
    launch(current_stream(), 1, kThreads, 0, scale_kernel<L>, labels,
           args.dloss.as<const L>(), scale.data(), rows);
  });
  visit_narrow(args.logits.dtype, CrossEntropyBackward::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = args.logits.as<const T>();
    T* dx = args.dlogits.as<T>();
    launch(current_stream(), blocks_for(rows, 1), kThreads, 0,
           backward_kernel<T>, x, labels, args.sums.as<const float>(),
           scale.data(), dx, classes,
           packs_aligned(x, classes) && packs_aligned(dx));
  });
}

}  // namespace ea::cuda
