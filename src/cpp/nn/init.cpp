// Draws each element from Philox by its index: the same for any thread count.
#include "nn/init.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "nn/normal_draws.h"
#include "runtime/check.h"
#include "runtime/philox.h"
#include "runtime/threads.h"

namespace ea {

namespace {

// Standard deviation of a normal distribution truncated at +-2.
constexpr double kTruncation = 0.87962566103423978;

template <typename T>
T rounded(double value) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return bfloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <typename Draw>
void fill(const Tensor& t, Draw&& draw) {
  visit_floating(t.dtype(), "init", [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = t.data<T>();
    parallel_chunks(t.numel(), 1 << 14,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t i = begin; i < end; ++i) {
                        out[i] = rounded<T>(draw(i));
                      }
                    });
  });
}

// The number of this counter, or of the next ones of the same element, until
// one is inside.
double truncated(double value, const RandomState& s, std::int64_t element) {
  auto counter = static_cast<std::uint64_t>(element);
  while (std::abs(value) > 2.0) {
    counter += std::uint64_t{1} << 48;
    value = draw_normal(s, counter);
  }
  return value;
}

enum class Tails { kept, truncated };  // at two standard deviations

void fill_normal(const Tensor& t, double deviation, Tails tails,
                 StreamSite site) {
  const RandomState s = next_random_stream(site);
  visit_floating(t.dtype(), "init", [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = t.data<T>();
    parallel_chunks(
        t.numel(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
          NormalBlock block;
          std::size_t place = kNormalBlock;
          for (std::int64_t i = begin; i < end; ++i, ++place) {
            if (place == kNormalBlock) {
              draw_normals(s, static_cast<std::uint64_t>(i), block);
              place = 0;
            }
            const double value = tails == Tails::kept
                                     ? block[place]
                                     : truncated(block[place], s, i);
            out[i] = rounded<T>(deviation * value);
          }
        });
  });
}

void fill_identity(const Tensor& t) {
  const std::int64_t taps = t.dim(2) * t.dim(3);
  const std::int64_t channels = t.dim(1);
  fill(t, [&](std::int64_t i) {
    const std::int64_t tap = i % taps;
    const std::int64_t in = i / taps % channels;
    const std::int64_t out = i / taps / channels;
    return tap == taps / 2 && in == out ? 1.0 : 0.0;
  });
}

void fill_row_norms(const Tensor& of, const Tensor& t) {
  const Tensor rows = cast(to_device(contiguous(of), kCpu), DType::f64);
  const std::int64_t width = of.numel() / of.dim(0);
  fill(t, [&](std::int64_t i) {
    const double* row = rows.data<double>() + i * width;
    double sum = 0.0;
    for (std::int64_t k = 0; k < width; ++k) sum += row[k] * row[k];
    return std::sqrt(sum);
  });
}

void fill_uniform(const Tensor& t, double bound, StreamSite site) {
  const RandomState s = next_random_stream(site);
  fill(t, [&](std::int64_t i) {
    const Philox4 bits =
        philox(s.seed, s.offset, static_cast<std::uint64_t>(i));
    return bound * (2.0 * uniform_of(bits.v[0]) - 1.0);
  });
}

void set_values(const Tensor& t, const Init& init, StreamSite site) {
  switch (init.kind) {
    case Init::Kind::zeros:
      return fill(t, [](std::int64_t) { return 0.0; });
    case Init::Kind::ones:
      return fill(t, [](std::int64_t) { return 1.0; });
    case Init::Kind::constant:
      return fill(t, [&init](std::int64_t) { return init.scale; });
    case Init::Kind::normal:
      return fill_normal(t, init.scale, Tails::kept, site);
    case Init::Kind::truncated_fan_in: {
      const double fan_in =
          static_cast<double>(t.numel()) / static_cast<double>(t.dim(0));
      const double deviation = std::sqrt(1.0 / fan_in) / kTruncation;
      return fill_normal(t, deviation, Tails::truncated, site);
    }
    case Init::Kind::uniform:
      return fill_uniform(t, init.scale, site);
    case Init::Kind::glorot:
      return fill_uniform(
          t, std::sqrt(6.0 / static_cast<double>(t.dim(0) + t.dim(1))), site);
    case Init::Kind::row_norms:
      return fill_row_norms(init.source.data(), t);
    case Init::Kind::identity_conv:
      return fill_identity(t);
    case Init::Kind::given:
      return copy_into(cast(init.values, t.dtype()), t);
  }
}

}  // namespace

void initialize(const Tensor& t, const Init& init, StreamSite site) {
  // Drawn on the CPU, so that every device starts with the same bits.
  const Tensor here = t.device().is_cpu() ? t : empty(t.shape(), t.dtype());
  set_values(here, init, site);
  if (!t.device().is_cpu()) copy_into(here, t);
  t.storage()->note_write();
}

}  // namespace ea
