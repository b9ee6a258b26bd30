// What the arguments of the contracts on rows of sequences are (see
// operands.h).
#pragma once

#include "guarded.h"
#include "kernels/batch_norm.h"
#include "kernels/conv1d.h"
#include "kernels/weight_norm.h"

namespace ea::emulation {

template <>
struct List<BatchStatistics> {
  static void of(BatchStatistics::Args& a, Operands& o) {
    o.in("x", a.x);
    o.out("mean", a.mean);
    o.out("variance", a.variance);
  }
};

template <>
struct List<MoveAverage> {
  static void of(MoveAverage::Args& a, Operands& o) {
    o.in("now", a.now);
    o.both("running", a.running);
  }
};

template <>
struct List<BatchNormForward> {
  static void of(BatchNormForward::Args& a, Operands& o) {
    o.in("x", a.x);
    o.in("weight", a.weight);
    o.in("bias", a.bias);
    o.in("mean", a.mean);
    o.in("variance", a.variance);
    o.out("y", a.y);
    o.out("rstd", a.rstd);
  }
};

template <>
struct List<BatchNormBackward> {
  static void of(BatchNormBackward::Args& a, Operands& o) {
    o.in("dy", a.dy);
    o.in("x", a.x);
    o.in("weight", a.weight);
    o.in("mean", a.mean);
    o.in("rstd", a.rstd);
    o.out("dx", a.dx);
    o.out("dweight", a.dweight);
    o.out("dbias", a.dbias);
  }
};

template <>
struct List<WeightNormForward> {
  static void of(WeightNormForward::Args& a, Operands& o) {
    o.in("v", a.v);
    o.in("g", a.g);
    o.out("w", a.w);
    o.out("norm", a.norm);
  }
};

template <>
struct List<WeightNormBackward> {
  static void of(WeightNormBackward::Args& a, Operands& o) {
    o.in("dw", a.dw);
    o.in("v", a.v);
    o.in("g", a.g);
    o.in("norm", a.norm);
    o.out("dv", a.dv);
    o.out("dg", a.dg);
  }
};

// The offsets lie on the host.
inline void add_taps(Conv1dTaps& taps, Operands& o) {
  o.host("offsets", taps.offsets, taps.sequences + 1);
}

template <>
struct List<Conv1dForward> {
  static void of(Conv1dForward::Args& a, Operands& o) {
    o.in("x", a.x);
    o.in("weight", a.weight);
    o.in("bias", a.bias);
    o.out("y", a.y);
    add_taps(a.taps, o);
  }
};

template <>
struct List<Conv1dBackward> {
  static void of(Conv1dBackward::Args& a, Operands& o) {
    o.in("dy", a.dy);
    o.in("x", a.x);
    o.in("weight", a.weight);
    o.out("dx", a.dx);
    o.out("dweight", a.dweight);
    add_taps(a.taps, o);
  }
};

}  // namespace ea::emulation
