// Pools by gathering: a missing step is a row of zeros.
#include "nn/blocks/pooled_head.h"

#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/gather.h"
#include "ops/reduce.h"
#include "ops/shape_ops.h"

namespace ea {

namespace {

std::int64_t length_of(const Packing& packing, std::int64_t sequence) {
  const auto at = static_cast<std::size_t>(sequence);
  return packing.q_offsets()[at + 1] - packing.q_offsets()[at];
}

// Returns [sequences, steps]: the row of each step, -1 after a sequence's end.
Tensor places(const Packing& packing, std::int64_t steps) {
  const std::int64_t n = packing.sequences();
  std::vector<std::int64_t> index(static_cast<std::size_t>(n * steps), -1);
  for (std::int64_t b = 0; b < n; ++b) {
    const std::int64_t begin = packing.q_offsets()[static_cast<std::size_t>(b)];
    for (std::int64_t i = 0; i < length_of(packing, b); ++i) {
      index[static_cast<std::size_t>(b * steps + i)] = begin + i;
    }
  }
  return reshape_view(from_values(index), {n, steps});
}

// Returns [sequences, 1]: 1 / length.
Tensor shares(const Packing& packing, const Var& like) {
  const Tensor share = empty({packing.sequences(), 1}, DType::f64);
  for (std::int64_t b = 0; b < packing.sequences(); ++b) {
    share.data<double>()[b] = 1.0 / static_cast<double>(length_of(packing, b));
  }
  return to_device(cast(share, like.dtype()), like.device());
}

}  // namespace

Var mean_of_sequences(const Var& rows, const Packing& packing) {
  // The kernel adds four rows at a time (kernels/reduce.h): with whole fours a
  // sequence has the same bits next to longer ones.
  const std::int64_t steps = (packing.longest_query() + 3) / 4 * 4;
  const Var placed = gather_rows(rows, places(packing, steps));
  return mul(sum(placed, 1), Var(shares(packing, rows)));
}

PooledHead::PooledHead(const PooledHeadConfig& config)
    : config_(config),
      width_(config.hidden_size * (config.mean ? 1 : config.max_length)),
      inner_(config.inner_size > 0
                 ? std::make_unique<Linear>(width_, config.inner_size,
                                            config.dtype,
                                            AffineInit::uniform(width_))
                 : nullptr),
      output_(inner_ ? config.inner_size : width_, config.outputs, config.dtype,
              AffineInit::uniform(inner_ ? config.inner_size : width_)),
      dropout_(config.dropout),
      inner_dropout_(inner_ ? config.dropout : 0.0) {
  if (inner_) {
    add_child("dense", *inner_);
    add_child("out_proj", output_);
    add_child("out_proj.dropout", inner_dropout_);
  } else {
    add_child("", output_);
  }
  add_child("dropout", dropout_);
}

Var PooledHead::mapped(const Var& z) const {
  if (!inner_) return output_(z);
  return output_(
      inner_dropout_(activation((*inner_)(z), config_.inner_activation)));
}

Var PooledHead::forward(const Var& steps, const Packing& packing) const {
  const Var h = dropout_(activation(steps, Activation::gelu));
  if (config_.mean) return mapped(mean_of_sequences(h, packing));
  const Var rows = gather_rows(h, places(packing, config_.max_length));
  return mapped(reshape(rows, {packing.sequences(), width_}));
}

}  // namespace ea
