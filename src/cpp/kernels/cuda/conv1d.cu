// Convolution along packed sequences: one tiled product per tap with shifted
// rows; all taps accumulate into the same sums.
#include <algorithm>

#include "kernels/conv1d.h"
#include "kernels/cuda/product.cuh"
#include "kernels/cuda/run.h"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/sum_columns.h"

namespace ea::cuda {

namespace {

// Rows of the sequence that contains a row.
struct Bounds {
  std::int64_t begin, end;
};

// The offsets are passed as a kernel parameter (see map_rows.cuh).
struct Sequences {
  static constexpr int kMost = 384;
  std::int64_t offsets[kMost + 1];
  int count;
};

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    bounds_kernel(Sequences sequences, Bounds* bounds) {
  const std::int64_t row =
      sequences.offsets[0] + std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= sequences.offsets[sequences.count]) return;
  const int b = sequence_of(sequences.offsets, sequences.count, row);
  bounds[row] = {sequences.offsets[b], sequences.offsets[b + 1]};
}

void find_bounds(const Conv1dTaps& taps, Bounds* bounds) {
  for (std::int64_t b = 0; b < taps.sequences; b += Sequences::kMost) {
    Sequences some;
    some.count = static_cast<int>(
        std::min<std::int64_t>(Sequences::kMost, taps.sequences - b));
    std::copy_n(taps.offsets + b, some.count + 1, some.offsets);
    const std::int64_t rows = some.offsets[some.count] - some.offsets[0];
    launch(current_stream(), blocks_for(rows, kThreads), kThreads, 0,
           bounds_kernel, some, bounds);
  }
}

// Transposes the weight [out, in, taps] to [taps, out, in].
template <typename T>
__global__ void __launch_bounds__(kThreads)
    by_taps_kernel(const T* weight, T* to, std::int64_t pairs,
                   std::int64_t taps) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < pairs * taps) to[i] = weight[i % pairs * taps + i / pairs];
}

// Rows of x at distance `shift` from the packed rows first .. first + count; 0
// where the shifted row belongs to another sequence.
template <typename T, bool kAlong>
struct ShiftedRows {
  using Element = T;
  static constexpr bool kAlongDepth = kAlong;
  static constexpr int kCount = kParts<T>;
  const T* x;
  const Bounds* bounds;
  std::int64_t width, first, count, shift;

  // Adjacent rows may belong to different sequences.
  __device__ bool packs(int) const { return false; }
  __device__ void load_packs(int row, int column, Span<T>& v) const {
    load(row, column, v);
  }
  __device__ void load(int row, int column, Span<T>& v) const {
    std::int64_t place = 0;
    bool inside = false;
    if (row < count) {
      const Bounds of = bounds[first + row];
      place = first + row + shift;
      inside = place >= of.begin && place < of.end;
    }
    const StoredOperand<T, kAlong> here{x + (inside ? place * width : 0), width,
                                        inside ? 1 : 0,
                                        static_cast<int>(width)};
    here.load(0, column, v);
  }
};

// Row shifts of the taps: tap j shifts by sign (j dilation - reach).
struct Shifts {
  std::int64_t taps, dilation, reach, sign;

  __device__ std::int64_t of(std::int64_t j) const {
    return sign * (j * dilation - reach);
  }
};

// Token rows = sum over taps of shifted rows of x times the tap's weight, which
// is stored along the depth, [columns, depth], or across it.
template <typename T, bool kAlong>
struct RowsForm {
  const T* x;
  const Bounds* bounds;
  const T* weight;  // [taps, out, in]
  const T* bias;    // or null
  T* y;
  std::int64_t tokens, depth, columns;
  Shifts shifts;

  EA_HOST_DEVICE ProductSize size() const { return {tokens, columns, depth}; }
  __device__ ShiftedRows<T, true> a(std::int64_t j) const {
    return {x, bounds, depth, 0, tokens, shifts.of(j)};
  }
  __device__ StoredOperand<T, kAlong> b(std::int64_t j) const {
    const T* const tap = weight + j * depth * columns;
    if constexpr (kAlong) {
      return {tap, depth, static_cast<int>(columns), static_cast<int>(depth)};
    } else {
      return {tap, columns, static_cast<int>(depth), static_cast<int>(columns)};
    }
  }
  __device__ void store(std::int64_t row, std::int64_t column,
                        float sum) const {
    if (bias != nullptr) sum += static_cast<float>(bias[column]);
    y[row * columns + column] = T(sum);
  }
};

// Each block computes one tile, over all taps.
template <typename T, typename Form>
__global__ void __launch_bounds__(kProductThreads) rows_kernel(Form form) {
  EA_SHARED(T, left, kSquare<T>);
  EA_SHARED(T, right, kSquare<T>);
  const ProductSize size = form.size();
  const int row = static_cast<int>(blockIdx.x / size.across()) * kSide;
  const int column = static_cast<int>(blockIdx.x % size.across()) * kSide;
  const int rows = of_side(size.rows - row);
  const int columns = of_side(size.columns - column);
  Share<T> share;
  for (std::int64_t j = 0; j < form.shifts.taps; ++j) {
    add_product(form.a(j), row, form.b(j), column, static_cast<int>(size.depth),
                rows, columns, left, right, share);
  }
  each_cell(share, [&](int r, int c) {
    const int i = share.row(r), k = share.column(c);
    if (i < rows && k < columns) {
      form.store(row + i, column + k, share.at(r, c));
    }
  });
}

template <typename T, typename Form>
void run_rows(const Form& form) {
  launch(current_stream(), blocks_for(form.size().tiles(), 1), kProductThreads,
         0, rows_kernel<T, Form>, form);
}

// dweight[o, c, j] = sum over rows t of dy[t, o] x[t + shift, c], stored per
// chunk of rows as [chunks, out, in, taps]. Each block computes one tile of one
// tap.
template <typename T>
struct WeightForm {
  const T *dy, *x;
  const Bounds* bounds;
  float* sums;
  std::int64_t tokens, out, in, chunk;  // chunk: rows
  Shifts shifts;

  EA_HOST_DEVICE ProductSize size() const { return {out, in, chunk}; }
};

template <typename T>
__global__ void __launch_bounds__(kProductThreads)
    weight_kernel(WeightForm<T> form) {
  EA_SHARED(T, left, kSquare<T>);
  EA_SHARED(T, right, kSquare<T>);
  const ProductSize size = form.size();
  const std::int64_t taps = form.shifts.taps;
  const std::int64_t tile = blockIdx.x % size.tiles();
  const std::int64_t j = blockIdx.x / size.tiles() % taps;
  const std::int64_t chunk = blockIdx.x / size.tiles() / taps;
  const int row = static_cast<int>(tile / size.across()) * kSide;
  const int column = static_cast<int>(tile % size.across()) * kSide;
  const int rows = of_side(form.out - row);
  const int columns = of_side(form.in - column);
  const std::int64_t first = chunk * form.chunk;
  const std::int64_t rest = form.tokens - first;
  const int count = static_cast<int>(rest < form.chunk ? rest : form.chunk);
  const StoredOperand<T, false> a{form.dy + first * form.out, form.out, count,
                                  static_cast<int>(form.out)};
  const ShiftedRows<T, false> b{form.x, form.bounds, form.in,
                                first,  count,       form.shifts.of(j)};
  Share<T> share;
  add_product(a, row, b, column, count, rows, columns, left, right, share);
  float* const to = form.sums + chunk * form.out * form.in * taps;
  each_cell(share, [&](int r, int c) {
    const int i = share.row(r), k = share.column(c);
    if (i < rows && k < columns) {
      to[((row + i) * form.in + column + k) * taps + j] = share.at(r, c);
    }
  });
}

// Returns the rows per chunk of tokens, at least 512 and such that there are at
// most 64 chunks: the sums of each chunk take as much memory as the weight.
std::int64_t chunk_rows(std::int64_t tokens) {
  constexpr std::int64_t kLeast = 512, kChunks = 64;
  return std::max(kLeast, (tokens + kChunks - 1) / kChunks);
}

template <typename T>
void run_weight(const Conv1dBackward::Args& args, const Bounds* bounds,
                const Shifts& shifts) {
  const std::int64_t tokens = args.x.dim(0);
  const std::int64_t rows = chunk_rows(tokens);
  const std::int64_t chunks = (tokens + rows - 1) / rows;
  const std::int64_t weights = args.weight.numel();
  const Scratch<float> sums(current_stream(), chunks * weights);
  const WeightForm<T> form{
      args.dy.as<T>(),    args.x.as<T>(),     bounds, sums.data(), tokens,
      args.weight.dim(0), args.weight.dim(1), rows,   shifts};
  launch(current_stream(),
         blocks_for(chunks * shifts.taps * form.size().tiles(), 1),
         kProductThreads, 0, weight_kernel<T>, form);
  sum_columns(sums.data(), args.dweight.as<T>(), chunks, weights);
}

// Inputs of both passes: the sequence bounds of all rows, and the weight by
// taps.
template <typename T>
struct Prepared {
  Scratch<Bounds> bounds;
  Scratch<T> weight;

  Prepared(const Conv1dTaps& taps, const TensorView& w, std::int64_t tokens)
      : bounds(current_stream(), tokens), weight(current_stream(), w.numel()) {
    find_bounds(taps, bounds.data());
    launch(current_stream(), blocks_for(w.numel(), kThreads), kThreads, 0,
           by_taps_kernel<T>, w.as<const T>(), weight.data(),
           w.dim(0) * w.dim(1), w.dim(2));
  }
};

Shifts shifts_of(const Conv1dTaps& taps, const TensorView& weight,
                 std::int64_t sign) {
  return {weight.dim(2), taps.dilation, taps.reach, sign};
}

template <typename T>
void forward_of(const Conv1dForward::Args& args) {
  const std::int64_t tokens = args.x.dim(0);
  const Prepared<T> ready(args.taps, args.weight, tokens);
  run_rows<T>(RowsForm<T, true>{
      args.x.as<const T>(), ready.bounds.data(), ready.weight.data(),
      args.bias.as<const T>(), args.y.as<T>(), tokens, args.weight.dim(1),
      args.weight.dim(0), shifts_of(args.taps, args.weight, 1)});
}

// y[t] reads x[t + shift] of the same sequence, so dx[r] = sum over taps of
// dy[r - shift] W_j.
template <typename T>
void backward_of(const Conv1dBackward::Args& args) {
  const std::int64_t tokens = args.x.dim(0);
  const Prepared<T> ready(args.taps, args.weight, tokens);
  if (args.dx.defined()) {
    run_rows<T>(RowsForm<T, false>{
        args.dy.as<const T>(), ready.bounds.data(), ready.weight.data(),
        nullptr, args.dx.as<T>(), tokens, args.weight.dim(0),
        args.weight.dim(1), shifts_of(args.taps, args.weight, -1)});
  }
  if (args.dweight.defined()) {
    run_weight<T>(args, ready.bounds.data(),
                  shifts_of(args.taps, args.weight, 1));
  }
}

}  // namespace

EA_RUN_CUDA(Conv1dForward, forward_of, x)
EA_RUN_CUDA(Conv1dBackward, backward_of, x)

}  // namespace ea::cuda
