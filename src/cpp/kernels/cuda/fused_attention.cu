// Fused attention, forward: logits with the evolving step, softmax and context.
#include "kernels/cuda/conv_kernel.cuh"
#include "kernels/cuda/fused_scores.cuh"
#include "kernels/cuda/fused_tiles.cuh"
#include "kernels/cuda/run.h"
#include "kernels/cuda/scratch.h"
#include "kernels/fused_attention.h"

namespace ea::cuda {

namespace {

// Stores L, and gates: whether Z is above 0.
template <typename T>
struct LogitsWork : EvolvedWork<T, float> {
  static constexpr bool kGates = true;
  std::uint8_t* bits;  // or null
  std::int64_t heads;

  __device__ void gate(const MapBlock& at, int h, std::int64_t i,
                       std::int64_t j, std::uint8_t byte) const {
    if (bits != nullptr) bits[gate_of(at, heads, h, i, j)] = byte;
  }
};

template <typename T>
void convolved_logits(const FusedAttention& in, T* logits,
                      std::uint8_t* gates) {
  const MapLayout& layout = in.layout;
  const Scratch<float> scores(current_stream(), layout.numel());
  store_scores<T>(in, scores.data());
  run_conv<T>(
      layout, in.weight.dim(-1),
      {in.weight.as<T>(), in.bias.as<T>(), false, in.shift},
      LogitsWork<T>{
          {mixed_window<T>(in, scores.data()), logits}, gates, layout.heads});
}

template <typename T>
struct Context {
  TokenRows<T> q, k, v, y;
  float* statistics;  // or null
  std::int64_t heads;
  float softmax_scale;
  DropBits drop;
};

// Each block loops over the keys of its rows once. For each row it keeps the
// greatest t L so far, where t includes log2(e) for powers of 2; the sum of
// 2^(t L - greatest); and the sum of the same terms times dropout and V, which
// the first sum divides to give y. When the greatest value grows, both sums are
// rescaled.
template <typename T, typename Logits>
__global__ void __launch_bounds__(kProductThreads, kContextBlocks<T>)
    context_kernel(MapBlocks blocks, Context<T> c, Logits logits) {
  using S = Share<T>;
  EA_DYNAMIC_SHARED(T, memory);
  const TileSpace<T> space{memory, kContextRows};
  const MapBlock at = blocks.find(blockIdx.x);
  const TileJob job(at, at.queries, c.v.width);
  const std::int64_t h = job.head;
  const bool first = job.column == 0;  // among the blocks of these rows
  const int columns = of_side(c.v.width - job.column);
  StagedRows<T> q =
      staged(c.q, at.first_query, at.queries, h, space.of_rows(0));
  StagedRows<T> k = staged(c.k, at.first_key, at.keys, h, space.of_rows(1));
  StagedRows<T> v = staged(c.v, at.first_key, at.keys, h, space.of_rows(2));
  q.move(job.row, 0);
  const float t = c.softmax_scale * kLog2OfE;
  float greatest[S::kRows], total[S::kRows];
#pragma unroll
  for (int r = 0; r < S::kRows; ++r) {
    greatest[r] = -INFINITY;
    total[r] = 0.0f;
  }
  S y;
  for (int j = 0; j < at.keys; j += kSide) {
    const SquareTile tile(at, job.row, j);
    const TileCells<S> cells(at, h, tile, y);
    k.move(j, 0);
    v.move(j, job.column);
    if constexpr (Logits::kMade) bring(q, k, v);
    S e = logits.tile(at, tile, cells, q, k, first);
    if constexpr (!Logits::kMade) bring(v);  // while the logits are loading
    each_cell(e, [&](int r, int i) { e.at(r, i) *= t; });
    set_missing(at, tile, e, -INFINITY);
    const std::uint32_t kept = KeptCells<S>{c.drop}.draw(tile, cells, 0);
    const float kept_factor = c.drop.factor();
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      float most = greatest[r];
#pragma unroll
      for (int i = 0; i < S::kCells; ++i) most = fmaxf(most, e.at(r, i));
      most = over_row(e, most, Largest{});
      // If all logits so far are -infinity, the sums stay 0.
      const float base = most == -INFINITY ? 0.0f : most;
      const float factor = exp2_near(greatest[r] - base);
      greatest[r] = most;
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < S::kCells; ++i) {
        const float one = exp2_near(e.at(r, i) - base);
        sum += one;
        e.at(r, i) = is_kept<S>(kept, r, i) ? one * kept_factor : 0.0f;
        y.at(r, i) *= factor;
      }
      total[r] = total[r] * factor + sum;
    }
    add_rows(space.of_tile(0), v, job.column, tile.columns, tile.rows, columns,
             OwnProduct<S>{e, y});
  }
  const SquareTile rows(at, job.row, 0);
#pragma unroll
  for (int r = 0; r < S::kRows; ++r) {
    const float sum = over_row(y, total[r], Plus{});
    const int row = y.row(r);
    if (row >= rows.rows) continue;
    // No cell of this row exists.
    const bool none = at.keys == 0 || (!at.dense() && sum == 0.0f);
    const float inverse = none ? 0.0f : 1.0f / sum;
    store_row(y, r, inverse,
              c.y.row(at.first_query + job.row + row, h) + job.column, columns);
    if (y.column(0) != 0 || !first || c.statistics == nullptr) continue;
    float* const to =
        c.statistics + 2 * row_number(at, c.heads, h, job.row + row);
    to[0] = none ? 0.0f : greatest[r] / kLog2OfE;
    to[1] = inverse;
  }
}

template <typename T, typename Logits>
void run_context(const FusedAttentionForward::Args& args,
                 const Logits& logits) {
  const FusedAttention& in = args.in;
  const MapLayout& layout = in.layout;
  const Context<T> context{{in.q, layout.heads},
                           {in.k, layout.heads},
                           {in.v, layout.heads},
                           {args.y, layout.heads},
                           args.statistics.as<float>(),
                           layout.heads,
                           static_cast<float>(in.softmax_scale),
                           DropBits(in.p, in.seed, in.stream)};
  const auto count = [&](std::int64_t queries, std::int64_t) {
    return layout.heads * ProductSize{queries, context.v.width, 0}.tiles();
  };
  launch_map_blocks(layout, count, kProductThreads,
                    TileSpace<T>::bytes(kContextRows, kOwnTiles<T>),
                    context_kernel<T, Logits>, context, logits);
}

template <typename T>
void forward_of(const FusedAttentionForward::Args& args) {
  const FusedAttention& in = args.in;
  const MapLayout& layout = in.layout;
  if (in.c.w == 0.0) {
    return run_context<T>(args, made_logits<T>(in, args.carry.as<T>()));
  }
  const Scratch<T> own(current_stream(),
                       args.carry.defined() ? 0 : layout.numel());
  T* const logits = args.carry.defined() ? args.carry.as<T>() : own.data();
  convolved_logits(in, logits, args.gates.as<std::uint8_t>());
  run_context<T>(args, StoredLogits<T>{logits});
}

}  // namespace

// Without a convolution one kernel does all the work. With one, the logits of
// all heads are computed first and stored in the carry, or in scratch memory if
// no carry is wanted.
EA_RUN_CUDA(FusedAttentionForward, forward_of, in.q)

}  // namespace ea::cuda
