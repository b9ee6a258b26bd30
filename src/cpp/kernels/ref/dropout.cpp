// Reference dropout: four elements share one Philox counter.
#include "kernels/ref/kernels.h"
#include "runtime/philox.h"

namespace ea::ref {

namespace {

template <typename T>
void dropout_of(const Dropout::Args& args) {
  using A = Accumulator<T>;
  const std::uint32_t threshold = dropout_threshold(args.p);
  const A scale = A(1 / (1 - args.p));
  const std::int64_t n = args.x.numel();
  const T* x = args.x.as<T>();
  T* y = args.y.as<T>();
  for (std::int64_t i = 0; i < n; ++i) {
    const auto counter = static_cast<std::uint64_t>(i / 4);
    const Philox4 words = philox(args.seed, args.stream, counter);
    y[i] = words.v[i % 4] >= threshold ? T(A(x[i]) * scale) : T(A(0));
  }
}

}  // namespace

void dropout(const Dropout::Args& args) {
  visit_floating(args.x.dtype, Dropout::name, [&](auto tag) {
    dropout_of<typename decltype(tag)::type>(args);
  });
}

}  // namespace ea::ref
