// Learned relative positions (Shaw et al., 2018), one table for all heads:
// S_ij += q_i . r_{j - i} / sqrt(d).
#include "nn/attention/bias/relative.h"

#include <cmath>

#include "ops/arithmetic.h"
#include "ops/gather.h"
#include "ops/linear.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"

namespace ea {

namespace {

class RelativeBias final : public Bias {
 public:
  RelativeBias(std::int64_t max_length, std::int64_t head_width, DType dtype)
      : max_length_(max_length),
        head_width_(head_width),
        table_(add_parameter("relative_positions",
                             {2 * max_length - 1, head_width}, dtype,
                             Init::normal(1.0 / std::sqrt(head_width)))) {}

  Var add(const Var& logits, const Var& q,
          const AttentionContext& context) const override {
    const Packing& packing = *context.packing;
    const std::int64_t longest = packing.longest_query();
    EA_CHECK_AS(InputError, longest <= max_length_, "relative_positions",
                "a sequence has {} steps, more than max_length {}", longest,
                max_length_);
    // Distances 1 - longest .. longest - 1 are the middle of the table.
    const std::int64_t width = 2 * longest - 1;
    const Var near =
        slice(table_, 0, max_length_ - longest, max_length_ - longest + width);
    const std::int64_t rows = q.dim(0) * packing.heads();
    const Var by_distance =
        scale(linear(reshape(q, {rows, head_width_}), near),
              1.0 / std::sqrt(static_cast<double>(head_width_)));
    const Var cells = gather_rows(reshape(by_distance, {rows * width, 1}),
                                  cells_of(packing, longest));
    return ea::add(logits, reshape(cells, logits.shape()));
  }

 private:
  // For each cell (h, i, j) of the flat maps, where its distance's product lies
  // in [tokens, heads, distances].
  static Tensor cells_of(const Packing& packing, std::int64_t longest) {
    const std::int64_t heads = packing.heads();
    const std::int64_t width = 2 * longest - 1;
    std::vector<std::int64_t> index;
    index.reserve(static_cast<std::size_t>(packing.map_elements()));
    for (std::int64_t b = 0; b < packing.sequences(); ++b) {
      const auto at = static_cast<std::size_t>(b);
      const std::int64_t begin = packing.q_offsets()[at];
      const std::int64_t n = packing.q_offsets()[at + 1] - begin;
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t i = 0; i < n; ++i) {
          const std::int64_t row = (begin + i) * heads + h;
          for (std::int64_t j = 0; j < n; ++j) {
            index.push_back(row * width + j - i + longest - 1);
          }
        }
      }
    }
    return from_values(index);
  }

  std::int64_t max_length_, head_width_;
  Var table_;
};

}  // namespace

std::unique_ptr<Bias> make_relative_bias(std::int64_t max_length,
                                         std::int64_t head_width, DType dtype) {
  return std::make_unique<RelativeBias>(max_length, head_width, dtype);
}

}  // namespace ea
