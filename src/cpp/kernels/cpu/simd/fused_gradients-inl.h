// The steps of fused attention's backward, for one head or one block of rows.
#pragma once

#include "kernels/cpu/simd/amx_sums-inl.h"
#include "kernels/cpu/simd/amx_taps-inl.h"
#include "kernels/cpu/simd/fused_rows-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

template <typename M>
struct Backward {
  using T = typename M::T;
  const FusedAttentionBackward::Args& args;
  FusedSizes s;
  Dropping drop;

  explicit Backward(const FusedAttentionBackward::Args& a)
      : args(a), s(a.in), drop(a.in) {}
  const MapLayout& layout() const { return args.in.layout; }
};

// Sizes, in floats, of the scratch of a job on heads of sequences first ..
// last. With `maps`, the scratch includes the gradient of the logits.
struct HeadSizes {
  std::int64_t packed = 0, wide = 0, probabilities = 0, gradient = 0, row = 0;
  std::int64_t total = 0;

  template <typename M>
  HeadSizes(const Backward<M>& f, std::int64_t first, std::int64_t last,
            bool maps) {
    std::int64_t longest = 0;
    for (std::int64_t b = first; b < last; ++b) {
      const std::int64_t n_q = f.layout().n_q(b), n_k = f.layout().n_k(b);
      longest = longest < n_q ? n_q : longest;
      longest = longest < n_k ? n_k : longest;
      row = row < n_k ? n_k : row;
      if (probabilities < n_q * n_k) probabilities = n_q * n_k;
    }
    packed = (longest + kPanel) * (f.s.widest() + kPanel);
    wide = sizeof(typename M::T) < sizeof(float) ? longest * f.s.widest() : 0;
    gradient = maps ? probabilities : 0;
    total =
        packed + wide + probabilities + gradient + row + Dropping::words(row);
  }
};

struct HeadParts {
  float *packed, *wide, *probabilities, *gradient, *row;
  std::uint32_t* words;
  HeadParts(float* memory, const HeadSizes& size)
      : packed(memory),
        wide(packed + size.packed),
        probabilities(wide + size.wide),
        gradient(probabilities + size.probabilities),
        row(gradient + size.gradient),
        words(reinterpret_cast<std::uint32_t*>(row + size.row)) {}
};

// Computes one row: P from L (a recomputed L is first rounded to T), P after
// dropout in `kept_p`, and dL from g, the gradient of P after dropout. g is
// overwritten; dl may point to the same memory.
template <typename T, typename L, typename Map, typename Keep, typename Mask>
EA_INLINE void softmax_gradient_row(const L* logits, float* kept_p, float* p,
                                    float* g, Map* dl, std::int64_t n, float t,
                                    const float* statistics, const T* dcarry,
                                    Keep keep, Mask mask) {
  const Vf top = set(statistics[0]), inverse = set(statistics[1]);
  const Vf dot = set(sum_over(n, [&](std::int64_t j, auto part) EA_INLINE_CALL {
    const Vf l = load(logits + j, part);
    const Vf stored = sizeof(T) < sizeof(L) ? as_stored(l, dcarry) : l;
    const Vf all = exp(stored * set(t) - top) * inverse;
    const Vf x = mask(j, part, all, 0.0f);
    const Vf d = mask(j, part, keep(j, load(g + j, part)), 0.0f);
    store(p + j, x, part);
    store(kept_p + j, keep(j, x), part);
    store(g + j, d, part);
    return x * d;
  }));
  for_vectors(n, [&](std::int64_t j, auto part) {
    const Vf d = set(t) * load(p + j, part) * (load(g + j, part) - dot);
    store_factor(dl + j, dcarry == nullptr ? d : d + load(dcarry + j, part),
                 part);
  });
}

// Computes dV of one head and writes its dL [n_q, n_k] to `dl`. `gradient` is
// the intermediate buffer and may be `dl`.
template <typename M, typename Map>
void logit_gradient(const Backward<M>& f, const SequenceMaps& m, std::int64_t h,
                    const HeadParts& parts, float* gradient, Map* dl) {
  using T = typename M::T;
  using Cells = typename M::Cells;
  const FusedAttentionBackward::Args& args = f.args;
  const std::int64_t d = f.s.d, e = f.s.e;
  const T* const carry =
      args.carry.defined() ? args.carry.as<const T>() + m.at(h, 0) : nullptr;
  const T* const dcarry =
      args.dcarry.defined() ? args.dcarry.as<const T>() + m.at(h, 0) : nullptr;
  if (carry == nullptr) {  // recompute L: there is no convolution
    const auto k = rows_of<const T>(args.in.k, m.key, h * d);
    M::pack_transposed(k, d, m.n_k, parts.packed);
    plain_logits<M>(args.in, m, h, 0, m.n_q, parts.packed, parts.probabilities,
                    parts.wide);
  }
  const auto dy = rows_of<const T>(args.dy, m.query, h * e);
  const auto v = rows_of<const T>(args.in.v, m.key, h * e);
  M::pack_transposed(v, e, m.n_k, parts.packed);
  multiply<Cells>(M::left(dy, m.n_q, e, parts.wide), parts.packed, m.n_q,
                  M::cells(e), m.n_k, 1.0f, gradient, m.n_k);
  const float t = static_cast<float>(args.in.softmax_scale);
  const Vf scale = f.drop.scale();
  for (std::int64_t i = 0; i < m.n_q; ++i) {
    const std::int64_t at = i * m.n_k;
    float* const kept = parts.probabilities + at;
    Map* const to = dl + i * map_stride(dl, m.n_k);
    const T* const more = dcarry == nullptr ? nullptr : dcarry + at;
    const float* const statistics =
        args.statistics.as<const float>() + 2 * m.row(h, i);
    // Inlined by force: GCC would call it for each row, and short rows would
    // stall on its arguments, because a load of two of them at once waits until
    // both are stored.
    const auto from = [&](const auto* logits, auto keep) EA_INLINE_CALL {
      if (m.cells.mask() == nullptr) {
        softmax_gradient_row(logits, kept, parts.row, gradient + at, to,
                             m.cells.columns(i), t, statistics, more, keep,
                             NoMask{});
      } else {
        softmax_gradient_row(logits, kept, parts.row, gradient + at, to,
                             m.cells.columns(i), t, statistics, more, keep,
                             KeyMask{m.cells.mask()});
      }
      m.cells.clear(i, kept);
      m.cells.clear(i, to);
    };
    const auto run = [&](auto keep) EA_INLINE_CALL {
      carry == nullptr ? from(kept, keep) : from(carry + at, keep);
    };
    if (f.drop.on()) {
      const std::uint32_t* const words =
          f.drop.draw(m.at(h, i), m.n_k, parts.words);
      run([&](std::int64_t j, Vf x) {
        return f.drop.kept(words + j) ? x * scale : set(0.0f);
      });
    } else {
      run([](std::int64_t, Vf x) { return x; });
    }
  }
  M::pack(dy, m.n_q, e, parts.packed);
  multiply_into<Cells>(M::left_transposed(parts.probabilities, m.n_q, m.n_k,
                                          static_cast<float*>(nullptr)),
                       parts.packed, m.n_k, M::cells(m.n_q), e, 1.0f,
                       rows_of<T>(args.dv, m.key, h * e), parts.wide);
}

// Without a convolution: writes dM = p dL, and dS = s dL in place of dL.
template <typename M>
void plain_gradients(const Backward<M>& f, const SequenceMaps& m,
                     std::int64_t h, float* dl) {
  using T = typename M::T;
  const EvolveCoefficients& c = f.args.in.c;
  T* const dprevious = f.args.dprevious.defined()
                           ? f.args.dprevious.template as<T>() + m.at(h, 0)
                           : nullptr;
  if (dprevious == nullptr && c.s == 1.0) return;
  const Vf p = set(static_cast<float>(c.p));
  const Vf s = set(static_cast<float>(c.s));
  for_vectors(m.n_q * m.n_k, [&](std::int64_t j, auto part) {
    const Vf d = load(dl + j, part);
    if (dprevious != nullptr) store(dprevious + j, p * d, part);
    store(dl + j, s * d, part);
  });
}

// Computes dQ = scale dS K, dK = scale dS^T Q and dB = dS of one head;
// overwrites dS.
template <typename M, typename Map>
void score_products(const Backward<M>& f, const SequenceMaps& m, std::int64_t h,
                    Map* ds, const HeadParts& parts) {
  using T = typename M::T;
  using Cells = typename M::Cells;
  const FusedAttention& in = f.args.in;
  const float scale = static_cast<float>(in.scale);
  const std::int64_t d = f.s.d;
  if (f.args.dscore_bias.defined()) {
    T* const to = f.args.dscore_bias.template as<T>() + m.at(h, 0);
    for (std::int64_t i = 0; i < m.n_q; ++i) {
      const Map* const row = ds + i * map_stride(ds, m.n_k);
      for_vectors(m.n_k, [&](std::int64_t j, auto part) {
        store(to + i * m.n_k + j, load(row + j, part), part);
      });
    }
  }
  const auto q = rows_of<const T>(in.q, m.query, h * d);
  const auto k = rows_of<const T>(in.k, m.key, h * d);
  M::pack(k, m.n_k, d, parts.packed);
  multiply_into<Cells>(M::left(ds, m.n_q, m.n_k, parts.probabilities),
                       parts.packed, m.n_q, M::cells(m.n_k), d, scale,
                       rows_of<T>(f.args.dq, m.query, h * d), parts.wide);
  M::pack(q, m.n_q, d, parts.packed);
  multiply_into<Cells>(
      M::left_transposed(ds, m.n_q, m.n_k, parts.probabilities), parts.packed,
      m.n_k, M::cells(m.n_q), d, scale, rows_of<T>(f.args.dk, m.key, h * d),
      parts.wide);
}

// dL and dS of a group of sequences. `cells` and `rows` count those of all
// sequences before the group.
template <typename Map>
struct GroupMaps {
  Map *logits, *scores;
  std::int64_t cells, rows;
  // Returns the index of cell (h, i, 0). Each row may have one cell of padding.
  EA_INLINE std::int64_t at(const SequenceMaps& m, std::int64_t h,
                            std::int64_t i) const {
    return m.begin - cells + m.row(0, 0) - rows +
           (h * m.n_q + i) * map_stride(logits, m.n_k);
  }
};

// Scratch of a job of the second phase. `cells` holds G as converted by
// in_cells(). I later overwrites it, or dI in `conv` if in_cells() needs no
// memory.
struct BlockParts {
  float *gate, *cells, *conv, *wide;
  std::int64_t* offset;
};

// Computes I = a M + b S of a block, with a halo of r rows; recomputes S.
template <typename M>
Padded<typename M::Taps::Map> mixed(const Backward<M>& f,
                                    const PackedHeads<M>& keys,
                                    const SequenceMaps& m,
                                    const MapBlock& block,
                                    const BlockParts& parts) {
  using T = typename M::T;
  using Map = typename M::Taps::Map;
  const FusedAttention& in = f.args.in;
  const std::int64_t r = f.s.r, top = block.row - r;
  float* const memory = M::Taps::kValues == 1 ? parts.conv : parts.cells;
  const Padded<Map> to(reinterpret_cast<Map*>(memory), f.s.pad, m.n_k,
                       block.rows + 2 * r);
  const T* const previous = in.previous.template as<const T>();
  const Vf a = set(static_cast<float>(in.c.a));
  const Vf b = set(static_cast<float>(in.c.b));
  const std::int64_t from = top < 0 ? 0 : top;
  const std::int64_t end = top + to.rows < m.n_q ? top + to.rows : m.n_q;
  for (std::int64_t h = 0; h < m.heads; ++h) {
    const Scores scores =
        scores_at(to.head(h) + to.radius + (from - top) * to.width, to.width,
                  parts.conv, m.n_k);
    score_rows<M>(in, m, h, from, end - from, keys.at(block.sequence, h),
                  scores.data, scores.stride, parts.wide);
    fill_head(to, h, m.cells, top,
              [&](std::int64_t i, std::int64_t j, auto part) {
                const T* const cell =
                    previous == nullptr ? nullptr : previous + m.at(h, i) + j;
                const float* const score =
                    scores.data + (i - from) * scores.stride + j;
                return mix(a, cell, b, load(score, part), part);
              });
  }
  clear_end(to, m.heads);
  return to;
}

// Computes dS, dM and the sums of the weights' gradients for a block of rows.
template <typename M>
void convolution_block(const Backward<M>& f, const PackedHeads<M>& keys,
                       const TapWeights<typename M::Taps>& turned,
                       const MapBlock& block,
                       const GroupMaps<typename M::Taps::Map>& maps,
                       const BlockParts& parts,
                       WeightSums<typename M::Taps>& sums, float* dbias) {
  using T = typename M::T;
  using Map = typename M::Taps::Map;
  const FusedAttentionBackward::Args& args = f.args;
  const EvolveCoefficients& c = args.in.c;
  const std::int64_t r = f.s.r;
  const SequenceMaps m(f.layout(), block.sequence);
  const Vf w = set(static_cast<float>(c.w));
  const Padded<Map> g(reinterpret_cast<Map*>(parts.gate), f.s.pad, m.n_k,
                      block.rows + 2 * r);
  const std::int64_t begin = block.row + f.s.down, end = begin + block.rows;
  for (std::int64_t h = 0; h < m.heads; ++h) {
    // Sum G before rounding, row by row: that is more accurate than one sum
    // over the block. `line` is the sum of the current row.
    Vf sum = set(0.0f), line = set(0.0f);
    fill_head(g, h, m.cells, begin - r,
              [&](std::int64_t i, std::int64_t j, auto part) {
                const Vi open =
                    load_gates(gates_of(m, args.gates, h, i), j, m.n_k);
                const Vf d = load(maps.logits + maps.at(m, h, i) + j, part);
                const Vf x = open ? w * d : set(0.0f);
                if (j == 0) {
                  sum += line;
                  line = set(0.0f);
                }
                if (begin <= i && i < end) line += x;
                return x;
              });
    dbias[h] += reduce_add(sum + line);
  }
  clear_end(g, m.heads);
  tap_offsets(g, m.heads, f.s.k, parts.offset);
  const Convolved di(parts.conv, g, block.rows);
  convolve_gradient(g, f.s, parts.offset, turned, block.rows, parts.cells, di);
  const Vf va = set(static_cast<float>(c.a));
  const Vf vb = set(static_cast<float>(c.b));
  const Vf vp = set(static_cast<float>(c.p));
  const Vf vs = set(static_cast<float>(c.s));
  T* const dprevious = args.dprevious.as<T>();
  for (std::int64_t h = 0; h < m.heads; ++h) {
    for (std::int64_t i = 0; i < block.rows; ++i) {
      const float* const row = di.row(h, i);
      const std::int64_t at = m.at(h, block.row + i);
      const std::int64_t own = maps.at(m, h, block.row + i);
      const Map* const dl = maps.logits + own;
      Map* const ds = maps.scores + own;
      for_vectors(m.n_k, [&](std::int64_t j, auto part) {
        const Vf d = load(row + j, part), l = load(dl + j, part);
        store_factor(ds + j, fma(vb, d, vs * l), part);
        if (dprevious != nullptr) {
          store(dprevious + at + j, fma(va, d, vp * l), part);
        }
      });
      m.cells.clear(block.row + i, ds);
      for (std::int64_t j = m.n_k; j < map_stride(ds, m.n_k); ++j) {
        store_one(ds + j, 0.0f);
      }
      if (dprevious != nullptr) {
        m.cells.clear(block.row + i, dprevious + at);
      }
    }
  }
  const Padded<Map> input = mixed(f, keys, m, block, parts);
  sums.add(g, r, input.data, parts.offset, block.rows);
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
