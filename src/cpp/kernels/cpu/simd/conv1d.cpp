// SIMD convolution along packed sequences (kernels/conv1d.h).
#include "kernels/conv1d.h"
#include "kernels/cpu/simd/conv1d-inl.h"
#include "kernels/cpu/simd/conv1d_weight-inl.h"
#include "kernels/cpu/simd/run-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// Multiply-adds per job: some 40 us on one core.
constexpr std::int64_t kJobWork = 1 << 21;

// Computes y from x with packed weights. Every row is summed over taps and
// channels in the same order, wherever it lies.
template <typename M>
void convolve(const typename M::T* x, std::int64_t depth, std::int64_t count,
              const Conv1dTaps& taps, const float* packed,
              const typename M::T* bias, typename M::T* y, std::int64_t cols) {
  using T = typename M::T;
  const std::int64_t total = cut_rows(taps, nullptr);
  if (total == 0 || cols == 0) return;
  const Scratch table(total * static_cast<std::int64_t>(sizeof(RowBlock)));
  RowBlock* blocks = table.as<RowBlock>();
  cut_rows(taps, blocks);
  const std::int64_t cells = M::count(depth), size = count * cells;
  const std::int64_t work = kTileRows * size * cols + 1;
  parallel_chunks(
      total, work < kJobWork ? kJobWork / work : 1,
      [&](std::int64_t first, std::int64_t last) {
        const Scratch memory(size * kTileRows * 4 + count * 8);
        const float** found = memory.as<const float*>();
        float* copies = reinterpret_cast<float*>(found + count);
        for (const RowBlock* b = blocks + first; b < blocks + last; ++b) {
          find_rows<M>(x, depth, count, taps, *b, found, copies);
          for (std::int64_t col = 0; col < cols; col += kPanel) {
            const std::int64_t left = cols - col < kPanel ? cols - col : kPanel;
            const bool wide = left > kLanes;
            const Part part(wide ? left - kLanes : left);
            const float* panel = packed + col * size;
            const T* start = bias == nullptr ? nullptr : bias + col;
            T* to = y + b->row * cols + col;
            with_count<kTileRows>(b->rows, [&](auto n) {
              (wide ? conv_tile<M, n, 2>
                    : conv_tile<M, n, 1>)(found, count, cells, panel, start, to,
                                          cols, part);
            });
          }
        }
      });
}

template <typename M>
void run_forward(const Conv1dForward::Args& args) {
  using T = typename M::T;
  const std::int64_t out = args.weight.shape[0], in = args.weight.shape[1],
                     taps = args.weight.shape[2];
  const Scratch packed(packed_size(taps * M::count(in), out) * 4);
  pack_taps<M>(args.weight.as<T>(), out, in, taps, false, packed.as<float>());
  convolve<M>(args.x.as<T>(), in, taps, args.taps, packed.as<float>(),
              args.bias.as<T>(), args.y.as<T>(), out);
}

// dx[s, c] = sum_{j, o} weight[o, c, j] dy[s - (j dilation - reach), o]. With i
// = taps - 1 - j this is a convolution of dy whose tap i reads row s + i
// dilation - ((taps - 1) dilation - reach).
template <typename M>
void run_input_gradient(const Conv1dBackward::Args& args) {
  using T = typename M::T;
  const std::int64_t out = args.weight.shape[0], in = args.weight.shape[1],
                     count = args.weight.shape[2];
  const Scratch packed(packed_size(count * M::count(out), in) * 4);
  pack_taps<M>(args.weight.as<T>(), out, in, count, true, packed.as<float>());
  Conv1dTaps taps = args.taps;
  taps.reach = (count - 1) * taps.dilation - taps.reach;
  convolve<M>(args.dy.as<T>(), out, count, taps, packed.as<float>(),
              static_cast<const T*>(nullptr), args.dx.as<T>(), in);
}

template <typename M>
void run_backward(const Conv1dBackward::Args& args) {
  if (args.dx.defined()) run_input_gradient<M>(args);
  if (args.dweight.defined()) run_weight_gradient<M>(args);
}

}  // namespace

template <>
void run<Conv1dForward>(const Conv1dForward::Args& args) {
  if (args.x.dtype != DType::bf16) return run_forward<WideCells<float>>(args);
#if defined(__AVX512F__)
  if (takes_pairs()) return run_forward<PairCells>(args);
#endif
  run_forward<WideCells<bfloat16>>(args);
}

template <>
void run<Conv1dBackward>(const Conv1dBackward::Args& args) {
  if (args.x.dtype != DType::bf16) return run_backward<WideCells<float>>(args);
#if defined(__AVX512F__)
  if (takes_pairs()) return run_backward<PairCells>(args);
#endif
  run_backward<WideCells<bfloat16>>(args);
}

}  // namespace ea::simd::EA_TARGET
