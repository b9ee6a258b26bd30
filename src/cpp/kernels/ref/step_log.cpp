// Reference for recording a step's loss and computing its gradient scale.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ref/run.h"
#include "kernels/step_log.h"

namespace ea::ref {

template <>
void run<RecordLoss>(const RecordLoss::Args& args) {
  visit_floating(args.loss.dtype, RecordLoss::name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto loss = static_cast<Accumulator<T>>(*args.loss.as<T>());
    *args.total.as<double>() += args.share * static_cast<double>(loss);
  });
}

template <>
void run<StepScale>(const StepScale::Args& args) {
  const double loss = *args.loss.as<double>();
  const double sum = *args.sum_of_squares.as<double>();
  const double previous =
      args.previous.defined() ? *args.previous.as<double>() : 1.0;
  double scale = 1.0;
  if (!std::isfinite(loss) || !std::isfinite(sum) || !std::isfinite(previous)) {
    scale = std::numeric_limits<double>::quiet_NaN();
  } else if (args.max_norm > 0) {
    scale = std::min(1.0, args.max_norm / (std::sqrt(sum) + 1e-6));
  }
  *args.scale.as<double>() = scale;
}

}  // namespace ea::ref
