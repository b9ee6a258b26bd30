// Learned relative positions of pixels (Bello et al., 2019), with two tables
// shared by all heads:
// S_ij += q_i . (a_{row(j) - row(i)} + b_{column(j) - column(i)}) / sqrt(d).
#include <cmath>

#include "nn/attention/registry.h"
#include "ops/arithmetic.h"
#include "ops/linear.h"
#include "ops/relative_2d.h"
#include "ops/shape_ops.h"

namespace ea {

namespace {

// The tokens of a sequence are the pixels of an image, row by row. The tables a
// [2 height - 1, d] and b [2 width - 1, d] cover the distances from query to
// key; row distances of `height` or more are clipped.
class Relative2dBias final : public Bias {
 public:
  Relative2dBias(std::int64_t height, std::int64_t width, const SlotSite& site)
      : head_width_(site.head_key_width),
        rows_(add_table("relative_height", height, site.dtype)),
        columns_(add_table("relative_width", width, site.dtype)) {}

  Var map(const Var& q, const AttentionContext& context) const override {
    const PackingPtr& maps = context.maps;
    const Var heads = scale(reshape(q, {q.dim(0) * maps->heads(), head_width_}),
                            1.0 / std::sqrt(static_cast<double>(head_width_)));
    return relative_2d(linear(heads, rows_), linear(heads, columns_), maps);
  }

 private:
  Var add_table(const char* name, std::int64_t side, DType dtype) {
    return add_parameter(
        name, {2 * side - 1, head_width_}, dtype,
        Init::normal(1.0 / std::sqrt(static_cast<double>(head_width_))));
  }

  std::int64_t head_width_;
  Var rows_, columns_;
};

constexpr double kLongestSide = 1 << 16;

const Register<Bias> kRelative2d({
    "relative_2d",
    "Bello et al., ICCV 2019",
    {
        {.name = "height",
         .type = "int",
         .low = 1,
         .high = kLongestSide,
         .doc = "rows of pixels"},
        {.name = "width",
         .type = "int",
         .low = 1,
         .high = kLongestSide,
         .doc = "columns of pixels: token t of a sequence is pixel (t / width, "
                "t mod width)"},
    },
    [](const Options& options, const SlotSite& site) {
      return std::make_unique<Relative2dBias>(options.integer("height"),
                                              options.integer("width"), site);
    },
});

}  // namespace

}  // namespace ea
