// What each contract's arguments are: read, written, or both. One
// specialisation per contract; the guards of an emulated call follow it.
#pragma once

#include "guarded.h"
#include "kernels/activation.h"
#include "kernels/copy.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/gather.h"
#include "kernels/gemm.h"
#include "kernels/layer_norm.h"
#include "kernels/optimizer.h"
#include "kernels/reduce.h"
#include "kernels/step_log.h"
#include "operands_maps.h"
#include "operands_sequences.h"

namespace ea::emulation {

template <>
struct List<Binary> {
  static void of(Binary::Args& a, Operands& o) {
    o.in("a", a.a);
    o.in("b", a.b);
    o.out("y", a.y);
  }
};

template <>
struct List<Axpby> {
  static void of(Axpby::Args& a, Operands& o) {
    o.in("x", a.x);
    o.in("z", a.z);
    o.out("y", a.y);
  }
};

template <>
struct List<MatMul> {
  static void of(MatMul::Args& a, Operands& o) {
    o.in("a", a.a);
    o.in("b", a.b);
    o.in("bias", a.bias);
    o.out("y", a.y);
  }
};

template <>
struct List<Dropout> {
  static void of(Dropout::Args& a, Operands& o) {
    o.in("x", a.x);
    o.out("y", a.y);
  }
};

template <>
struct List<Sum> {
  static void of(Sum::Args& a, Operands& o) {
    o.in("x", a.x);
    o.out("y", a.y);
  }
};

template <>
struct List<ActivationForward> {
  static void of(ActivationForward::Args& a, Operands& o) {
    o.in("x", a.x);
    o.out("y", a.y);
  }
};

template <>
struct List<ActivationBackward> {
  static void of(ActivationBackward::Args& a, Operands& o) {
    o.in("dy", a.dy);
    o.in("x", a.x);
    o.out("dx", a.dx);
    o.out("dbias", a.dbias);
  }
};

template <>
struct List<LayerNormForward> {
  static void of(LayerNormForward::Args& a, Operands& o) {
    o.in("x", a.x);
    o.in("residual", a.residual);
    o.in("weight", a.weight);
    o.in("bias", a.bias);
    o.out("sum", a.sum);
    o.out("y", a.y);
    o.out("mean", a.mean);
    o.out("rstd", a.rstd);
  }
};

template <>
struct List<LayerNormBackward> {
  static void of(LayerNormBackward::Args& a, Operands& o) {
    o.in("dy", a.dy);
    o.in("x", a.x);
    o.in("weight", a.weight);
    o.in("mean", a.mean);
    o.in("rstd", a.rstd);
    o.out("dx", a.dx);
    o.out("dweight", a.dweight);
    o.out("dbias", a.dbias);
    o.out("dresidual", a.dresidual);
  }
};

template <>
struct List<GatherRows> {
  static void of(GatherRows::Args& a, Operands& o) {
    o.in("x", a.x);
    o.in("index", a.index);
    o.out("y", a.y);
  }
};

template <>
struct List<ScatterAddRows> {
  static void of(ScatterAddRows::Args& a, Operands& o) {
    o.in("dy", a.dy);
    o.in("index", a.index);
    o.out("dx", a.dx);
  }
};

template <>
struct List<CrossEntropyForward> {
  static void of(CrossEntropyForward::Args& a, Operands& o) {
    o.in("logits", a.logits);
    o.in("labels", a.labels);
    o.out("lse", a.lse);
    o.out("loss", a.loss);
  }
};

template <>
struct List<CrossEntropyBackward> {
  static void of(CrossEntropyBackward::Args& a, Operands& o) {
    o.in("dloss", a.dloss);
    o.in("logits", a.logits);
    o.in("labels", a.labels);
    o.in("lse", a.lse);
    o.out("dlogits", a.dlogits);
  }
};

template <>
struct List<SumOfSquares> {
  static void of(SumOfSquares::Args& a, Operands& o) {
    std::vector<TensorView>& xs = o.copy(a.xs);
    for (TensorView& x : xs) o.in("x", x);
    o.out("result", a.result);
    a.xs = &xs;
  }
};

// AdamW, RAdam and SGD.
template <typename Args>
void add_parameters(Args& a, Operands& o) {
  std::vector<AdamWTensor>& tensors = o.copy(a.tensors);
  for (AdamWTensor& one : tensors) {
    o.both("param", one.param);
    o.in("grad", one.grad);
    o.both("exp_avg", one.exp_avg);
    o.both("exp_avg_sq", one.exp_avg_sq);
    o.both("master", one.master);
    o.in("rows", one.rows);
  }
  a.tensors = &tensors;
  o.in("scale", a.scale);
}

template <>
struct List<AdamW> {
  static void of(AdamW::Args& a, Operands& o) { add_parameters(a, o); }
};

template <>
struct List<RAdam> {
  static void of(RAdam::Args& a, Operands& o) { add_parameters(a, o); }
};

template <>
struct List<SGD> {
  static void of(SGD::Args& a, Operands& o) { add_parameters(a, o); }
};

template <>
struct List<RecordLoss> {
  static void of(RecordLoss::Args& a, Operands& o) {
    o.in("loss", a.loss);
    o.both("total", a.total);
  }
};

template <>
struct List<StepScale> {
  static void of(StepScale::Args& a, Operands& o) {
    o.in("loss", a.loss);
    o.in("sum_of_squares", a.sum_of_squares);
    o.in("previous", a.previous);
    o.out("scale", a.scale);
  }
};

template <>
struct List<Copy> {
  static void of(Copy::Args& a, Operands& o) {
    o.in("x", a.x);
    o.out("y", a.y);
  }
};

template <>
struct List<Cast> {
  static void of(Cast::Args& a, Operands& o) {
    o.in("x", a.x);
    o.out("y", a.y);
  }
};

template <>
struct List<Fill> {
  static void of(Fill::Args& a, Operands& o) { o.out("y", a.y); }
};

}  // namespace ea::emulation
