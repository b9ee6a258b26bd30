// Small modules: affine map, convolution, norms, embedding table.
#pragma once

#include <cmath>

#include "nn/module.h"
#include "ops/arithmetic.h"
#include "ops/batch_norm.h"
#include "ops/conv1d.h"
#include "ops/dropout.h"
#include "ops/feed_forward.h"
#include "ops/gather.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/weight_norm.h"

namespace ea {

// Initial values of an affine map or a convolution.
struct AffineInit {
  Init weight, bias;
  // BERT: weight N(0, standard_deviation^2), bias 0.
  static AffineInit normal(double standard_deviation) {
    return {Init::normal(standard_deviation), {}};
  }
  // PyTorch's default: both U(-1 / sqrt(fan_in), 1 / sqrt(fan_in)).
  static AffineInit uniform(std::int64_t fan_in) {
    const Init init =
        Init::uniform(1.0 / std::sqrt(static_cast<double>(fan_in)));
    return {init, init};
  }
  // Glorot and Bengio: weight U(-b, b), b^2 = 6 / (fan_in + fan_out), bias 0.
  static AffineInit glorot() { return {Init::glorot(), {}}; }
};

class Linear : public Module {
 public:
  Linear(std::int64_t in, std::int64_t out, DType dtype, const AffineInit& init,
         bool biased = true)
      : weight_(add_parameter("weight", {out, in}, dtype, init.weight)) {
    if (biased) bias_ = add_parameter("bias", {out}, dtype, init.bias);
  }
  Linear(std::int64_t in, std::int64_t out, DType dtype, double init_std)
      : Linear(in, out, dtype, AffineInit::normal(init_std)) {}
  Device device() const { return weight_.device(); }
  const Var& weight() const { return weight_; }
  Var operator()(const Var& x) const { return linear(x, weight_, bias_); }
  void into(const Tensor& x, const Tensor& y) const {
    linear_into(x, weight_, bias_, y);
  }
  Var operator()(const Var& x, Activation kind) const {
    return linear_activation(x, weight_, bias_, kind);
  }
  // Computes next(f(this(x))).
  Var operator()(const Var& x, Activation f, const Linear& next) const {
    return feed_forward(x, weight_, bias_, f, next.weight_, next.bias_);
  }

 private:
  Var weight_, bias_;  // the bias may be undefined
};

// Centred convolution along packed sequences.
class Conv1d : public Module {
 public:
  Conv1d(std::int64_t in, std::int64_t out, std::int64_t kernel, DType dtype,
         const AffineInit& init)
      : weight_(add_parameter("weight", {out, in, kernel}, dtype, init.weight)),
        bias_(add_parameter("bias", {out}, dtype, init.bias)) {}
  Var operator()(const Var& x, const PackingPtr& packing) const {
    return conv1d(x, weight_, bias_, packing, 1, false);
  }

 private:
  Var weight_, bias_;
};

// Convolution along packed sequences with the weight g v / |v|; initially equal
// to v.
class WeightNormConv1d : public Module {
 public:
  WeightNormConv1d(std::int64_t in, std::int64_t out, std::int64_t kernel,
                   std::int64_t dilation, bool causal, DType dtype,
                   const AffineInit& init)
      : v_(add_parameter("weight_v", {out, in, kernel}, dtype, init.weight)),
        g_(add_parameter("weight_g", {out, 1, 1}, dtype, Init::row_norms(v_))),
        bias_(add_parameter("bias", {out}, dtype, init.bias)),
        dilation_(dilation),
        causal_(causal) {}
  Var operator()(const Var& x, const PackingPtr& packing) const {
    return conv1d(x, weight_norm(v_, g_), bias_, packing, dilation_, causal_);
  }

 private:
  Var v_, g_, bias_;
  std::int64_t dilation_;
  bool causal_;
};

// Active only in training; the module's name selects its random stream.
class Dropout : public Module {
 public:
  explicit Dropout(double p) : p_(p) {}
  Var operator()(const Var& x) const { return dropout(x, at()); }
  DropoutSite at() const { return {training() ? p_ : 0.0, site()}; }

 private:
  double p_;
};

class LayerNorm : public Module {
 public:
  LayerNorm(std::int64_t width, double eps, DType dtype)
      : weight_(add_parameter("weight", {width}, dtype, Init::ones())),
        bias_(add_parameter("bias", {width}, dtype, {})),
        eps_(eps) {}
  Var operator()(const Var& x, const Var& residual = {}) const {
    return layer_norm(x, weight_, bias_, eps_, residual);
  }
  // Computes the norm of dropout(x) + residual.
  Var operator()(const Dropout& dropout, const Var& x,
                 const Var& residual) const {
    return dropout_layer_norm(x, residual, weight_, bias_, eps_, dropout.at());
  }

 private:
  Var weight_, bias_;
  double eps_;
};

// y = lambda x, elementwise (Touvron et al., ICCV 2021, Section 2).
class LayerScale : public Module {
 public:
  LayerScale(std::int64_t width, double initial, DType dtype)
      : lambda_(add_parameter("lambda1", {width}, dtype, Init::all(initial))) {}
  Var operator()(const Var& x) const { return mul(x, lambda_); }

 private:
  Var lambda_;
};

enum class NormKind : std::uint8_t {
  layer,  // LayerNorm
  rms,    // RMS norm: no mean, no bias
};

// Settings of the norm of transformer layers.
struct NormConfig {
  NormKind kind = NormKind::layer;
  double eps = 1e-12;
  double initial = 1.0;  // initial weights
};

class Norm : public Module {
 public:
  Norm(std::int64_t width, const NormConfig& config, DType dtype)
      : kind_(config.kind),
        weight_(
            add_parameter("weight", {width}, dtype, Init::all(config.initial))),
        eps_(config.eps) {
    if (kind_ == NormKind::layer) {
      bias_ = add_parameter("bias", {width}, dtype, {});
    }
  }
  Var operator()(const Var& x) const {
    return kind_ == NormKind::layer ? layer_norm(x, weight_, bias_, eps_)
                                    : rms_norm(x, weight_, eps_);
  }
  // Computes the norm of dropout(x) + residual.
  Var operator()(const Dropout& dropout, const Var& x,
                 const Var& residual) const {
    return kind_ == NormKind::layer
               ? dropout_layer_norm(x, residual, weight_, bias_, eps_,
                                    dropout.at())
               : rms_norm(add(dropout(x), residual), weight_, eps_);
  }

 private:
  NormKind kind_;
  Var weight_, bias_;
  double eps_;
};

// Batch norm over the tokens of a packed batch. Training uses the batch's
// statistics, evaluation the running ones, which are buffers.
class BatchNorm : public Module {
 public:
  BatchNorm(std::int64_t channels, DType dtype, double momentum = 0.1,
            double eps = 1e-5)
      : weight_(add_parameter("weight", {channels}, dtype, Init::ones())),
        bias_(add_parameter("bias", {channels}, dtype, {})),
        running_{add_buffer("running_mean", {channels}, wide_type(dtype), {}),
                 add_buffer("running_var", {channels}, wide_type(dtype),
                            Init::ones())},
        momentum_(momentum),
        eps_(eps) {}
  Var operator()(const Var& x) const {
    return batch_norm(x, weight_, bias_, running_, training(), momentum_, eps_);
  }
  // Computes norm(x) + residual, followed by ReLU if `rectify`.
  Var joined(const Var& x, const Var& residual, bool rectify) const {
    return batch_norm(x, weight_, bias_, running_, training(), momentum_, eps_,
                      residual, rectify);
  }
  // Returns the norm in evaluation as a channel map; see channel_map().
  ChannelMap map() const { return channel_map(weight_, bias_, running_, eps_); }

 private:
  Var weight_, bias_;
  RunningStatistics running_;
  double momentum_, eps_;
};

class Embedding : public Module {
 public:
  // No gradient reaches the row `padding_id`, if it is not negative.
  Embedding(std::int64_t rows, std::int64_t width, DType dtype,
            const Init& init, std::int64_t padding_id = -1)
      : weight_(add_parameter("weight", {rows, width}, dtype, init)),
        padding_id_(padding_id) {}
  Embedding(std::int64_t rows, std::int64_t width, DType dtype, double init_std,
            std::int64_t padding_id = -1)
      : Embedding(rows, width, dtype, Init::normal(init_std), padding_id) {}
  Var operator()(const Tensor& ids, const char* what) const {
    return embedding(weight_, ids, what, padding_id_);
  }
  const Var& weight() const { return weight_; }

 private:
  Var weight_;
  std::int64_t padding_id_;
};

}  // namespace ea
