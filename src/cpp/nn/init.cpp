// Draws each element from Philox by its index, independent of the thread count.
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

// Every job draws its elements in order, from a copy of `draw`.
template <typename Draw>
void fill(const Tensor& t, const Draw& draw) {
  visit_floating(t.dtype(), "init", [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = t.data<T>();
    parallel_chunks(t.numel(), 1 << 14,
                    [&](std::int64_t begin, std::int64_t end) {
                      Draw mine = draw;
                      for (std::int64_t i = begin; i < end; ++i) {
                        if constexpr (std::is_same_v<T, bfloat16>) {
                          out[i] = bfloat16(static_cast<float>(mine(i)));
                        } else {
                          out[i] = static_cast<T>(mine(i));
                        }
                      }
                    });
  });
}

// Draws N(0, 1) for successive elements, in blocks that start at the first one.
class Normals {
 public:
  explicit Normals(RandomState stream) : stream_(stream) {}

  double operator()(std::int64_t element) {
    if (place_ == kNormalBlock) {
      draw_normals(stream_, static_cast<std::uint64_t>(element), block_);
      place_ = 0;
    }
    return block_[place_++];
  }

  // Redraws with the element's next counters until |value| <= 2.
  double truncated(std::int64_t element) {
    double value = (*this)(element);
    auto counter = static_cast<std::uint64_t>(element);
    while (std::abs(value) > 2.0) {
      counter += std::uint64_t{1} << 48;
      value = draw_normal(stream_, counter);
    }
    return value;
  }

 private:
  RandomState stream_;
  NormalBlock block_ = {};
  std::size_t place_ = kNormalBlock;
};

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
      return fill(
          t, [scale = init.scale, normals = Normals(next_random_stream(site))](
                 std::int64_t i) mutable { return scale * normals(i); });
    case Init::Kind::truncated_fan_in: {
      const double fan_in =
          static_cast<double>(t.numel()) / static_cast<double>(t.dim(0));
      const double deviation = std::sqrt(1.0 / fan_in) / kTruncation;
      return fill(t, [deviation, normals = Normals(next_random_stream(site))](
                         std::int64_t i) mutable {
        return deviation * normals.truncated(i);
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
