// Draws each element from Philox by its index: the same for any thread count.
#include "nn/init.h"

#include <cmath>
#include <numbers>

#include "runtime/check.h"
#include "runtime/philox.h"
#include "runtime/threads.h"

namespace ea {

namespace {

// Standard deviation of a normal distribution truncated at +-2.
constexpr double kTruncation = 0.87962566103423978;

double uniform(std::uint32_t word) {  // in (0, 1)
  return (static_cast<double>(word) + 0.5) / 4294967296.0;
}

double normal(const RandomState& s, std::uint64_t index) {
  const Philox4 bits = philox(s.seed, s.offset, index);
  return std::sqrt(-2.0 * std::log(uniform(bits.v[0]))) *
         std::cos(2.0 * std::numbers::pi * uniform(bits.v[1]));
}

// Draws again, with the next counters of the same element, until inside.
double truncated_normal(const RandomState& s, std::uint64_t index) {
  for (std::uint64_t attempt = 0;; ++attempt) {
    const double value = normal(s, index | attempt << 48);
    if (std::abs(value) <= 2.0) return value;
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
                        if constexpr (std::is_same_v<T, bfloat16>) {
                          out[i] = bfloat16(static_cast<float>(draw(i)));
                        } else {
                          out[i] = static_cast<T>(draw(i));
                        }
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
    return bound * (2.0 * uniform(bits.v[0]) - 1.0);
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
    case Init::Kind::normal: {
      const RandomState s = next_random_stream(site);
      return fill(t, [&](std::int64_t i) {
        return init.scale * normal(s, static_cast<std::uint64_t>(i));
      });
    }
    case Init::Kind::truncated_fan_in: {
      const RandomState s = next_random_stream(site);
      const double fan_in =
          static_cast<double>(t.numel()) / static_cast<double>(t.dim(0));
      const double deviation = std::sqrt(1.0 / fan_in) / kTruncation;
      return fill(t, [&](std::int64_t i) {
        return deviation * truncated_normal(s, static_cast<std::uint64_t>(i));
      });
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
