// SIMD fused attention, backward (kernels/fused_attention.h): each group of
// sequences goes through three phases, by heads, by blocks of rows, by heads.
#include "kernels/cpu/simd/fused_gradients-inl.h"
#include "kernels/cpu/simd/run-inl.h"
#include "kernels/fused_attention.h"

namespace ea::simd::EA_TARGET {
namespace {

// Cells of all heads of a group: two float32 maps stay in the last-level cache.
constexpr std::int64_t kGroupCells = 1 << 20;
constexpr std::int64_t kGradientCells = 2816, kGradientRows = 10;

// Sums of the convolution's gradients over all groups, in group order.
class ParameterSums {
 public:
  explicit ParameterSums(const FusedSizes& s)
      : weights_(s.heads * s.taps),
        size_(weights_ + s.heads),
        memory_(2 * size_ * static_cast<std::int64_t>(sizeof(float))) {
    for (std::int64_t i = 0; i < size_; ++i) total()[i] = 0.0f;
  }
  std::int64_t size() const { return size_; }
  std::int64_t weights() const { return weights_; }
  void add(const float* partials, std::int64_t jobs) {
    float* const group = total() + size_;
    combine_blocks(partials, jobs, size_, group, size_);
    for (std::int64_t i = 0; i < size_; ++i) total()[i] += group[i];
  }
  template <typename T>
  void write(T* dweight, T* dbias) const {
    for (std::int64_t i = 0; i < weights_; ++i) {
      store_one(dweight + i, total()[i]);
    }
    for (std::int64_t i = weights_; i < size_; ++i) {
      store_one(dbias + i - weights_, total()[i]);
    }
  }

 private:
  float* total() const { return memory_.as<float>(); }
  std::int64_t weights_, size_;
  Scratch memory_;
};

// Second phase of a group: computes dS, dM and the convolution's gradients from
// dL.
template <typename M>
void convolution_phase(const Backward<M>& f, const PackedHeads<M>& keys,
                       const TapWeights<typename M::Taps>& turned,
                       const MapLayout& group, std::int64_t first,
                       const GroupMaps<typename M::Taps::Map>& maps,
                       ParameterSums& total) {
  using Taps = typename M::Taps;
  const FusedSizes& s = f.s;
  const MapJobs jobs(group, kGradientCells, kGradientRows);
  const std::int64_t padded = jobs.largest([&](const MapBlock& b) {
    return padded_floats<typename Taps::Map>(
        s.heads, s.pad, group.n_k(b.sequence), b.rows + 2 * s.r);
  });
  const std::int64_t cells = jobs.largest([&](const MapBlock& b) {
    if (Taps::kValues == 1) return std::int64_t{0};
    const std::int64_t rows = b.rows + 2 * s.r, n_k = group.n_k(b.sequence);
    const std::int64_t gradient = cells_size<Taps>(s.heads, s.pad, n_k, rows);
    const std::int64_t input =
        padded_floats<typename Taps::Map>(s.heads, s.pad, n_k, rows);
    return gradient > input ? gradient : input;
  });
  const std::int64_t scores = jobs.largest([&](const MapBlock& b) {
    return (b.rows + 2 * s.r) * group.n_k(b.sequence);
  });
  const std::int64_t convolved = jobs.largest([&](const MapBlock& b) {
    return convolved_size(s.heads, s.pad, group.n_k(b.sequence), b.rows);
  });
  const std::int64_t second = Taps::kValues == 1 ? padded : scores;
  const std::int64_t conv = convolved > second ? convolved : second;
  const std::int64_t wide =
      jobs.largest([&](const MapBlock& b) { return b.rows + 2 * s.r; }) * s.d;
  const std::int64_t sums_size = WeightSums<Taps>::size(s.heads, s.taps);
  const Scratch partials(jobs.count() * total.size() *
                             static_cast<std::int64_t>(sizeof(float)) +
                         1);
  parallel_for(jobs.count(), [&](std::int64_t job) {
    [[maybe_unused]] const typename M::Setup setup;
    const Scratch scratch((padded + cells + conv + wide + sums_size) *
                              sizeof(float) +
                          s.taps * sizeof(std::int64_t));
    BlockParts parts;
    parts.offset = scratch.as<std::int64_t>();
    parts.gate = reinterpret_cast<float*>(parts.offset + s.taps);
    parts.cells = parts.gate + padded;
    parts.conv = parts.cells + cells;
    parts.wide = parts.conv + conv;
    WeightSums<Taps> sums(parts.wide + wide, s.heads, s.taps);
    float* const dweight = partials.as<float>() + job * total.size();
    float* const dbias = dweight + total.weights();
    for (std::int64_t o = 0; o < s.heads; ++o) dbias[o] = 0.0f;
    jobs.for_blocks(job, [&](const MapBlock& block) {
      convolution_block(f, keys, turned,
                        {block.sequence + first, block.row, block.rows}, maps,
                        parts, sums, dbias);
    });
    sums.finish(dweight);
  });
  total.add(partials.as<const float>(), jobs.count());
}

// Calls fn(sequence, head, scratch) for the heads of sequences first .. last.
template <typename M, typename Fn>
void for_group_heads(const Backward<M>& f, std::int64_t first,
                     std::int64_t last, bool maps, Fn&& fn) {
  const std::int64_t heads = f.s.heads, count = (last - first) * heads;
  const HeadSizes size(f, first, last, maps);
  if (count == 0) return;
  const std::int64_t cells =
      heads * (f.layout().cell_offsets[last] - f.layout().cell_offsets[first]);
  const std::int64_t grain = items_per_job(ceil_div(cells, count));
  parallel_chunks(count, grain, [&](std::int64_t begin, std::int64_t end) {
    [[maybe_unused]] const typename M::Setup setup;
    const Scratch scratch(size.total * sizeof(float));
    const HeadParts parts(scratch.as<float>(), size);
    for (std::int64_t i = begin; i < end; ++i) {
      fn(first + i / heads, i % heads, parts);
    }
  });
}

// Without a convolution, heads are independent and take one phase.
template <typename M>
void plain_backward(const Backward<M>& f) {
  for_group_heads(f, 0, f.layout().sequences, true,
                  [&](std::int64_t b, std::int64_t h, const HeadParts& parts) {
                    const SequenceMaps m(f.layout(), b);
                    logit_gradient(f, m, h, parts, parts.gradient,
                                   parts.gradient);
                    plain_gradients(f, m, h, parts.gradient);
                    score_products(f, m, h, parts.gradient, parts);
                  });
}

// Returns the end of the group that starts at sequence `first` and has about
// kGroupCells cells.
std::int64_t group_end(const MapLayout& layout, std::int64_t first) {
  std::int64_t last = first + 1;
  while (last < layout.sequences &&
         layout.heads *
                 (layout.cell_offsets[last + 1] - layout.cell_offsets[first]) <=
             kGroupCells) {
    ++last;
  }
  return last;
}

template <typename M>
void convolved_backward(const Backward<M>& f) {
  using T = typename M::T;
  using Map = typename M::Taps::Map;
  const FusedAttentionBackward::Args& args = f.args;
  const MapLayout& layout = f.layout();
  const PackedHeads<M> keys(args.in.k, layout, true);
  const TapWeights<typename M::Taps> turned(
      args.in.weight.template as<const T>(), static_cast<const T*>(nullptr),
      f.s.heads, f.s.k, true);
  ParameterSums total(f.s);
  for (std::int64_t first = 0; first < layout.sequences;) {
    const std::int64_t last = group_end(layout, first);
    const MapLayout group{layout.heads, last - first, layout.q_offsets + first,
                          layout.k_offsets + first,
                          layout.cell_offsets + first};
    const std::int64_t cells = layout.begin(first);
    const std::int64_t rows = layout.heads * layout.q_offsets[first];
    const std::int64_t size = layout.begin(last) - cells +
                              layout.heads * layout.q_offsets[last] - rows;
    const Scratch memory(2 * size * static_cast<std::int64_t>(sizeof(Map)) + 1);
    const GroupMaps<Map> maps{memory.as<Map>(), memory.as<Map>() + size, cells,
                              rows};
    for_group_heads(
        f, first, last, sizeof(Map) < sizeof(float),
        [&](std::int64_t b, std::int64_t h, const HeadParts& parts) {
          const SequenceMaps m(layout, b);
          Map* const dl = maps.logits + maps.at(m, h, 0);
          const Scores gradient = scores_at(dl, m.n_k, parts.gradient, m.n_k);
          logit_gradient(f, m, h, parts, gradient.data, dl);
        });
    convolution_phase(f, keys, turned, group, first, maps, total);
    for_group_heads(
        f, first, last, false,
        [&](std::int64_t b, std::int64_t h, const HeadParts& parts) {
          const SequenceMaps m(layout, b);
          score_products(f, m, h, maps.scores + maps.at(m, h, 0), parts);
        });
    first = last;
  }
  total.write(args.dweight.as<T>(), args.dbias.as<T>());
}

template <typename M>
void backward_of(const FusedAttentionBackward::Args& args) {
  const Backward<M> f(args);
  args.in.c.w != 0.0 ? convolved_backward(f) : plain_backward(f);
}

}  // namespace

template <>
void run<FusedAttentionBackward>(const FusedAttentionBackward::Args& args) {
  if (args.in.q.dtype == DType::f32) {
    return backward_of<FloatProducts<float>>(args);
  }
#if defined(__AVX512F__)
  if (takes_pairs()) {
    return takes_tiles() ? backward_of<TileProducts>(args)
                         : backward_of<PairProducts>(args);
  }
#endif
  backward_of<FloatProducts<bfloat16>>(args);
}

}  // namespace ea::simd::EA_TARGET
