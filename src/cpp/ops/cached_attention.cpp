// Checks what the kernel may believe.
#include "ops/cached_attention.h"

#include "kernels/cached_attention.h"
#include "kernels/registry.h"
#include "runtime/check.h"

namespace ea {

namespace {

constexpr const char* kOp = "cached_attention";

void check_rows(const std::vector<std::int64_t>& rows,
                const std::vector<std::int64_t>& offsets,
                std::int64_t sequences, std::int64_t cached) {
  EA_CHECK(offsets.size() == static_cast<std::size_t>(sequences) + 1 &&
               offsets.front() == 0 &&
               offsets.back() == static_cast<std::int64_t>(rows.size()),
           kOp, "{} offsets do not fit {} sequences with {} rows",
           offsets.size(), sequences, rows.size());
  for (std::size_t b = 1; b < offsets.size(); ++b) {
    EA_CHECK(offsets[b] > offsets[b - 1], kOp,
             "sequence {} has no rows; expected at least one", b - 1);
  }
  for (const std::int64_t row : rows) {
    EA_CHECK_AS(InputError, row >= 0 && row < cached, kOp,
                "row {} of a cache of {}", row, cached);
  }
}

}  // namespace

Tensor cached_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        const std::vector<std::int64_t>& rows,
                        const std::vector<std::int64_t>& offsets,
                        std::int64_t heads, double scale) {
  EA_CHECK(q.rank() == 2 && k.rank() == 2 && k.shape() == v.shape() &&
               k.dim(1) == q.dim(1) && heads > 0 && q.dim(1) % heads == 0,
           kOp,
           "q has shape {}, k {}, v {}; expected rows of one width, a "
           "multiple of {} heads",
           q.shape(), k.shape(), v.shape(), heads);
  EA_CHECK_AS(DTypeError, k.dtype() == q.dtype() && v.dtype() == q.dtype(), kOp,
              "q is {}, k {}, v {}: expected one type; use .to(dtype)",
              q.dtype(), k.dtype(), v.dtype());
  check_rows(rows, offsets, q.dim(0), k.dim(0));
  const Tensor tq = contiguous(q);
  const Tensor y = empty_like(tq);
  kernels::run<CachedAttention>({tq, contiguous(k), contiguous(v),
                                 to_device(from_values(rows), q.device()),
                                 to_device(from_values(offsets), q.device()), y,
                                 heads, scale});
  return y;
}

}  // namespace ea
