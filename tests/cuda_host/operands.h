// What each contract's arguments are: read, written, or both. One
// specialisation per contract; the guards of an emulated call follow it.
#pragma once

#include "guarded.h"
#include "kernels/activation.h"
#include "kernels/layer_norm.h"
#include "kernels/reduce.h"

namespace ea::emulation {

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

}  // namespace ea::emulation
