// Makes oneDNN matmul primitives and keeps the most recently used ones.
#include "kernels/cpu/onednn/primitive_cache.h"

#include <cstring>
#include <unordered_map>

#include "kernels/cpu/onednn/engine.h"
#include "kernels/cpu/onednn/made_once.h"
#include "kernels/cpu/onednn/panels.h"

namespace ea::onednn {

namespace {

using dims = dnnl::memory::dims;
using dnnl::memory;

memory::desc layout_of_b(const ProductKey& key, memory::data_type type) {
  const dims size{key.k, key.n};
  switch (key.layout) {
    case Layout::rows:
      return {size, type, dims{key.b_stride, 1}};
    case Layout::columns:
      return {size, type, dims{1, key.b_stride}};
    case Layout::panels:
      break;
  }
  return {size, type, memory::format_tag::any};
}

// Whether oneDNN expects b in the layout of panels.h.
bool reads_panels(const ProductKey& key, const memory::desc& b) {
  return b.get_inner_blks() == dims{16, kPanel, 2} &&
         b.get_inner_idxs() == dims{0, 1, 0} &&
         b.get_strides() == dims{32 * kPanel, panel_depth(key.k) * kPanel} &&
         static_cast<std::int64_t>(b.get_size()) == panels_bytes(key.k, key.n);
}

ProductPtr make_product(const ProductKey& key) {
  const OnednnThreads threads(key.threads);  // blocking depends on the count
  const auto f32 = memory::data_type::f32;
  const auto type = key.dtype == DType::f32 ? f32 : memory::data_type::bf16;
  auto one = std::make_shared<Product>();
  one->a = memory::desc(
      {key.m, key.k}, type,
      key.a_columns ? dims{1, key.a_stride} : dims{key.a_stride, 1});
  one->b = layout_of_b(key, type);
  one->y = memory::desc({key.m, key.n}, key.output == Output::same ? type : f32,
                        dims{key.y_stride, 1});
  if (key.bias) one->bias = memory::desc({1, key.n}, type, dims{key.n, 1});

  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops post;
  if (key.output == Output::f32_add) post.append_sum(1.0f);
  attr.set_post_ops(post);

  const dnnl::matmul::primitive_desc desc(engine(), one->a, one->b, one->bias,
                                          one->y, attr, /*allow_empty=*/true);
  if (!desc) return nullptr;
  if (std::strstr(desc.impl_info_str(), "ref") != nullptr) return nullptr;
  one->b = desc.weights_desc();
  if (key.layout == Layout::panels && !reads_panels(key, one->b)) {
    return nullptr;
  }
  one->scratchpad = desc.scratchpad_desc();
  one->primitive = dnnl::matmul(desc);
  return one;
}

}  // namespace

void execute(const Product& product, const Operands& o) {
  std::unordered_map<int, dnnl::memory> args;
  const auto add = [&](int name, const dnnl::memory::desc& desc,
                       const void* data) {
    args.emplace(name, dnnl::memory(desc, engine(), const_cast<void*>(data)));
  };
  add(DNNL_ARG_SRC, product.a, o.a);
  add(DNNL_ARG_WEIGHTS, product.b, o.b);
  add(DNNL_ARG_DST, product.y, o.y);
  if (o.bias != nullptr) add(DNNL_ARG_BIAS, product.bias, o.bias);
  const std::size_t bytes = product.scratchpad.get_size();
  if (bytes > 0) {
    add(DNNL_ARG_SCRATCHPAD, product.scratchpad,
        scratch(Scratch::primitive, bytes));
  }
  product.primitive.execute(stream(), args);
}

ProductPtr find_product(const ProductKey& key) {
  // Outlives oneDNN's own statics.
  static auto* const all = new MadeOnce<ProductKey, Product>;
  return all->find(key, make_product);
}

}  // namespace ea::onednn
