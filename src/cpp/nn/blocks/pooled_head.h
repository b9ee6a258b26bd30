// Maps the steps of each sequence to one output vector.
#pragma once

#include <memory>

#include "nn/layers.h"

namespace ea {

struct PooledHeadConfig {
  std::int64_t hidden_size = 0;
  std::int64_t max_length = 0;  // of a sequence, for the flat form
  std::int64_t outputs = 0;
  bool mean = false;
  double dropout = 0.0;
  DType dtype = DType::f32;
  std::int64_t inner_size = 0;  // of a layer before the output; 0: none
  Activation inner_activation = Activation::relu;
};

// [sequences, width]: the mean of each sequence's rows [total, width].
Var mean_of_sequences(const Var& rows, const Packing& packing);

// y = W z + b with z = all steps, after GELU and dropout, concatenated (zeros
// after a sequence's end) or averaged.
// With inner_size, y = V drop(f(W z + b)) + c.
class PooledHead : public Module {
 public:
  explicit PooledHead(const PooledHeadConfig& config);

  // [sequences, outputs] from packed steps [total, hidden]
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
