// Reference fused attention: runs the other reference kernels in turn, on
// copies in the wider type.
#include "kernels/fused_attention.h"

#include <cmath>

#include "kernels/attention.h"
#include "kernels/dropout.h"
#include "kernels/ref/map_cells.h"
#include "kernels/ref/run.h"
#include "kernels/softmax.h"
#include "tensor/tensor.h"

namespace ea::ref {

namespace {

template <typename T>
using Wide = Accumulator<T>;

template <typename T>
constexpr DType wide_dtype() {
  return std::is_same_v<T, double> ? DType::f64 : DType::f32;
}

template <typename T>
Tensor wide_maps(std::int64_t cells) {
  return empty({cells}, wide_dtype<T>());
}

// Returns a contiguous copy, undefined if the view is.
template <typename T>
Tensor widen(const TensorView& from) {
  if (!from.defined()) return {};
  const Tensor to = empty(from.shape, wide_dtype<T>());
  const std::int64_t n = from.numel();
  const std::int64_t width = from.shape.rank() == 2 ? from.shape[1] : n;
  const std::int64_t stride = from.shape.rank() == 2 ? from.strides[0] : n;
  for (std::int64_t i = 0; i < n; ++i) {
    to.data<Wide<T>>()[i] =
        Wide<T>(from.as<T>()[i / width * stride + i % width]);
  }
  return to;
}

template <typename T>
void narrow(const Tensor& from, const TensorView& to) {
  if (!to.defined()) return;
  for (std::int64_t i = 0; i < from.numel(); ++i) {
    to.as<T>()[i] = T(from.data<Wide<T>>()[i]);
  }
}

// Calls fn(row, first cell, keys, exists) for every row of every map;
// exists(key) tells whether the cell exists.
template <typename Fn>
void for_each_row(const MapLayout& layout, Fn&& fn) {
  for (std::int64_t b = 0; b < layout.sequences; ++b) {
    const std::int64_t rows = layout.heads * layout.n_q(b);
    for (std::int64_t i = 0; i < rows; ++i) {
      fn(layout.heads * layout.q_offsets[b] + i,
         layout.begin(b) + i * layout.n_k(b), layout.n_k(b),
         [&](std::int64_t j) {
           return exists(layout, b, i % layout.n_q(b), j);
         });
    }
  }
}

// Inputs in the wider type, and the intermediate results that forward and
// backward share.
template <typename T>
struct Inputs {
  using A = Wide<T>;
  const FusedAttention& in;
  std::int64_t cells;
  Tensor q, k, v, m, weight, bias, scores;

  explicit Inputs(const FusedAttention& args)
      : in(args),
        cells(args.layout.numel()),
        q(widen<T>(args.q)),
        k(widen<T>(args.k)),
        v(widen<T>(args.v)),
        m(widen<T>(args.previous)),
        weight(widen<T>(args.weight)),
        bias(widen<T>(args.bias)),
        scores(wide_maps<T>(cells)) {
    run<AttentionScores>({q, k, scores, in.scale, in.layout});
    A* const s = scores.data<A>();
    if (in.score_bias.defined()) {
      const Tensor added = widen<T>(in.score_bias);
      for (std::int64_t i = 0; i < cells; ++i) s[i] += added.data<A>()[i];
      keep_all_existing(in.layout, s);
    }
    if (m.defined()) keep_all_existing(in.layout, m.data<A>());
  }

  // Returns x M + y S.
  Tensor mix(double x, double y) const {
    const Tensor out = wide_maps<T>(cells);
    for (std::int64_t i = 0; i < cells; ++i) {
      const A s = A(y) * scores.data<A>()[i];
      out.data<A>()[i] = m.defined() ? A(x) * m.data<A>()[i] + s : s;
    }
    return out;
  }

  // Returns L, rounded to T; writes the gates if they are defined.
  Tensor logits(const TensorView& gates) const {
    const Tensor out = mix(in.c.p, in.c.s);
    A* const l = out.data<A>();
    if (in.c.w != 0) {
      const Tensor z = wide_maps<T>(cells);
      run<MapConvForward>(
          {mix(in.c.a, in.c.b), weight, bias, z, in.layout, in.shift});
      const A* const values = z.data<A>();
      for (std::int64_t i = 0; i < cells; ++i) {
        l[i] += A(in.c.w) * (values[i] < 0 ? A(0) : values[i]);
      }
      if (gates.defined()) write_gates(values, gates.as<std::uint8_t>());
    }
    for (std::int64_t i = 0; i < cells; ++i) l[i] = A(T(l[i]));
    return out;
  }

  void write_gates(const A* z, std::uint8_t* gates) const {
    for_each_row(in.layout, [&](auto row, auto cell, auto n, const auto&) {
      std::uint8_t* const to = gates + gate_byte(cell, row);
      for (std::int64_t j = 0; j < n; ++j) {
        const unsigned bit = z[cell + j] <= 0 ? 0u : 1u << (j % 8);
        const unsigned before = j % 8 == 0 ? 0u : to[j / 8];
        to[j / 8] = static_cast<std::uint8_t>(before | bit);
      }
    });
  }

  Tensor dropped(const Tensor& x) const {
    const Tensor y = wide_maps<T>(cells);
    run<Dropout>({x, y, in.p, in.seed, in.stream});
    return y;
  }
};

template <typename T>
void forward_of(const FusedAttentionForward::Args& args) {
  using A = Wide<T>;
  const Inputs<T> in(args.in);
  const Tensor maps = in.logits(args.gates);
  narrow<T>(maps, args.carry);
  const A t = A(args.in.softmax_scale);
  for_each_row(
      args.in.layout, [&](auto row, auto cell, auto n, const auto& is) {
        A* const x = maps.data<A>() + cell;
        A top = -std::numeric_limits<A>::infinity();
        bool any = false;
        for (std::int64_t j = 0; j < n; ++j) {
          if (is(j) && t * x[j] > top) top = t * x[j];
          any = any || is(j);
        }
        A total = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          x[j] = is(j) ? std::exp(t * x[j] - top) : A(0);
          total += x[j];
        }
        for (std::int64_t j = 0; any && j < n; ++j) x[j] /= total;
        if (args.statistics.defined()) {
          args.statistics.as<A>()[2 * row] = any ? top : A(0);
          args.statistics.as<A>()[2 * row + 1] = any ? 1 / total : A(0);
        }
      });
  const Tensor y = empty(args.y.shape, wide_dtype<T>());
  run<AttentionContext>({in.dropped(maps), in.v, y, args.in.layout});
  narrow<T>(y, args.y);
}

// Computes P from L and the statistics.
template <typename T>
Tensor probabilities(const FusedAttentionBackward::Args& args,
                     const Inputs<T>& in) {
  using A = Wide<T>;
  const Tensor p = args.carry.defined() ? widen<T>(args.carry) : in.logits({});
  for_each_row(args.in.layout, [&](auto row, auto cell, auto n,
                                   const auto& is) {
    const A* const statistics = args.statistics.as<A>() + 2 * row;
    A* const x = p.data<A>() + cell;
    for (std::int64_t j = 0; j < n; ++j) {
      const A t = A(args.in.softmax_scale);
      x[j] = is(j) ? std::exp(t * x[j] - statistics[0]) * statistics[1] : A(0);
    }
  });
  return p;
}

// Computes dM, dS and the convolution's gradients from dL.
template <typename T>
void evolve_gradients(const FusedAttentionBackward::Args& args,
                      const Inputs<T>& in, const Tensor& dl, const Tensor& dm,
                      const Tensor& ds) {
  using A = Wide<T>;
  const EvolveCoefficients& c = args.in.c;
  const Tensor di = zeros({in.cells}, wide_dtype<T>());
  if (c.w != 0) {
    const Tensor g = wide_maps<T>(in.cells);
    for_each_row(args.in.layout, [&](auto row, auto cell, auto n, const auto&) {
      const auto* const gates =
          args.gates.as<std::uint8_t>() + gate_byte(cell, row);
      for (std::int64_t j = 0; j < n; ++j) {
        const bool open = (gates[j / 8] >> (j % 8) & 1) != 0;
        g.data<A>()[cell + j] = open ? A(c.w) * dl.data<A>()[cell + j] : A(0);
      }
    });
    const Tensor dw = empty(in.weight.shape(), wide_dtype<T>());
    const Tensor db = empty(in.bias.shape(), wide_dtype<T>());
    run<MapConvBackward>({g, in.mix(c.a, c.b), in.weight, di, dw, db,
                          args.in.layout, args.in.shift});
    narrow<T>(dw, args.dweight);
    narrow<T>(db, args.dbias);
  }
  for (std::int64_t i = 0; i < in.cells; ++i) {
    const A d = dl.data<A>()[i], from = di.data<A>()[i];
    dm.data<A>()[i] = A(c.p) * d + A(c.a) * from;
    ds.data<A>()[i] = A(c.s) * d + A(c.b) * from;
  }
}

template <typename T>
void backward_of(const FusedAttentionBackward::Args& args) {
  using A = Wide<T>;
  const Inputs<T> in(args.in);
  const MapLayout& layout = args.in.layout;
  const Tensor p = probabilities(args, in);
  const Tensor dp = wide_maps<T>(in.cells), dl = wide_maps<T>(in.cells);
  const Tensor dq = empty(in.q.shape(), wide_dtype<T>());
  const Tensor dk = empty(in.k.shape(), wide_dtype<T>());
  const Tensor dv = empty(in.v.shape(), wide_dtype<T>());
  run<AttentionContextBackward>(
      {widen<T>(args.dy), in.dropped(p), in.v, dp, dv, layout});
  run<SoftmaxBackward>({in.dropped(dp), p, dl, args.in.softmax_scale, layout});
  if (args.dcarry.defined()) {
    const Tensor more = widen<T>(args.dcarry);
    for (std::int64_t i = 0; i < in.cells; ++i) {
      dl.data<A>()[i] += more.data<A>()[i];
    }
    keep_all_existing(layout, dl.data<A>());
  }
  const Tensor dm = wide_maps<T>(in.cells), ds = wide_maps<T>(in.cells);
  evolve_gradients(args, in, dl, dm, ds);
  narrow<T>(dm, args.dprevious);
  narrow<T>(ds, args.dscore_bias);
  run<AttentionScoresBackward>({ds, in.q, in.k, dq, dk, args.in.scale, layout});
  narrow<T>(dq, args.dq);
  narrow<T>(dk, args.dk);
  narrow<T>(dv, args.dv);
}

}  // namespace

EA_RUN_REF(FusedAttentionForward, forward_of, in.q)
EA_RUN_REF(FusedAttentionBackward, backward_of, in.q)

}  // namespace ea::ref
