// Records the scalars of a step: loss and gradient scale, one thread each.
#include <cmath>

#include "kernels/cuda/run.h"
#include "kernels/cuda/vec.cuh"
#include "kernels/step_log.h"

namespace ea::cuda {

namespace {

constexpr int kThreads = 32;  // a block must be whole warps

template <typename T>
__global__ void __launch_bounds__(kThreads)
    record_kernel(const T* loss, double* total, double share) {
  if (threadIdx.x != 0) return;
  *total += share * static_cast<double>(static_cast<float>(*loss));
}

__global__ void __launch_bounds__(kThreads)
    scale_kernel(const double* loss, const double* sum, const double* previous,
                 double* scale, double max_norm) {
  if (threadIdx.x != 0) return;
  // 0 times a value that is not finite is NaN.
  const double spoiled =
      0.0 * *loss + 0.0 * *sum + (previous != nullptr ? 0.0 * *previous : 0.0);
  double value = 1.0;
  if (max_norm > 0.0) value = fmin(1.0, max_norm / (sqrt(*sum) + 1e-6));
  *scale = spoiled == 0.0 ? value : static_cast<double>(NAN);
}

template <typename T>
void record_loss_of(const RecordLoss::Args& args) {
  launch(current_stream(), 1, kThreads, 0, record_kernel<T>,
         args.loss.as<const T>(), args.total.as<double>(), args.share);
}

}  // namespace

EA_RUN_CUDA(RecordLoss, record_loss_of, loss)

template <>
void run<StepScale>(const StepScale::Args& args) {
  launch(current_stream(), 1, kThreads, 0, scale_kernel,
         args.loss.as<const double>(), args.sum_of_squares.as<const double>(),
         args.previous.as<const double>(), args.scale.as<double>(),
         args.max_norm);
}

}  // namespace ea::cuda
