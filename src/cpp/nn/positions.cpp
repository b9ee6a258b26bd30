// Computes the table of sines and cosines in double precision, on first use.
#include "nn/positions.h"

#include <array>
#include <cmath>

#include "ops/gather.h"

namespace ea {

namespace {

constexpr double kBase = 10000.0;
constexpr std::int64_t kFirstRows = 64;

Tensor table_of(std::int64_t rows, std::int64_t width) {
  const Tensor table = empty({rows, width}, DType::f64);
  auto* out = table.data<double>();
  for (std::int64_t column = 0; column < width; ++column) {
    const double exponent =
        static_cast<double>(column - column % 2) / static_cast<double>(width);
    const double rate = std::pow(kBase, -exponent);
    for (std::int64_t t = 0; t < rows; ++t) {
      const double angle = static_cast<double>(t) * rate;
      out[t * width + column] =
          column % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  }
  return table;
}

}  // namespace

Tensor SinusoidalPositions::table(std::int64_t rows, Device device) const {
  const std::lock_guard lock(*growing_);
  if (!table_.defined() || table_.dim(0) < rows) {
    std::int64_t size = table_.defined() ? table_.dim(0) : kFirstRows;
    while (size < rows) size *= 2;
    table_ = cast(table_of(size, width_), dtype_);
  }
  if (table_.device() != device) table_ = to_device(table_, device);
  return table_;
}

Var SinusoidalPositions::at(std::int64_t t, Device device) const {
  return gather_rows(Var(table(t + 1, device)),
                     from_values(std::array<std::int64_t, 1>{t}));
}

Var SinusoidalPositions::operator()(const Packing& packing,
                                    Device device) const {
  return gather_rows(Var(table(packing.longest_query(), device)),
                     from_values(positions_of(packing.q_offsets())));
}

}  // namespace ea
