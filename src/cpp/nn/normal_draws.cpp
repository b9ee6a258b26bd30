// Draws normal numbers in loops without calls or branches, which compilers
// vectorise. AVX2 gives the same bits as every other instruction set, since no
// version uses fused multiply-add.
#include "nn/normal_draws.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "runtime/cpu_info.h"
#include "runtime/philox.h"

#define EA_INTO_LOOPS [[gnu::always_inline]] inline

namespace ea {

namespace {

// Horner's scheme, highest power first.
template <std::size_t N>
EA_INTO_LOOPS double polynomial(const std::array<double, N>& terms, double x) {
  double sum = terms[0];
  for (std::size_t i = 1; i < N; ++i) sum = sum * x + terms[i];
  return sum;
}

// artanh(s) / s - 1 = z (1/3 + z/5 + z^2/7 + ...), z = s^2 < 0.0295: to 1e-18.
constexpr std::array<double, 10> kArtanh = {
    1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
    1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};

// Taylor coefficients of cos(x) (first = 0) or sin(x) / x (first = 1) in x^2,
// to 1e-18 for |x| <= pi / 4.
constexpr std::array<double, 10> taylor(int first) {
  std::array<double, 10> terms{};
  double term = 1.0;
  for (int i = 0; i < 10; ++i) {
    terms[static_cast<std::size_t>(9 - i)] = term;
    const int n = 2 * i + first;
    term /= -1.0 * (n + 1) * (n + 2);
  }
  return terms;
}
constexpr auto kSine = taylor(1);
constexpr auto kCosine = taylor(0);

// log u, u in (2^-34, 1): u = 2^e m with m in [sqrt(1/2), sqrt(2)), and
// log m = 2 artanh((m - 1) / (m + 1)).
EA_INTO_LOOPS double logarithm(double u) {
  constexpr std::uint64_t kRoot = 0x3FE6A09E667F3BCD;  // the bits of sqrt(1/2)
  constexpr std::uint64_t kMantissa = 0x000FFFFFFFFFFFFF;
  const std::uint64_t above = std::bit_cast<std::uint64_t>(u) - kRoot;
  const double m = std::bit_cast<double>((above & kMantissa) + kRoot);
  // No vector instruction converts 64-bit integers before AVX-512, so e + 1024
  // is written into the low bits of 2^52.
  constexpr double kOnes = 4503599627370496.0;
  constexpr std::uint64_t kBias = 1024;
  const std::uint64_t biased = (above + (kBias << 52)) >> 52;
  const double e =
      std::bit_cast<double>(biased | std::bit_cast<std::uint64_t>(kOnes)) -
      (kOnes + static_cast<double>(kBias));
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  return e * std::numbers::ln2 + 2.0 * (s + s * z * polynomial(kArtanh, z));
}

// cos(2 pi v), v in (0, 1): v is split into whole quarter turns and an angle x.
EA_INTO_LOOPS double cosine_of_turns(double v) {
  constexpr double kWhole = 6755399441055744.0;  // 1.5 * 2^52: rounds to whole
  const double rounded = 4.0 * v + kWhole;
  const double x = (4.0 * v - (rounded - kWhole)) * (std::numbers::pi / 2);
  const double z = x * x;
  const auto sine = std::bit_cast<std::uint64_t>(x * polynomial(kSine, z));
  const auto cosine = std::bit_cast<std::uint64_t>(polynomial(kCosine, z));
  // After 0, 1, ..., 4 quarters: cos x, -sin x, -cos x, sin x, cos x.
  const auto quarters = std::bit_cast<std::uint64_t>(rounded);
  const std::uint64_t odd = 0 - (quarters & 1);
  const std::uint64_t sign = ((quarters + 1) & 2) << 62;
  return std::bit_cast<double>(((sine & odd) | (cosine & ~odd)) ^ sign);
}

template <std::size_t N>
EA_INTO_LOOPS void draw(const RandomState& s, std::uint64_t index,
                        double* out) {
  std::array<double, N> u;
  std::array<double, N> v;
  for (std::size_t j = 0; j < N; ++j) {
    const Philox4 bits = philox(s.seed, s.offset, index + j);
    u[j] = uniform_of(bits.v[0]);
    v[j] = uniform_of(bits.v[1]);
  }
  for (std::size_t j = 0; j < N; ++j) u[j] = -2.0 * logarithm(u[j]);
  for (std::size_t j = 0; j < N; ++j) v[j] = cosine_of_turns(v[j]);
  for (std::size_t j = 0; j < N; ++j) out[j] = std::sqrt(u[j]) * v[j];
}

[[gnu::target("avx2")]] void draw_avx2(const RandomState& s,
                                       std::uint64_t index, NormalBlock& out) {
  draw<kNormalBlock>(s, index, out.data());
}

}  // namespace

void draw_normals(const RandomState& s, std::uint64_t index, NormalBlock& out) {
  if (isa_used() >= Isa::avx2) return draw_avx2(s, index, out);
  draw<kNormalBlock>(s, index, out.data());
}

double draw_normal(const RandomState& s, std::uint64_t index) {
  double value;
  draw<1>(s, index, &value);
  return value;
}

}  // namespace ea
