// What the arguments of the contracts on attention maps are (see operands.h).
#pragma once

#include "guarded.h"
#include "kernels/attention.h"
#include "kernels/evolve.h"
#include "kernels/fused_attention.h"
#include "kernels/map_conv.h"
#include "kernels/pair_sum.h"
#include "kernels/relative_cells.h"
#include "kernels/softmax.h"
#include "kernels/unpack_maps.h"

namespace ea::emulation {

// The offsets of a layout lie on the host.
inline void add_layout(MapLayout& layout, Operands& o) {
  o.host("q_offsets", layout.q_offsets, layout.sequences + 1);
  o.host("k_offsets", layout.k_offsets, layout.sequences + 1);
  o.host("cell_offsets", layout.cell_offsets, layout.sequences + 1);
  o.in("key_mask", layout.key_mask);
}

template <>
struct List<SoftmaxForward> {
  static void of(SoftmaxForward::Args& a, Operands& o) {
    o.in("x", a.x);
    o.out("y", a.y);
    add_layout(a.layout, o);
  }
};

template <>
struct List<SoftmaxBackward> {
  static void of(SoftmaxBackward::Args& a, Operands& o) {
    o.in("dy", a.dy);
    o.in("y", a.y);
    o.out("dx", a.dx);
    add_layout(a.layout, o);
  }
};

template <>
struct List<AttentionScores> {
  static void of(AttentionScores::Args& a, Operands& o) {
    o.in("q", a.q);
    o.in("k", a.k);
    o.out("scores", a.scores);
    add_layout(a.layout, o);
  }
};

template <>
struct List<AttentionScoresBackward> {
  static void of(AttentionScoresBackward::Args& a, Operands& o) {
    o.in("dscores", a.dscores);
    o.in("q", a.q);
    o.in("k", a.k);
    o.out("dq", a.dq);
    o.out("dk", a.dk);
    add_layout(a.layout, o);
  }
};

template <>
struct List<AttentionContext> {
  static void of(AttentionContext::Args& a, Operands& o) {
    o.in("p", a.p);
    o.in("v", a.v);
    o.out("y", a.y);
    add_layout(a.layout, o);
  }
};

template <>
struct List<AttentionContextBackward> {
  static void of(AttentionContextBackward::Args& a, Operands& o) {
    o.in("dy", a.dy);
    o.in("p", a.p);
    o.in("v", a.v);
    o.out("dp", a.dp);
    o.out("dv", a.dv);
    add_layout(a.layout, o);
  }
};

template <>
struct List<RelativeCells> {
  static void of(RelativeCells::Args& a, Operands& o) {
    o.in("x", a.x);
    o.out("y", a.y);
    add_layout(a.layout, o);
  }
};

template <>
struct List<RelativeSums> {
  static void of(RelativeSums::Args& a, Operands& o) {
    o.in("x", a.x);
    o.out("y", a.y);
    add_layout(a.layout, o);
  }
};

inline void add_columns(PaddedMaps& a, Operands& o) {
  o.in("q_columns", a.q_columns);
  o.in("k_columns", a.k_columns);
  add_layout(a.layout, o);
}

template <>
struct List<UnpackMaps> {
  static void of(UnpackMaps::Args& a, Operands& o) {
    o.in("flat", a.flat);
    o.out("dense", a.dense);
    add_columns(a, o);
  }
};

template <>
struct List<PackMaps> {
  static void of(PackMaps::Args& a, Operands& o) {
    o.in("dense", a.dense);
    o.out("flat", a.flat);
    add_columns(a, o);
  }
};

template <>
struct List<PairSum> {
  static void of(PairSum::Args& a, Operands& o) {
    o.in("u", a.u);
    o.in("v", a.v);
    o.out("y", a.y);
    add_layout(a.layout, o);
  }
};

template <>
struct List<PairSumBackward> {
  static void of(PairSumBackward::Args& a, Operands& o) {
    o.in("dy", a.dy);
    o.out("du", a.du);
    o.out("dv", a.dv);
    add_layout(a.layout, o);
  }
};

template <>
struct List<MapConvForward> {
  static void of(MapConvForward::Args& a, Operands& o) {
    o.in("x", a.x);
    o.in("weight", a.weight);
    o.in("bias", a.bias);
    o.out("y", a.y);
    add_layout(a.layout, o);
  }
};

template <>
struct List<MapConvBackward> {
  static void of(MapConvBackward::Args& a, Operands& o) {
    o.in("dy", a.dy);
    o.in("x", a.x);
    o.in("weight", a.weight);
    o.out("dx", a.dx);
    o.out("dweight", a.dweight);
    o.out("dbias", a.dbias);
    add_layout(a.layout, o);
  }
};

template <>
struct List<EvolveForward> {
  static void of(EvolveForward::Args& a, Operands& o) {
    o.in("previous", a.previous);
    o.in("scores", a.scores);
    o.in("weight", a.weight);
    o.in("bias", a.bias);
    o.out("out", a.out);
    add_layout(a.layout, o);
  }
};

template <>
struct List<EvolveBackward> {
  static void of(EvolveBackward::Args& a, Operands& o) {
    o.in("dout", a.dout);
    o.in("previous", a.previous);
    o.in("scores", a.scores);
    o.in("weight", a.weight);
    o.in("bias", a.bias);
    o.out("dprevious", a.dprevious);
    o.out("dscores", a.dscores);
    o.out("dweight", a.dweight);
    o.out("dbias", a.dbias);
    add_layout(a.layout, o);
  }
};

inline void add_fused(FusedAttention& in, Operands& o) {
  o.in("q", in.q);
  o.in("k", in.k);
  o.in("v", in.v);
  o.in("previous", in.previous);
  o.in("weight", in.weight);
  o.in("bias", in.bias);
  o.in("score_bias", in.score_bias);
  add_layout(in.layout, o);
}

template <>
struct List<FusedAttentionForward> {
  static void of(FusedAttentionForward::Args& a, Operands& o) {
    add_fused(a.in, o);
    o.out("y", a.y);
    o.out("carry", a.carry);
    o.out("statistics", a.statistics);
    o.out("gates", a.gates);
  }
};

template <>
struct List<FusedAttentionBackward> {
  static void of(FusedAttentionBackward::Args& a, Operands& o) {
    add_fused(a.in, o);
    o.in("dy", a.dy);
    o.in("dcarry", a.dcarry);
    o.in("carry", a.carry);
    o.in("statistics", a.statistics);
    o.in("gates", a.gates);
    o.out("dq", a.dq);
    o.out("dk", a.dk);
    o.out("dv", a.dv);
    o.out("dprevious", a.dprevious);
    o.out("dweight", a.dweight);
    o.out("dbias", a.dbias);
    o.out("dscore_bias", a.dscore_bias);
  }
};

}  // namespace ea::emulation
