// Checks edges in compressed row form and sorts them by key with a counting
// sort.
#include "ops/edges.h"

#include <algorithm>
#include <iterator>

#include "runtime/check.h"

namespace ea {

namespace {

Tensor checked_list(const char* name, const Tensor& list) {
  EA_CHECK(list.rank() == 1 && list.dtype() == DType::i64, "edges",
           "{} is {} {}, expected int64 with one axis", name, list.dtype(),
           list.shape());
  return clone(to_device(list, kCpu));
}

}  // namespace

Edges::Edges(const Tensor& starts, const Tensor& keys, std::int64_t num_keys)
    : starts_(checked_list("starts", starts)),
      keys_(checked_list("sources", keys)) {
  const auto* first = starts_.data<std::int64_t>();
  const auto* key = keys_.data<std::int64_t>();
  EA_CHECK(starts_.dim(0) > 0 && first[0] == 0 && first[queries()] == count(),
           "edges",
           "starts must begin with 0 and end with {}, the number of edges",
           count());
  for (std::int64_t i = 0; i < queries(); ++i) {
    EA_CHECK(first[i + 1] >= first[i], "edges",
             "starts[{}] = {} is below starts[{}] = {}", i + 1, first[i + 1], i,
             first[i]);
  }
  EA_CHECK_AS(InputError, num_keys >= 0, "edges",
              "num_sources = {} is negative; expected 0 or more", num_keys);
  for (std::int64_t e = 0; e < count(); ++e) {
    EA_CHECK_AS(InputError, key[e] >= 0 && key[e] < num_keys, "edges",
                "edge {} comes from {}, expected 0 to {}: there is no such "
                "node; correct the list, or the number of nodes",
                e, key[e], num_keys - 1);
  }
  key_starts_ = zeros({num_keys + 1}, DType::i64);
  sort_by_key();
}

void Edges::sort_by_key() {
  queries_ = empty({count()}, DType::i64);
  order_ = empty({count()}, DType::i64);
  const auto* first = starts_.data<std::int64_t>();
  const auto* key = keys_.data<std::int64_t>();
  auto* by_key = key_starts_.data<std::int64_t>();
  for (std::int64_t e = 0; e < count(); ++e) ++by_key[key[e] + 1];
  for (std::int64_t j = 0; j < num_keys(); ++j) by_key[j + 1] += by_key[j];
  std::vector<std::int64_t> next(by_key, by_key + num_keys());
  for (std::int64_t i = 0; i < queries(); ++i) {
    for (std::int64_t e = first[i]; e < first[i + 1]; ++e) {
      const std::int64_t place = next[static_cast<std::size_t>(key[e])]++;
      queries_.data<std::int64_t>()[place] = i;
      order_.data<std::int64_t>()[place] = e;
    }
  }
}

EdgeLayout Edges::layout(std::int64_t heads, Device device) const {
  if (device.is_cpu()) {
    return {heads, starts_, keys_, key_starts_, queries_, order_};
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  auto copy = std::find_if(copies_.begin(), copies_.end(),
                           [&](const Copy& c) { return c.device == device; });
  if (copy == copies_.end()) {
    copies_.push_back({device, to_device(starts_, device),
                       to_device(keys_, device), to_device(key_starts_, device),
                       to_device(queries_, device), to_device(order_, device)});
    copy = std::prev(copies_.end());
  }
  return {heads,         copy->starts, copy->keys, copy->key_starts,
          copy->queries, copy->order};
}

}  // namespace ea
