// SIMD counter-based dropout (kernels/dropout.h).
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/philox-inl.h"
#include "kernels/cpu/simd/targets.h"
#include "runtime/philox.h"

namespace ea::simd::EA_TARGET {
namespace {

template <typename T>
void run_dropout(const Dropout::Args& args) {
  static_assert(kGrain % kPhiloxWords == 0, "chunks begin at a counter");
  const Vf scale = set(static_cast<float>(1.0 / (1.0 - args.p)));
  const Vu threshold = Vu{} + dropout_threshold(args.p);
  PhiloxKeys keys;
  make_philox_keys(args.seed, args.stream, keys);
  const T* x = args.x.as<T>();
  T* y = args.y.as<T>();
  const auto drop = [&](std::int64_t i, Vu words, auto part) {
    const Vf v = load(x + i, part) * scale;
    store(y + i, words >= threshold ? v : set(0.0f), part);
  };
  parallel_chunks(args.x.numel(), kGrain,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; i += kPhiloxWords) {
                      const PhiloxWords words =
                          philox_words(keys, static_cast<std::uint64_t>(i) / 4);
                      const std::int64_t left = end - i;
                      if (left >= kPhiloxWords) {
                        drop(i, words.first, Full{});
                        drop(i + kLanes, words.second, Full{});
                      } else if (left <= kLanes) {
                        drop(i, words.first, Part(left));
                      } else {
                        drop(i, words.first, Full{});
                        drop(i + kLanes, words.second, Part(left - kLanes));
                      }
                    }
                  });
}

}  // namespace

void dropout(const Dropout::Args& args) {
  if (args.x.dtype == DType::bf16) return run_dropout<bfloat16>(args);
  run_dropout<float>(args);
}

}  // namespace ea::simd::EA_TARGET
