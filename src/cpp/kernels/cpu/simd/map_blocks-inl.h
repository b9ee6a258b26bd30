// Attention maps of a sequence and blocks of their rows: addresses of cells,
// the partition into jobs and the zero-padded layout in scratch.
#pragma once

#include "kernels/cpu/simd/cells-inl.h"
#include "kernels/cpu/simd/jobs-inl.h"
#include "kernels/cpu/simd/pairs-inl.h"

namespace ea::simd::EA_TARGET {
namespace {

// The maps of one sequence.
struct SequenceMaps {
  Existing cells;
  std::int64_t heads, n_q, n_k, begin, query, key;
  SequenceMaps(const MapLayout& layout, std::int64_t b)
      : cells(layout, b),
        heads(layout.heads),
        n_q(layout.n_q(b)),
        n_k(layout.n_k(b)),
        begin(layout.begin(b)),
        query(layout.q_offsets[b]),
        key(layout.k_offsets[b]) {}
  // Returns the index of cell (h, i, 0) in the flat tensor.
  EA_INLINE std::int64_t at(std::int64_t h, std::int64_t i) const {
    return begin + (h * n_q + i) * n_k;
  }
  // Returns the number of row (h, i).
  EA_INLINE std::int64_t row(std::int64_t h, std::int64_t i) const {
    return heads * query + h * n_q + i;
  }
};

// Returns x M + y S for a vector of cells.
template <typename T, typename P>
EA_INLINE Vf mix(Vf x, const T* previous, Vf y, Vf scores, P part) {
  const Vf s = y * scores;
  return previous == nullptr ? s : fma(x, load(previous, part), s);
}

// Rows row .. row + rows of all maps of a sequence.
struct MapBlock {
  std::int64_t sequence, row, rows;
};

// Partitions every sequence into blocks of about `cells` cells per head (but at
// least `min_rows` rows) and groups small blocks into jobs, by shape only.
class MapJobs {
 public:
  MapJobs(const MapLayout& layout, std::int64_t cells, std::int64_t min_rows)
      : cells_(cells),
        min_rows_(min_rows),
        memory_((count_blocks(layout) + 1) *
                (sizeof(MapBlock) + sizeof(std::int64_t))),
        blocks_(memory_.as<MapBlock>()),
        first_(reinterpret_cast<std::int64_t*>(blocks_ + count_)) {
    MapBlock* next = blocks_;
    std::int64_t in_job = kJobCells;  // the first block opens a job
    for (std::int64_t b = 0; b < layout.sequences; ++b) {
      const std::int64_t parts = parts_of(layout, b);
      for (std::int64_t i = 0; i < parts; ++i) {
        const std::int64_t row = layout.n_q(b) * i / parts;
        const std::int64_t rows = layout.n_q(b) * (i + 1) / parts - row;
        if (in_job >= kJobCells) {
          first_[jobs_++] = next - blocks_;
          in_job = 0;
        }
        *next++ = {b, row, rows};
        in_job += rows * layout.n_k(b);
      }
    }
    first_[jobs_] = next - blocks_;
  }

  std::int64_t count() const { return jobs_; }

  // Returns the largest size(block) of all blocks.
  template <typename Size>
  EA_INLINE std::int64_t largest(Size&& size) const {
    std::int64_t most = 0;
    for (const MapBlock* b = blocks_; b < blocks_ + count_; ++b) {
      const std::int64_t n = size(*b);
      if (n > most) most = n;
    }
    return most;
  }

  // Calls fn(block) for the blocks of a job.
  template <typename Fn>
  EA_INLINE void for_blocks(std::int64_t job, Fn&& fn) const {
    for (std::int64_t i = first_[job]; i < first_[job + 1]; ++i) fn(blocks_[i]);
  }

 private:
  static constexpr std::int64_t kJobCells = 1024;

  std::int64_t parts_of(const MapLayout& layout, std::int64_t b) const {
    const std::int64_t n_q = layout.n_q(b), n_k = layout.n_k(b);
    if (n_q == 0 || n_k == 0) return 0;
    std::int64_t rows = cells_ / n_k;
    if (rows < min_rows_) rows = min_rows_;
    return ceil_div(n_q, rows);
  }
  std::int64_t count_blocks(const MapLayout& layout) {
    for (std::int64_t b = 0; b < layout.sequences; ++b) {
      count_ += parts_of(layout, b);
    }
    return count_;
  }

  std::int64_t cells_, min_rows_;
  std::int64_t count_ = 0, jobs_ = 0;
  Scratch memory_;
  MapBlock* blocks_;
  std::int64_t* first_;
};

// A block in scratch: per head r zeros, then rows of n_k cells, each followed
// by r zeros. Cell (i, j) is at r + i width + j, and its neighbours up to r
// columns away are cells of its row or zeros. The convolution therefore runs
// over the rows as over one line; its results in the padding are not used. A
// convolution shifted to the right only needs as many more zeros, because the
// taps of a cell are addressed from its destination.
template <typename T>
struct Padded {
  T* data;
  std::int64_t radius, width, rows;  // rows of the block, halo included
  std::int64_t head_stride;

  Padded(T* at, std::int64_t r, std::int64_t n_k, std::int64_t n)
      : data(at),
        radius(r),
        width(n_k + r),
        rows(n),
        head_stride(r + n * (n_k + r)) {}
  EA_INLINE T* head(std::int64_t h) const { return data + h * head_stride; }
  // Returns the block with its data pointer moved `cells` further on.
  EA_INLINE Padded ahead(std::int64_t cells) const {
    Padded x = *this;
    x.data += cells;
    return x;
  }
};

// Returns the elements of a Padded block, including the vector or two that are
// read past its end.
EA_INLINE std::int64_t padded_size(std::int64_t heads, std::int64_t r,
                                   std::int64_t n_k, std::int64_t rows) {
  return heads * (r + rows * (n_k + r)) + 4 * kLanes + r;
}

// Returns padded_size() in floats.
template <typename T>
EA_INLINE std::int64_t padded_floats(std::int64_t heads, std::int64_t r,
                                     std::int64_t n_k, std::int64_t rows) {
  constexpr std::int64_t kOfOne = sizeof(float) / sizeof(T);
  return ceil_div(padded_size(heads, r, n_k, rows), kOfOne);
}

// Writes the zeros that are read after the last head.
template <typename T>
EA_INLINE void clear_end(const Padded<T>& x, std::int64_t heads) {
  clear(x.head(heads), 4 * kLanes + x.radius);
}

// Fills head h of `to` with rows first .. first + to.rows of a sequence's maps:
// zero outside 0 .. n_q and where no cell exists, else cell(row, j, part) for
// vectors of columns.
template <typename T, typename Cell>
EA_INLINE void fill_head(const Padded<T>& to, std::int64_t h,
                         const Existing& cells, std::int64_t first,
                         Cell&& cell) {
  const std::int64_t n_q = cells.n_q(), n_k = cells.n_k();
  T* at = to.head(h);
  clear(at, to.radius);
  at += to.radius;
  for (std::int64_t row = first; row < first + to.rows; ++row) {
    if (row < 0 || row >= n_q) {
      clear(at, to.width);
    } else {
      for_vectors(n_k, [&](std::int64_t j, auto part) {
        store_factor(at + j, cell(row, j, part), part);
      });
      cells.clear(row, at);
      clear(at + n_k, to.radius);
    }
    at += to.width;
  }
}

// Fills all heads as fill_head() does, with cell(head, row, j, part).
template <typename T, typename Cell>
EA_INLINE void fill(const Padded<T>& to, std::int64_t heads,
                    const Existing& cells, std::int64_t first, Cell&& cell) {
  for (std::int64_t h = 0; h < heads; ++h) {
    fill_head(to, h, cells, first,
              [&](std::int64_t row, std::int64_t j, auto part) {
                return cell(h, row, j, part);
              });
  }
  clear_end(to, heads);
}

}  // namespace
}  // namespace ea::simd::EA_TARGET
