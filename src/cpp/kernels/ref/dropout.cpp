// Reference dropout (kernels/dropout.h).
#include "kernels/dropout.h"
#include "kernels/ref/dropout.h"
#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

template <typename T>
void dropout_of(const Dropout::Args& args) {
  const T* x = args.x.as<T>();
  T* y = args.y.as<T>();
  for (std::int64_t i = 0; i < args.x.numel(); ++i) {
    y[i] = dropped(x[i], i, args.p, args.seed, args.stream);
  }
}

}  // namespace

EA_RUN_REF(Dropout, dropout_of, x)

}  // namespace ea::ref
