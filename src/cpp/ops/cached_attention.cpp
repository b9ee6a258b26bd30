// Checks the arguments: the kernel relies on them.
#include "ops/cached_attention.h"

#include <algorithm>

#include "kernels/cached_attention.h"
#include "kernels/registry.h"
#include "ops/map_conv.h"
#include "runtime/check.h"

namespace ea {

namespace {

constexpr const char* kOp = "cached_attention";

void check_rows(const std::vector<std::int64_t>& rows, std::int64_t least,
                const char* what, std::int64_t cached) {
  for (const std::int64_t row : rows) {
    EA_CHECK_AS(InputError, row >= least && row < cached, kOp,
                "row {} of a {} of {}", row, what, cached);
  }
}

void check_offsets(const std::vector<std::int64_t>& rows,
                   const std::vector<std::int64_t>& offsets,
                   std::int64_t sequences) {
  EA_CHECK(offsets.size() == static_cast<std::size_t>(sequences) + 1 &&
               offsets.front() == 0 &&
               offsets.back() == static_cast<std::int64_t>(rows.size()),
           kOp, "{} offsets do not fit {} sequences with {} rows",
           offsets.size(), sequences, rows.size());
  for (std::size_t b = 1; b < offsets.size(); ++b) {
    EA_CHECK(offsets[b] > offsets[b - 1], kOp,
             "sequence {} has no rows; expected at least one", b - 1);
  }
}

void check_type(const char* what, const Tensor& t, DType dtype) {
  EA_CHECK_AS(DTypeError, !t.defined() || t.dtype() == dtype, kOp,
              "q is {}, {} {}: expected one type; use .to(dtype)", dtype, what,
              t.dtype());
}

// Checks the inputs of the evolving step for `heads` heads; offsets.back() is
// the total number of keys.
void check_evolving(const CachedEvolving& e, DType dtype, std::int64_t heads,
                    std::int64_t sequences,
                    const std::vector<std::int64_t>& offsets) {
  check_type("previous", e.previous, dtype);
  check_type("maps", e.maps, dtype);
  check_type("weight", e.weight, dtype);
  check_type("bias", e.bias, dtype);
  check_shift(kOp, e.shift);
  EA_CHECK(
      !e.previous.defined() || e.previous.numel() == heads * offsets.back(),
      kOp, "previous has {} cells, expected {} heads of {} keys",
      e.previous.numel(), heads, offsets.back());
  const std::int64_t side = 2 * e.shift.down + 1;
  const bool convolves = e.c.w != 0.0;
  EA_CHECK(convolves == e.weight.defined() && convolves == e.bias.defined() &&
               convolves == e.maps.defined(),
           kOp, "w = {}, but weight, bias or maps are {}", e.c.w,
           convolves ? "missing" : "given");
  if (!convolves) return;
  EA_CHECK(e.weight.shape() == Shape({heads, heads, side, side}) &&
               e.bias.shape() == Shape({heads}),
           kOp,
           "weight has shape {}, bias {}; expected {} heads and a side of "
           "{} (2 down + 1)",
           e.weight.shape(), e.bias.shape(), heads, side);
  std::int64_t longest = 0;
  for (std::size_t b = 1; b < offsets.size(); ++b) {
    longest = std::max(longest, offsets[b] - offsets[b - 1]);
  }
  const std::int64_t room = longest + 3 * (side - 1);
  EA_CHECK(e.maps.rank() == 3 && e.maps.is_contiguous() &&
               e.maps.dim(1) == heads && e.maps.dim(2) >= room,
           kOp, "maps have shape {}; expected (rows, {}, {} or more)",
           e.maps.shape(), heads, room);
  EA_CHECK(static_cast<std::int64_t>(e.map_rows.size()) == sequences * side,
           kOp, "{} numbers of map rows, expected {} for each of {} sequences",
           e.map_rows.size(), side, sequences);
  check_rows(e.map_rows, -1, "map", e.maps.dim(0));
  for (std::int64_t b = 1; b <= sequences; ++b) {
    EA_CHECK_AS(InputError,
                e.map_rows[static_cast<std::size_t>(b * side - 1)] >= 0, kOp,
                "sequence {} has no row for its new map", b - 1);
  }
}

}  // namespace

CachedAttended cached_attention(const Tensor& q, const Tensor& k,
                                const Tensor& v,
                                const std::vector<std::int64_t>& rows,
                                const std::vector<std::int64_t>& offsets,
                                std::int64_t heads, double scale,
                                const CachedEvolving& e) {
  EA_CHECK(q.rank() == 2 && k.rank() == 2 && k.shape() == v.shape() &&
               k.dim(1) == q.dim(1) && heads > 0 && q.dim(1) % heads == 0,
           kOp,
           "q has shape {}, k {}, v {}; expected rows of one width, a "
           "multiple of {} heads",
           q.shape(), k.shape(), v.shape(), heads);
  EA_CHECK_AS(DTypeError, k.dtype() == q.dtype() && v.dtype() == q.dtype(), kOp,
              "q is {}, k {}, v {}: expected one type; use .to(dtype)",
              q.dtype(), k.dtype(), v.dtype());
  check_offsets(rows, offsets, q.dim(0));
  check_rows(rows, 0, "cache", k.dim(0));
  check_evolving(e, q.dtype(), heads, q.dim(0), offsets);
  const Tensor tq = contiguous(q);
  CachedAttended out{empty_like(tq), {}};
  if (e.carry) {
    out.carry = empty({heads * offsets.back()}, q.dtype(), q.device());
  }
  const auto numbers = [&](const std::vector<std::int64_t>& from) {
    return to_device(from_values(from), q.device());
  };
  const auto whole = [](const Tensor& t) {
    return t.defined() ? contiguous(t) : t;
  };
  const Tensor map_rows = e.maps.defined() ? numbers(e.map_rows) : Tensor();
  kernels::run<CachedAttention>(
      {tq, contiguous(k), contiguous(v), numbers(rows), numbers(offsets),
       out.context, heads, scale,
       CachedMaps{whole(e.previous), whole(e.weight), whole(e.bias), map_rows,
                  e.maps, out.carry, e.c, e.shift, e.softmax_scale}});
  return out;
}

}  // namespace ea
