// Sorts ids; all sums use the scatter-add and axpby kernels, so rows have the
// same bits as in a dense gradient.
#include "autograd/row_gradient.h"

#include <algorithm>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/gather.h"
#include "kernels/registry.h"

namespace ea {

RowGradient collect_rows(const Tensor& index, const Tensor& dy) {
  const auto* values = index.data<std::int64_t>();
  const std::int64_t m = index.numel();
  std::vector<std::int64_t> ids(values, values + m);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (!ids.empty() && ids.front() < 0) ids.erase(ids.begin());
  if (ids.empty()) ids.push_back(0);  // a row of zeros: views are never empty
  std::vector<std::int64_t> places(static_cast<std::size_t>(m), -1);
  for (std::int64_t i = 0; i < m; ++i) {
    if (values[i] < 0) continue;
    places[static_cast<std::size_t>(i)] =
        std::lower_bound(ids.begin(), ids.end(), values[i]) - ids.begin();
  }
  const auto k = static_cast<std::int64_t>(ids.size());
  const Tensor rows = empty({k, dy.dim(1)}, dy.dtype(), dy.device());
  kernels::run<ScatterAddRows>(
      {dy, to_device(from_values(places), dy.device()), rows});
  return {from_values(ids), rows};
}

RowGradient add_rows(const RowGradient& a, const RowGradient& b) {
  const std::int64_t first = a.ids.numel();
  const std::int64_t both = first + b.ids.numel();
  const Tensor ids = empty({both}, DType::i64);
  const Tensor rows =
      empty({both, a.rows.dim(1)}, a.rows.dtype(), a.rows.device());
  copy_into(a.ids, slice_view(ids, 0, 0, first));
  copy_into(b.ids, slice_view(ids, 0, first, both));
  copy_into(a.rows, slice_view(rows, 0, 0, first));
  copy_into(b.rows, slice_view(rows, 0, first, both));
  return collect_rows(ids, rows);
}

void add_rows_to(const RowGradient& rows, const Tensor& dense) {
  const Tensor sum = empty_like(rows.rows);
  kernels::run<GatherRows>({dense, to_device(rows.ids, dense.device()), sum});
  kernels::run<Axpby>({1.0, sum, 1.0, rows.rows, sum});
  const auto* ids = rows.ids.data<std::int64_t>();
  for (std::int64_t i = 0; i < rows.ids.numel(); ++i) {
    copy_into(slice_view(sum, 0, i, i + 1),
              slice_view(dense, 0, ids[i], ids[i] + 1));
  }
  dense.storage()->note_write();
}

Tensor dense_of(const RowGradient& rows, const Shape& shape) {
  const Device device = rows.rows.device();
  const Tensor dense = empty(shape, rows.rows.dtype(), device);
  kernels::run<ScatterAddRows>({rows.rows, to_device(rows.ids, device), dense});
  return dense;
}

}  // namespace ea
