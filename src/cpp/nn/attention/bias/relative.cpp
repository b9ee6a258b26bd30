// Learned relative positions (Shaw et al., 2018), one table for all heads:
// S_ij += q_i . r_{j - i} / sqrt(d).
#include <algorithm>
#include <cmath>

#include "autograd/grad_mode.h"
#include "nn/attention/registry.h"
#include "ops/arithmetic.h"
#include "ops/gemm.h"
#include "ops/linear.h"
#include "ops/relative_cells.h"
#include "ops/shape_ops.h"

namespace ea {

namespace {

// The table R [2 D + 1, head width] covers the distances -D .. D from query to
// key; larger ones are clipped. With `values`, a table R' adds to the context:
// y_i += sum_j P_ij r'_{j - i}.
class RelativeBias final : public Bias {
 public:
  RelativeBias(std::int64_t max_distance, bool values, const SlotSite& site)
      : max_distance_(max_distance),
        head_width_(site.head_key_width),
        table_(add_table("relative_positions", head_width_, site.dtype)) {
    if (!values) return;
    values_ = add_table("relative_values", site.head_value_width, site.dtype);
  }

  Var map(const Var& q, const AttentionContext& context) const override {
    const PackingPtr& maps = context.maps;
    const std::int64_t rows = q.dim(0) * maps->heads();
    const Var by_distance =
        scale(linear(reshape(q, {rows, head_width_}), near(table_, *maps)),
              1.0 / std::sqrt(static_cast<double>(head_width_)));
    return relative_cells(by_distance, maps);
  }

  bool has_values() const override { return values_.defined(); }

  Var mix(const Var& mixed, const Var& probabilities,
          const AttentionContext& context) const override {
    if (!has_values()) return mixed;
    // Without gradients, products sum whole blocks of rows of the table, so
    // that a sequence has the same bits next to longer ones.
    const Var table = near(values_, *context.maps, grad_enabled() ? 1 : kBlock);
    const Var sums =
        relative_sums(probabilities, context.maps, table.dim(0) / 2);
    return add(mixed, reshape(matmul(sums, table), mixed.shape()));
  }

 private:
  Var add_table(const char* name, std::int64_t width, DType dtype) {
    return add_parameter(
        name, {2 * max_distance_ + 1, width}, dtype,
        Init::normal(1.0 / std::sqrt(static_cast<double>(width))));
  }

  // Returns the rows of the distances that occur, the middle of the table,
  // without a multiple of `block` rows at either end.
  Var near(const Var& table, const Packing& maps,
           std::int64_t block = 1) const {
    const std::int64_t longest = std::max<std::int64_t>(
        1, std::max(maps.longest_query(), maps.longest_key()));
    const std::int64_t left_out =
        std::max<std::int64_t>(0, max_distance_ - (longest - 1)) / block *
        block;
    if (left_out == 0) return table;
    return slice(table, 0, left_out, table.dim(0) - left_out);
  }

  // Terms that products sum in one go (kernels/cpu/gemm_rows.h), in pairs.
  static constexpr std::int64_t kBlock = 1024;

  std::int64_t max_distance_, head_width_;
  Var table_, values_;
};

const Register<Bias> kRelative({
    "relative",
    "Shaw et al., NAACL 2018; Bello et al., ICCV 2019",
    {
        {.name = "max_distance",
         .type = "int",
         .high = 1 << 24,
         .doc = "the distance of key and query from which on all count as one"},
        {.name = "values",
         .type = "bool",
         .fallback = false,
         .doc = "whether positions are added to the values too"},
    },
    [](const Options& options, const SlotSite& site) {
      return std::make_unique<RelativeBias>(options.integer("max_distance"),
                                            options.flag("values"), site);
    },
});

}  // namespace

}  // namespace ea
