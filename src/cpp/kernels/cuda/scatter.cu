// Scatter-add of rows: the index is sorted, so that one block owns each row of
// the result and adds in the order of the index.
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/run.h"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/vec.cuh"
#include "kernels/gather.h"

namespace ea::cuda {

namespace {

using Key = std::uint64_t;  // high half: target row; low half: index position

constexpr int kThreads = 128;
constexpr int kSorted = 1024;  // keys that one block sorts
constexpr int kSortThreads = kSorted / 2;
// Terms that one block adds; rows that occur more often are added in segments.
constexpr std::int64_t kSegment = 64;

// Row -1 becomes the largest row, as does `skip`; it is ignored at the end.
constexpr std::uint32_t kNoRow = 0xffffffffu;

__device__ inline std::uint32_t row_of(Key key) {
  return static_cast<std::uint32_t>(key >> 32);
}

// Returns the first position in keys[0, n) whose key is not below `key`.
__device__ inline std::int64_t lower_bound(const Key* keys, std::int64_t n,
                                           Key key) {
  std::int64_t low = 0, high = n;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (keys[middle] < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

__device__ inline Key key_of(std::int64_t row, std::int64_t skip,
                             std::int64_t i) {
  const std::uint32_t high =
      row == skip ? kNoRow : static_cast<std::uint32_t>(row);
  return static_cast<Key>(high) << 32 | static_cast<Key>(i);
}

// Writes the keys of the index in chunks of kSorted, sorted by bitonic network.
__global__ void __launch_bounds__(kSortThreads)
    sort_chunks(const std::int64_t* index, Key* keys, std::int64_t m,
                std::int64_t skip) {
  EA_SHARED(Key, mine, kSorted);
  const std::int64_t begin = std::int64_t{blockIdx.x} * kSorted;
  for (int k = static_cast<int>(threadIdx.x); k < kSorted; k += kSortThreads) {
    const std::int64_t i = begin + k;
    mine[k] = i < m ? key_of(index[i], skip, i) : ~Key{0};
  }
  for (int size = 2; size <= kSorted; size *= 2) {
    for (int distance = size / 2; distance > 0; distance /= 2) {
      __syncthreads();
      const int t = static_cast<int>(threadIdx.x);
      const int low = t / distance * 2 * distance + t % distance;
      const int high = low + distance;
      const bool rising = (low & size) == 0;
      const Key a = mine[low], b = mine[high];
      if ((a > b) == rising) {
        mine[low] = b;
        mine[high] = a;
      }
    }
  }
  __syncthreads();
  for (int k = static_cast<int>(threadIdx.x); k < kSorted; k += kSortThreads) {
    if (begin + k < m) keys[begin + k] = mine[k];
  }
}

// All keys differ, so a key's position is the number of smaller ones, counted
// chunk by chunk.
__global__ void __launch_bounds__(kThreads)
    merge_chunks(const Key* chunks, Key* sorted, std::int64_t m) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= m) return;
  const Key key = chunks[i];
  std::int64_t place = 0;
  for (std::int64_t begin = 0; begin < m; begin += kSorted) {
    const std::int64_t n = m - begin < kSorted ? m - begin : kSorted;
    place += lower_bound(chunks + begin, n, key);
  }
  sorted[place] = key;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    zero_kernel(T* y, std::int64_t n, bool aligned) {
  const std::int64_t i =
      (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack<T>;
  if (i >= n) return;
  const float zeros[kPack<T>] = {};
  store_pack(y + i, n - i, aligned, zeros);
}

// Keys of one row: sorted[begin, end).
struct Run {
  std::int64_t begin, end;
  __device__ bool fits() const { return end - begin <= kSegment; }
};

__device__ inline Run run_of(const Key* sorted, std::int64_t m,
                             std::uint32_t row) {
  const Key first = static_cast<Key>(row) << 32;
  return {lower_bound(sorted, m, first),
          lower_bound(sorted, m, first + (Key{1} << 32))};
}

// Returns the row of `partial` for the segment that starts at sorted key s.
// Among the segments that start within the same kSegment keys, at most one
// starts a long run and at most one continues one.
__device__ inline std::int64_t slot_of(const Run& run, std::int64_t s) {
  return s / kSegment * 2 + (s == run.begin ? 0 : 1);
}

// Block (s, c): adds the segment that starts at sorted key s, if one does, for
// the columns of block c. Writes to dx if the run is a single segment.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    add_segments(const Key* sorted, const T* dy, float* partial, T* dx,
                 std::int64_t m, std::int64_t width,
                 std::int64_t column_blocks) {
  const std::int64_t s = blockIdx.x / column_blocks;
  const std::int64_t column =
      blockIdx.x % column_blocks * kThreads + threadIdx.x;
  const std::uint32_t row = row_of(sorted[s]);
  if (row == kNoRow || column >= width) return;
  const Run run = run_of(sorted, m, row);
  if ((s - run.begin) % kSegment != 0) return;
  const std::int64_t end = s + kSegment < run.end ? s + kSegment : run.end;
  float total = 0.0f;
  for (std::int64_t i = s; i < end; ++i) {
    const std::int64_t from = static_cast<std::uint32_t>(sorted[i]);
    total += static_cast<float>(dy[from * width + column]);
  }
  if (run.fits()) {
    dx[row * width + column] = T(total);
  } else {
    partial[slot_of(run, s) * width + column] = total;
  }
}

// Runs on the same grid: the block at the first key of a long run adds its
// segments.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    join_segments(const Key* sorted, const float* partial, T* dx,
                  std::int64_t m, std::int64_t width,
                  std::int64_t column_blocks) {
  const std::int64_t s = blockIdx.x / column_blocks;
  const std::int64_t column =
      blockIdx.x % column_blocks * kThreads + threadIdx.x;
  const std::uint32_t row = row_of(sorted[s]);
  if (row == kNoRow || column >= width) return;
  if (s > 0 && row_of(sorted[s - 1]) == row) return;
  const Run run = run_of(sorted, m, row);
  if (run.fits()) return;
  float total = 0.0f;
  for (std::int64_t i = s; i < run.end; i += kSegment) {
    total += partial[slot_of(run, i) * width + column];
  }
  dx[row * width + column] = T(total);
}

template <typename T>
void scatter_of(const ScatterAddRows::Args& args) {
  const cudaStream_t stream = current_stream();
  const std::int64_t m = args.index.numel();
  const std::int64_t width = args.dx.dim(1);
  const std::int64_t n = args.dx.numel();
  T* const dx = args.dx.as<T>();
  launch(stream, blocks_for(n, kThreads * kPack<T>), kThreads, 0,
         zero_kernel<T>, dx, n, packs_aligned(dx));
  if (m == 0 || n == 0) return;
  const Scratch<Key> chunks(stream, m), sorted(stream, m);
  launch(stream, blocks_for(m, kSorted), kSortThreads, 0, sort_chunks,
         args.index.as<const std::int64_t>(), chunks.data(), m, args.skip);
  launch(stream, blocks_for(m, kThreads), kThreads, 0, merge_chunks,
         chunks.data(), sorted.data(), m);
  const std::int64_t column_blocks = (width + kThreads - 1) / kThreads;
  const unsigned blocks = blocks_for(m * column_blocks, 1);
  // Runs of at most kSegment keys need no partial sums.
  const bool long_runs = m > kSegment;
  const std::int64_t slots = (m + kSegment - 1) / kSegment * 2;
  const Scratch<float> partial(stream, long_runs ? slots * width : 0);
  launch(stream, blocks, kThreads, 0, add_segments<T>, sorted.data(),
         args.dy.as<const T>(), partial.data(), dx, m, width, column_blocks);
  if (!long_runs) return;
  launch(stream, blocks, kThreads, 0, join_segments<T>, sorted.data(),
         partial.data(), dx, m, width, column_blocks);
}

}  // namespace

template <>
void run<ScatterAddRows>(const ScatterAddRows::Args& args) {
  EA_CHECK(args.index.numel() < (std::int64_t{1} << 32) &&
               args.dx.dim(0) < std::int64_t{kNoRow},
           ScatterAddRows::name,
           "{} rows into {}: on CUDA fewer than 2^32 - 1 of each",
           args.index.numel(), args.dx.dim(0));
  visit_narrow(args.dx.dtype, ScatterAddRows::name, [&](auto tag) {
    scatter_of<typename decltype(tag)::type>(args);
  });
}

}  // namespace ea::cuda
