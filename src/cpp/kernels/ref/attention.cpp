// Reference attention: scores Q K^T and context P V, head by head.
#include "kernels/attention.h"
#include "kernels/ref/map_cells.h"
#include "kernels/ref/matrix.h"
#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

// Head h of sequence b: reads and writes its token rows and its map.
template <typename T>
class HeadOfSequence {
 public:
  using A = Accumulator<T>;

  HeadOfSequence(const MapLayout& layout, std::int64_t sequence,
                 std::int64_t head)
      : layout_(layout), b_(sequence), h_(head) {}

  // Rows of [tokens, heads * d]: the sequence's queries or keys, d columns.
  Matrix<A> read_queries(const TensorView& t) const {
    return read_tokens(t, layout_.q_offsets[b_], layout_.n_q(b_));
  }
  Matrix<A> read_keys(const TensorView& t) const {
    return read_tokens(t, layout_.k_offsets[b_], layout_.n_k(b_));
  }
  void write_queries(const Matrix<A>& from, const TensorView& t) const {
    write_matrix(from, tokens(t, layout_.q_offsets[b_]), t.strides[0]);
  }
  void write_keys(const Matrix<A>& from, const TensorView& t) const {
    write_matrix(from, tokens(t, layout_.k_offsets[b_]), t.strides[0]);
  }

  // The map [n_q, n_k]; cells that do not exist are 0.
  Matrix<A> read_map(const TensorView& t) const {
    auto maps = read_matrix<Matrix<A>>(map(t), layout_.n_k(b_), layout_.n_q(b_),
                                       layout_.n_k(b_));
    keep(maps);
    return maps;
  }
  void write_map(Matrix<A> from, const TensorView& t) const {
    keep(from);
    write_matrix(from, map(t), layout_.n_k(b_));
  }

 private:
  T* tokens(const TensorView& t, std::int64_t first) const {
    const std::int64_t d = t.dim(1) / layout_.heads;
    return t.as<T>() + first * t.strides[0] + h_ * d;
  }
  Matrix<A> read_tokens(const TensorView& t, std::int64_t first,
                        std::int64_t rows) const {
    return read_matrix<Matrix<A>>(tokens(t, first), t.strides[0], rows,
                                  t.dim(1) / layout_.heads);
  }
  void keep(Matrix<A>& maps) const {
    for (std::int64_t i = 0; i < maps.rows() && !layout_.dense(); ++i) {
      for (std::int64_t j = 0; j < maps.cols(); ++j) {
        if (!exists(layout_, b_, i, j)) maps(i, j) = A(0);
      }
    }
  }
  T* map(const TensorView& t) const {
    return t.as<T>() + layout_.begin(b_) +
           h_ * layout_.n_q(b_) * layout_.n_k(b_);
  }

  const MapLayout& layout_;
  std::int64_t b_, h_;
};

// Calls fn(HeadOfSequence<T>) for every sequence and head.
template <typename Fn>
void for_each_head(DType dtype, const char* kernel, const MapLayout& layout,
                   Fn&& fn) {
  visit_floating(dtype, kernel, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t b = 0; b < layout.sequences; ++b) {
      for (std::int64_t h = 0; h < layout.heads; ++h) {
        fn(HeadOfSequence<T>(layout, b, h));
      }
    }
  });
}

}  // namespace

template <>
void run<AttentionScores>(const AttentionScores::Args& args) {
  for_each_head(args.q.dtype, AttentionScores::name, args.layout,
                [&](const auto& head) {
                  const auto q = head.read_queries(args.q);
                  const auto k = head.read_keys(args.k);
                  auto scores = product(q, turned(k));
                  scores *= args.scale;
                  head.write_map(scores, args.scores);
                });
}

// S = scale Q K^T, so dQ = scale dS K and dK = scale dS^T Q.
template <>
void run<AttentionScoresBackward>(const AttentionScoresBackward::Args& args) {
  for_each_head(args.q.dtype, AttentionScoresBackward::name, args.layout,
                [&](const auto& head) {
                  const auto ds = head.read_map(args.dscores);
                  auto dq = product(ds, head.read_keys(args.k));
                  auto dk = product(turned(ds), head.read_queries(args.q));
                  dq *= args.scale;
                  dk *= args.scale;
                  head.write_queries(dq, args.dq);
                  head.write_keys(dk, args.dk);
                });
}

template <>
void run<AttentionContext>(const AttentionContext::Args& args) {
  for_each_head(args.p.dtype, AttentionContext::name, args.layout,
                [&](const auto& head) {
                  const auto p = head.read_map(args.p);
                  const auto y = product(p, head.read_keys(args.v));
                  head.write_queries(y, args.y);
                });
}

// Y = P V, so dP = dY V^T and dV = P^T dY.
template <>
void run<AttentionContextBackward>(const AttentionContextBackward::Args& args) {
  for_each_head(args.p.dtype, AttentionContextBackward::name, args.layout,
                [&](const auto& head) {
                  const auto p = head.read_map(args.p);
                  const auto dy = head.read_queries(args.dy);
                  const auto v = head.read_keys(args.v);
                  const auto dp = product(dy, turned(v));
                  const auto dv = product(turned(p), dy);
                  head.write_map(dp, args.dp);
                  head.write_keys(dv, args.dv);
                });
}

}  // namespace ea::ref
