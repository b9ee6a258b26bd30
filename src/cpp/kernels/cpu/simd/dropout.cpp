// SIMD counter-based dropout (kernels/dropout.h).
#include "kernels/dropout.h"
#include "kernels/cpu/simd/dropout-inl.h"
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

template <typename T>
void run_dropout(const Dropout::Args& args) {
  static_assert(kGrain % kPhiloxWords == 0, "chunks begin at a counter");
  Drop drop;
  make_drop(args.p, args.seed, args.stream, drop);
  const T* x = args.x.as<T>();
  T* y = args.y.as<T>();
  parallel_chunks(args.x.numel(), kGrain,
                  [&](std::int64_t begin, std::int64_t end) {
                    drop_run(drop, x + begin, y + begin, begin, end - begin);
                  });
}

}  // namespace

EA_RUN(Dropout, run_dropout, x)

}  // namespace ea::simd::EA_TARGET
