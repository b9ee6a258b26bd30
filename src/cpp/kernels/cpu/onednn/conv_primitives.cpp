// Makes and caches oneDNN convolutions.
#include "kernels/cpu/onednn/conv_primitives.h"

#include <unordered_map>

#include "kernels/cpu/onednn/engine.h"
#include "kernels/cpu/onednn/made_once.h"

namespace ea::onednn {

namespace {

using ConvDims = dnnl::memory::dims;

dnnl::memory::data_type type_of(DType dtype) {
  return dtype == DType::f32 ? dnnl::memory::data_type::f32
                             : dnnl::memory::data_type::bf16;
}

ConvDims weight_dims(const ConvKey& k) {
  if (k.groups == 1) return {k.out, k.in, k.kernel_h, k.kernel_w};
  return {k.groups, k.out / k.groups, k.in / k.groups, k.kernel_h, k.kernel_w};
}

// Descriptors and attributes that all passes share.
struct ConvParts {
  dnnl::memory::desc image, weight, bias, result;
  ConvDims strides, dilations, before, after;
  dnnl::primitive_attr attr;

  explicit ConvParts(const ConvKey& k)
      : strides{k.stride_h, k.stride_w},
        dilations{k.dilation_h - 1, k.dilation_w - 1},
        before{k.pad_top, k.pad_left},
        after{k.pad_bottom, k.pad_right} {
    using Tag = dnnl::memory::format_tag;
    const auto type = type_of(static_cast<DType>(k.dtype));
    const bool sums = k.pass == static_cast<std::int64_t>(ConvPass::weights);
    image = {{k.images, k.in, k.height, k.width}, type, Tag::nhwc};
    weight = {weight_dims(k), sums ? type_of(DType::f32) : type, Tag::any};
    const auto biased = static_cast<ConvBias>(k.bias);
    if (biased != ConvBias::none) {
      bias = {{k.out},
              biased == ConvBias::f32 ? type_of(DType::f32) : type,
              Tag::a};
    }
    result = {{k.images, k.out, k.out_height, k.out_width}, type, Tag::nhwc};
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::post_ops behind;
    if (k.joined != 0) behind.append_sum();
    if (k.rectified != 0) {
      behind.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    }
    attr.set_post_ops(behind);
  }

  dnnl::convolution_forward::primitive_desc forward(
      dnnl::prop_kind kind, const dnnl::memory::desc& w) const {
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    if (bias.get_ndims() > 0) {
      return {engine(), kind,    kDirect,   image,  w,     bias,
              result,   strides, dilations, before, after, attr};
    }
    return {engine(), kind,      kDirect, image, w,   result,
            strides,  dilations, before,  after, attr};
  }
};

ConvolutionPtr make_convolution(const ConvKey& key) {
  const SingleThreaded single;  // blocking depends on the thread count
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  const ConvParts p(key);
  auto one = std::make_shared<Convolution>();
  one->image = p.image;
  one->bias = p.bias;
  one->result = p.result;
  const auto keep = [&one](const auto& desc, const dnnl::memory::desc& weight,
                           const dnnl::primitive& primitive) {
    one->weight = weight;
    one->scratchpad = desc.scratchpad_desc();
    one->primitive = primitive;
  };
  const auto pass = static_cast<ConvPass>(key.pass);
  if (pass == ConvPass::forward) {
    const auto desc = p.forward(dnnl::prop_kind::forward_inference, p.weight);
    keep(desc, desc.weights_desc(), dnnl::convolution_forward(desc));
    return one;
  }
  const dnnl::memory::desc any{weight_dims(key),
                               type_of(static_cast<DType>(key.dtype)),
                               dnnl::memory::format_tag::any};
  const auto hint = p.forward(dnnl::prop_kind::forward_training, any);
  if (pass == ConvPass::data) {
    const dnnl::convolution_backward_data::primitive_desc desc(
        engine(), kDirect, p.image, p.weight, p.result, p.strides, p.dilations,
        p.before, p.after, hint, p.attr);
    keep(desc, desc.weights_desc(), dnnl::convolution_backward_data(desc));
  } else {
    const dnnl::convolution_backward_weights::primitive_desc desc(
        engine(), kDirect, p.image, p.weight, p.result, p.strides, p.dilations,
        p.before, p.after, hint, p.attr);
    keep(desc, desc.diff_weights_desc(),
         dnnl::convolution_backward_weights(desc));
  }
  return one;
}

dnnl::memory memory_at(const dnnl::memory::desc& desc, const void* data) {
  return {desc, engine(), const_cast<void*>(data)};
}

// Borrows spare arguments of a convolution; new ones while all are in use.
class Borrowed {
 public:
  explicit Borrowed(const Convolution& one) {
    for (Convolution::Spare& spare : one.spares) {
      if (spare.busy.test_and_set(std::memory_order_acquire)) continue;
      spare_ = &spare;
      return;
    }
  }
  ~Borrowed() {
    if (spare_ != nullptr) spare_->busy.clear(std::memory_order_release);
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  Convolution::Arguments& all() {
    return spare_ != nullptr ? spare_->arguments : own_;
  }
  void set(int name, const dnnl::memory::desc& desc, void* data) {
    const auto at = all().find(name);
    if (at != all().end()) {
      at->second.set_data_handle(data);
    } else {
      all().emplace(name, memory_at(desc, data));
    }
  }

 private:
  Convolution::Spare* spare_ = nullptr;
  Convolution::Arguments own_;
};

}  // namespace

ConvolutionPtr find_convolution(const ConvKey& key) {
  // Outlives oneDNN's own statics.
  static auto* const all = new MadeOnce<ConvKey, Convolution>;
  return all->find(key, make_convolution);
}

void execute(const Convolution& one, ConvPass pass, void* image, void* weight,
             void* bias, void* result) {
  const bool forward = pass == ConvPass::forward;
  Borrowed args(one);  // the key decides which ones exist
  args.set(pass == ConvPass::data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, one.image,
           image);
  args.set(pass == ConvPass::weights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
           one.weight, weight);
  args.set(forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, one.result, result);
  if (bias != nullptr) args.set(DNNL_ARG_BIAS, one.bias, bias);
  const std::size_t bytes = one.scratchpad.get_size();
  if (bytes > 0) {
    args.set(DNNL_ARG_SCRATCHPAD, one.scratchpad,
             scratch(Scratch::primitive, bytes));
  }
  one.primitive.execute(stream(), args.all());
}

dnnl::memory::desc plain_weight(const ConvKey& key, DType dtype) {
  using Tag = dnnl::memory::format_tag;
  return {weight_dims(key), type_of(dtype),
          key.groups == 1 ? Tag::oihw : Tag::goihw};
}

void reorder(const dnnl::memory::desc& from, const void* source,
             const dnnl::memory::desc& to, void* target) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::reorder::primitive_desc desc(engine(), from, engine(), to, attr);
  std::unordered_map<int, dnnl::memory> args{
      {DNNL_ARG_FROM, memory_at(from, source)},
      {DNNL_ARG_TO, memory_at(to, target)}};
  const std::size_t bytes = desc.scratchpad_desc().get_size();
  if (bytes > 0) {
    args.emplace(
        DNNL_ARG_SCRATCHPAD,
        memory_at(desc.scratchpad_desc(), scratch(Scratch::primitive, bytes)));
  }
  dnnl::reorder(desc).execute(stream(), args);
}

}  // namespace ea::onednn
