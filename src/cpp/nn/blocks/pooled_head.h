// Maps the steps of each sequence to one output vector.
#pragma once

#include <memory>

#include "nn/layers.h"

namespace ea {

struct PooledHeadConfig {
  std::int64_t hidden_size = 0;
  std::int64_t max_length = 0;  // of a sequence, for the concatenated form
  std::int64_t outputs = 0;
  bool mean = false;
  double dropout = 0.0;
  DType dtype = DType::f32;
  std::int64_t inner_size = 0;  // width of a layer before the output; 0: none
  Activation inner_activation = Activation::relu;
};

// Returns [sequences, width]: the mean of each sequence's rows [total, width].
Var mean_of_sequences(const Var& rows, const Packing& packing);

// y = W z + b with z the concatenation (zeros after a sequence's end) or the
// mean of all steps, after GELU and dropout. With inner_size,
// y = V drop(f(W z + b)) + c.
class PooledHead : public Module {
 public:
  explicit PooledHead(const PooledHeadConfig& config);

  // Returns [sequences, outputs] from packed steps [total, hidden].
  Var forward(const Var& steps, const Packing& packing) const;

 private:
  PooledHeadConfig config_;
  std::int64_t width_;
  std::unique_ptr<Linear> inner_;  // null without inner_size
  Linear output_;
  Dropout dropout_, inner_dropout_;

  Var mapped(const Var& z) const;
};

}  // namespace ea
