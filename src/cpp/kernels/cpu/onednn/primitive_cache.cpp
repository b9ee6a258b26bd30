// Makes oneDNN matmul primitives and keeps the most recently used ones.
#include "kernels/cpu/onednn/primitive_cache.h"

#include <cstring>
#include <list>
#include <mutex>
#include <unordered_map>

#include "kernels/cpu/onednn/engine.h"
#include "runtime/fork.h"

namespace ea::onednn {

namespace {

using dims = dnnl::memory::dims;
using dnnl::memory;

// Padding to multiples of 16 leaves a model some tens of products for each of
// its ten or so weight shapes.
constexpr std::size_t kCapacity = 2048;

struct Hash {
  std::size_t operator()(const ProductKey& k) const {
    std::size_t h = 1469598103934665603u;
    const std::int64_t words[] = {k.m,
                                  k.n,
                                  k.k,
                                  k.a_stride,
                                  k.b_stride,
                                  k.y_stride,
                                  k.transpose_b + 2 * k.bias + 4 * k.addend +
                                      8 * static_cast<int>(k.output)};
    for (const std::int64_t word : words) {
      h = (h ^ static_cast<std::size_t>(word)) * 1099511628211u;
      h ^= h >> 29;
    }
    return h;
  }
};

ProductPtr make_product(const ProductKey& key) {
  const SingleThreaded single;  // its blocking depends on the thread count
  const auto bf16 = memory::data_type::bf16;
  const auto f32 = memory::data_type::f32;
  auto one = std::make_shared<Product>();
  one->a = memory::desc({key.m, key.k}, bf16, dims{key.a_stride, 1});
  one->b = memory::desc(
      {key.k, key.n}, bf16,
      key.transpose_b ? dims{1, key.b_stride} : dims{key.b_stride, 1});
  one->y = memory::desc({key.m, key.n}, key.output == Output::bf16 ? bf16 : f32,
                        dims{key.y_stride, 1});
  if (key.bias) one->bias = memory::desc({1, key.n}, bf16, dims{key.n, 1});

  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops post;
  if (key.output == Output::f32_add) post.append_sum(1.0f);
  if (key.addend) {
    one->addend = memory::desc({key.m, key.n}, f32, dims{key.n, 1});
    post.append_binary(dnnl::algorithm::binary_add, one->addend);
  }
  attr.set_post_ops(post);

  const dnnl::matmul::primitive_desc desc(engine(), one->a, one->b, one->bias,
                                          one->y, attr, /*allow_empty=*/true);
  if (!desc) return nullptr;
  if (std::strstr(desc.impl_info_str(), "ref") != nullptr) return nullptr;
  one->scratchpad = desc.scratchpad_desc();
  one->primitive = dnnl::matmul(desc);
  return one;
}

// Least recently used last.
struct Cache {
  using Item = std::pair<ProductKey, ProductPtr>;
  ForkMutex mutex{ForkMutex::Level::primitives};
  std::list<Item> items;
  std::unordered_map<ProductKey, std::list<Item>::iterator, Hash> index;

  bool find(const ProductKey& key, ProductPtr& found) {
    const std::lock_guard lock(mutex);
    const auto at = index.find(key);
    if (at == index.end()) return false;
    items.splice(items.begin(), items, at->second);
    found = at->second->second;
    return true;
  }

  void insert(const ProductKey& key, const ProductPtr& product) {
    const std::lock_guard lock(mutex);
    if (index.find(key) != index.end()) return;
    items.emplace_front(key, product);
    index.emplace(key, items.begin());
    if (items.size() > kCapacity) {
      index.erase(items.back().first);
      items.pop_back();
    }
  }
};

Cache& cache() {
  static Cache* const one = new Cache;  // outlives oneDNN's own statics
  return *one;
}

}  // namespace

ProductPtr find_product(const ProductKey& key) {
  ProductPtr product;
  if (cache().find(key, product)) return product;
  // Made outside the lock: it takes about a millisecond.
  product = make_product(key);
  cache().insert(key, product);
  return product;
}

}  // namespace ea::onednn
