// Attention within windows: one warp per token and head.
#include "kernels/copy.h"
#include "kernels/cuda/dense_maps.cuh"
#include "kernels/cuda/run.h"
#include "kernels/cuda/warp_rows.cuh"
#include "kernels/window_attention.h"

namespace ea::cuda {

namespace {

// One token of one head in window maps; `rows.k` counts columns.
struct WindowRow {
  std::int64_t head, token;  // within its sequence
  std::int64_t first, n;     // tokens of the sequence
  std::int64_t width;        // of its windows
  std::int64_t columns;      // per row of the sequence
  std::int64_t maps;         // first cell of its maps
  int sequence;              // within the launch

  __device__ WindowRow(const MapRows& rows, std::int64_t span,
                       std::int64_t row) {
    const TokenRow at = token_row(rows, rows.q, row);
    sequence = at.sequence;
    head = at.head;
    token = at.token;
    first = rows.q[sequence];
    n = rows.q[sequence + 1] - first;
    columns = rows.k[sequence + 1] - rows.k[sequence];
    width = columns / span;
    maps = rows.cell(sequence, 0, 0);
  }
  // Range of tokens that this token sees; the same tokens see it.
  __device__ std::int64_t begin() const {
    return token < width / 2 ? 0 : token - width / 2;
  }
  __device__ std::int64_t end() const {
    return n - token <= width / 2 ? n : token + width / 2 + 1;
  }
  // Returns the first cell of row i of head h.
  __device__ std::int64_t row(std::int64_t h, std::int64_t i) const {
    return maps + (h * n + i) * columns;
  }
  // Calls fn(column, neighbour, token of the key, whether the cell exists) for
  // columns `first`, `first` + `step`, ... of each neighbour's part.
  template <typename Fn>
  __device__ void for_cells(const HeadNeighbours& heads, std::int64_t first,
                            std::int64_t step, Fn&& fn) const {
    for (std::int64_t a = 0; a < heads.span; ++a) {
      const bool some = heads.of(head, a) >= 0;
      for (std::int64_t o = first; o < width; o += step) {
        const std::int64_t j = token + o - width / 2;
        fn(a * width + o, a, j, some && j >= 0 && j < n);
      }
    }
  }
};

// maps = scale x . y, with x of the query and y of the key. The lanes of a warp
// share one product.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    products_kernel(MapRows rows, HeadNeighbours heads, const T* x, const T* y,
                    T* maps, std::int64_t d, float scale) {
  const std::int64_t number = warp_row();
  if (number >= rows.rows()) return;
  const WindowRow at(rows, heads.span, number);
  const int lane = warp_lane();
  x += ((at.first + at.token) * heads.count + at.head) * d;
  maps += at.row(at.head, at.token);
  at.for_cells(
      heads, 0, 1,
      [&](std::int64_t c, std::int64_t a, std::int64_t j, bool there) {
        float sum = 0.0f;
        if (there) {
          const T* const key =
              y + ((at.first + j) * heads.count + heads.of(at.head, a)) * d;
          for (std::int64_t e = lane; e < d; e += kWarp) {
            sum += static_cast<float>(x[e]) * static_cast<float>(key[e]);
          }
          sum = scale * warp_reduce(sum);
        }
        if (lane == 0) maps[c] = T(sum);
      });
}

// to = scale sum of maps x over the cells of a query (kQueries), or over the
// cells that see a key. Each lane accumulates one element of the vector, with
// its terms in order.
template <typename T, bool kQueries>
__global__ void __launch_bounds__(kRowThreads)
    sums_kernel(MapRows rows, HeadNeighbours heads, const T* maps, const T* x,
                T* to, std::int64_t d, float scale) {
  const std::int64_t number = warp_row();
  if (number >= rows.rows()) return;
  const WindowRow at(rows, heads.span, number);
  to += ((at.first + at.token) * heads.count + at.head) * d;
  const std::int64_t begin = at.begin(), end = at.end();
  for (std::int64_t e = warp_lane(); e < d; e += kWarp) {
    float sum = 0.0f;
    for (std::int64_t a = 0; a < heads.span; ++a) {
      const std::int64_t own = heads.of(at.head, a);
      const HeadNeighbours::Run others =
          kQueries ? HeadNeighbours::Run{own, own < 0 ? own - 1 : own}
                   : heads.readers(at.head, a);
      for (std::int64_t h = others.first; h <= others.last; ++h) {
        for (std::int64_t t = begin; t < end; ++t) {
          const std::int64_t query = kQueries ? at.token : t;
          const std::int64_t key = kQueries ? t : at.token;
          const T weight = maps[at.row(kQueries ? at.head : h, query) +
                                a * at.width + key - query + at.width / 2];
          sum +=
              static_cast<float>(weight) *
              static_cast<float>(x[((at.first + t) * heads.count + h) * d + e]);
        }
      }
    }
    to[e] = T(scale * sum);
  }
}

// Same passes as in softmax.cu: the lanes take the columns in turn.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    softmax_kernel(MapRows rows, HeadNeighbours heads, const T* x, T* y,
                   float scale) {
  const std::int64_t number = warp_row();
  if (number >= rows.rows()) return;
  const WindowRow at(rows, heads.span, number);
  const int lane = warp_lane();
  x += at.row(at.head, at.token);
  y += at.row(at.head, at.token);
  float largest = -INFINITY;
  at.for_cells(heads, lane, kWarp,
               [&](std::int64_t c, std::int64_t, std::int64_t, bool there) {
                 if (!there) return;
                 largest = fmaxf(largest, scale * static_cast<float>(x[c]));
               });
  largest = warp_reduce(largest, Largest{});
  float total = 0.0f;
  at.for_cells(heads, lane, kWarp,
               [&](std::int64_t c, std::int64_t, std::int64_t, bool there) {
                 if (!there) return;
                 total += expf(scale * static_cast<float>(x[c]) - largest);
               });
  const float inverse = 1.0f / warp_reduce(total);
  at.for_cells(heads, lane, kWarp,
               [&](std::int64_t c, std::int64_t, std::int64_t, bool there) {
                 float p = 0.0f;
                 if (there) {
                   p = expf(scale * static_cast<float>(x[c]) - largest) *
                       inverse;
                 }
                 y[c] = T(p);
               });
}

template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    softmax_backward_kernel(MapRows rows, HeadNeighbours heads, const T* dy,
                            const T* y, T* dx, float scale) {
  const std::int64_t number = warp_row();
  if (number >= rows.rows()) return;
  const WindowRow at(rows, heads.span, number);
  const int lane = warp_lane();
  dy += at.row(at.head, at.token);
  y += at.row(at.head, at.token);
  dx += at.row(at.head, at.token);
  float dot = 0.0f;
  at.for_cells(heads, lane, kWarp,
               [&](std::int64_t c, std::int64_t, std::int64_t, bool there) {
                 if (!there) return;
                 dot += static_cast<float>(dy[c]) * static_cast<float>(y[c]);
               });
  dot = warp_reduce(dot);
  at.for_cells(heads, lane, kWarp,
               [&](std::int64_t c, std::int64_t, std::int64_t, bool there) {
                 float g = 0.0f;
                 if (there) {
                   g = scale * static_cast<float>(y[c]) *
                       (static_cast<float>(dy[c]) - dot);
                 }
                 dx[c] = T(g);
               });
}

// Copies flat to dense if kUnpack, else dense to flat.
template <typename T, bool kUnpack>
__global__ void __launch_bounds__(kRowThreads)
    copy_kernel(MapRows rows, const T* from, T* to, DenseMaps dense,
                HeadNeighbours heads) {
  const std::int64_t number = warp_row();
  if (number >= rows.rows()) return;
  const WindowRow at(rows, heads.span, number);
  const std::int64_t flat = at.row(at.head, at.token);
  const std::int64_t line = dense.q_columns == nullptr
                                ? at.token
                                : dense.q_columns[at.first + at.token];
  const std::int64_t place =
      ((at.sequence * heads.count + at.head) * dense.rows + line) * dense.width;
  const std::int64_t block = dense.width / heads.span;
  at.for_cells(heads, warp_lane(), kWarp,
               [&](std::int64_t c, std::int64_t a, std::int64_t j, bool there) {
                 if (!there) {
                   if constexpr (!kUnpack) to[flat + c] = T(0.0f);
                   return;
                 }
                 const std::int64_t column =
                     a * block + (dense.k_columns == nullptr
                                      ? j
                                      : dense.k_columns[at.first + j]);
                 if constexpr (kUnpack) {
                   to[place + column] = from[flat + c];
                 } else {
                   to[flat + c] = from[place + column];
                 }
               });
}

template <typename T>
void products_of(const WindowProducts::Args& args) {
  const HeadNeighbours heads = args.layout.neighbours(args.of_values);
  launch_map_rows(args.layout.cells, products_kernel<T>, heads,
                  args.x.as<const T>(), args.y.as<const T>(), args.maps.as<T>(),
                  args.x.dim(1) / heads.count, static_cast<float>(args.scale));
}

template <typename T>
void sums_of(const WindowSums::Args& args) {
  const HeadNeighbours heads = args.layout.neighbours(args.of_values);
  launch_map_rows(
      args.layout.cells,
      args.of_queries ? sums_kernel<T, true> : sums_kernel<T, false>, heads,
      args.maps.as<const T>(), args.x.as<const T>(), args.to.as<T>(),
      args.to.dim(1) / heads.count, static_cast<float>(args.scale));
}

template <typename T>
void window_softmax_of(const WindowSoftmax::Args& args) {
  launch_map_rows(args.layout.cells, softmax_kernel<T>, args.layout.keys(),
                  args.x.as<const T>(), args.y.as<T>(),
                  static_cast<float>(args.scale));
}

template <typename T>
void window_softmax_backward_of(const WindowSoftmaxBackward::Args& args) {
  launch_map_rows(args.layout.cells, softmax_backward_kernel<T>,
                  args.layout.keys(), args.dy.as<const T>(),
                  args.y.as<const T>(), args.dx.as<T>(),
                  static_cast<float>(args.scale));
}

template <typename T>
void unpack_windows_of(const UnpackWindows::Args& args) {
  run<Fill>({args.dense, 0.0});
  launch_copies<T, true>(args, args.layout.cells, copy_kernel<T, true>,
                         args.layout.keys());
}

template <typename T>
void pack_windows_of(const PackWindows::Args& args) {
  launch_copies<T, false>(args, args.layout.cells, copy_kernel<T, false>,
                          args.layout.keys());
}

}  // namespace

EA_RUN_CUDA(WindowProducts, products_of, x)
EA_RUN_CUDA(WindowSums, sums_of, maps)
EA_RUN_CUDA(WindowSoftmax, window_softmax_of, x)
EA_RUN_CUDA(WindowSoftmaxBackward, window_softmax_backward_of, y)
EA_RUN_CUDA(UnpackWindows, unpack_windows_of, dense)
EA_RUN_CUDA(PackWindows, pack_windows_of, flat)

}  // namespace ea::cuda
