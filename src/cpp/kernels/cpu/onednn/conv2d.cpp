// Partitions convolutions into bands of rows or slices of channels of an image,
// images, and groups of images: by shape only, so that threads change no bit.
#include "kernels/cpu/onednn/conv2d.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/cpu/onednn/conv_primitives.h"
#include "kernels/cpu/onednn/engine.h"
#include "kernels/cpu/onednn/group_sums.h"
#include "kernels/cpu/scaled_weight.h"
#include "runtime/bfloat16.h"
#include "runtime/signals.h"
#include "runtime/threads.h"
#include "tensor/storage.h"

namespace ea::onednn {

namespace {

// Convolution of a batch: the key of one image, and the sizes that locate rows.
struct Pictures {
  ConvKey key{};  // for one whole image
  std::int64_t images;
  std::size_t element;  // bytes

  Pictures(ConvPass pass, const TensorView& x, const TensorView& weight,
           const TensorView& y, const Conv2dTaps& t)
      : images(x.dim(0)), element(size_of(x.dtype)) {
    key.pass = static_cast<std::int64_t>(pass);
    key.dtype = static_cast<std::int64_t>(x.dtype);
    key.images = 1;
    key.height = x.dim(1);
    key.width = x.dim(2);
    key.in = x.dim(3);
    key.out_height = y.dim(1);
    key.out_width = y.dim(2);
    key.out = y.dim(3);
    key.groups = t.groups;
    key.kernel_h = weight.dim(2);
    key.kernel_w = weight.dim(3);
    key.stride_h = t.stride_h;
    key.stride_w = t.stride_w;
    key.dilation_h = t.dilation_h;
    key.dilation_w = t.dilation_w;
    key.pad_top = t.pad_h;
    key.pad_left = t.pad_w;
    key.pad_bottom = missing(rows_read(key.out_height), t.pad_h + key.height);
    key.pad_right = missing((key.out_width - 1) * t.stride_w +
                                (key.kernel_w - 1) * t.dilation_w + 1,
                            t.pad_w + key.width);
  }

  static std::int64_t missing(std::int64_t needed, std::int64_t there) {
    return std::max<std::int64_t>(0, needed - there);
  }
  // Returns how many rows, padding included, `rows` rows of y read.
  std::int64_t rows_read(std::int64_t rows) const {
    return (rows - 1) * key.stride_h + (key.kernel_h - 1) * key.dilation_h + 1;
  }
  std::int64_t x_elements() const { return key.height * key.width * key.in; }
  std::int64_t y_elements() const {
    return key.out_height * key.out_width * key.out;
  }
  std::int64_t weights() const {
    return key.out * (key.in / key.groups) * key.kernel_h * key.kernel_w;
  }
};

char* at(const TensorView& view, std::int64_t element, std::size_t size) {
  return view.as<char>() + static_cast<std::size_t>(element) * size;
}

// Some rows and channels of an image of y, which one thread computes.
struct Section {
  std::int64_t x_row, y_row, rows, channel, channels;
  ConvolutionPtr convolution;
};

Section whole_image(const ConvKey& key) {
  return {0, 0, key.out_height, 0, key.out, find_convolution(key)};
}

// Returns the number of sections per image: a power of two, which a few threads
// can share evenly, such that each section is worth a job.
std::int64_t count_sections(const Pictures& p) {
  constexpr std::int64_t kMost = 8;
  constexpr std::int64_t kWork = 1 << 23;  // multiply-adds worth a job
  const std::int64_t work =
      p.weights() * p.key.out_height * p.key.out_width / kWork;
  std::int64_t count = 1;
  while (count < kMost && 2 * count <= work) count *= 2;
  return count;
}

// Returns bands of nearly equal height, the higher ones first: a thread that is
// free early takes a low one. If a band would read only padding, returns the
// whole image as one band.
std::vector<Section> bands_of(const ConvKey& whole, const Pictures& p,
                              std::int64_t count) {
  std::vector<Section> bands;
  std::int64_t begin = 0;
  for (std::int64_t b = 0; b < count; ++b) {
    const std::int64_t rows =
        (whole.out_height - begin + count - b - 1) / (count - b);
    const std::int64_t first = begin * whole.stride_h - whole.pad_top;
    const std::int64_t last = first + p.rows_read(rows);
    const std::int64_t top = std::max<std::int64_t>(0, first);
    const std::int64_t bottom = std::min(whole.height, last);
    if (bottom <= top) return {whole_image(whole)};
    ConvKey key = whole;
    key.height = bottom - top;
    key.out_height = rows;
    key.pad_top = top - first;
    key.pad_bottom = last - bottom;
    bands.push_back({top, begin, rows, 0, key.out, find_convolution(key)});
    begin += rows;
  }
  return bands;
}

// Returns slices: all rows of some channels.
std::vector<Section> slices_of(const ConvKey& whole, std::int64_t count) {
  ConvKey key = whole;
  key.out = whole.out / count;
  std::vector<Section> slices;
  for (std::int64_t s = 0; s < count; ++s) {
    slices.push_back(
        {0, 0, key.out_height, s * key.out, key.out, find_convolution(key)});
  }
  return slices;
}

// Returns bands, or slices where an image has few pixels: a band reads the
// whole weight, which then takes longer than its work. The rows of a slice are
// copied into y.
std::vector<Section> sections_of(const Pictures& p) {
  constexpr std::int64_t kPixels = 512, kChannels = 32;
  const ConvKey& key = p.key;
  const std::int64_t count = count_sections(p);
  if (key.out_height * key.out_width < kPixels && key.groups == 1 &&
      key.out % (count * kChannels) == 0) {
    return slices_of(key, count);
  }
  return bands_of(key, p, std::min(count, key.out_height));
}

// to[o] = w[o] by[o] for rows of `each` elements.
template <typename T>
void scale_rows(const void* w, Scale by, std::int64_t each, void* to) {
  const T* from = static_cast<const T*>(w);
  T* out = static_cast<T*>(to);
  for (const float factor : by) {
    for (std::int64_t i = 0; i < each; ++i) {
      *out++ = T(static_cast<float>(*from++) * factor);
    }
  }
}

// The weight of a section's channels, times their scale, in the layout that its
// convolution reads. A norm after the convolution is folded into weight and
// bias, since a primitive's post-ops take as long as its sums where products
// are fast.
struct ReadyWeight {
  dnnl::memory::desc layout;
  std::int64_t channel;
  Storage data;

  ReadyWeight(const Pictures& p, const TensorView& weight,
              const Section& section, Scale scale)
      : layout(section.convolution->weight),
        channel(section.channel),
        data(layout.get_size()) {
    ConvKey key = p.key;
    key.out = section.channels;
    const dnnl::memory::desc plain = plain_weight(key, weight.dtype);
    const std::int64_t each = p.weights() / p.key.out;
    const char* const source = at(weight, channel * each, p.element);
    if (scale.empty()) {
      reorder(plain, source, layout, data.data());
      return;
    }
    const Storage scaled(static_cast<std::size_t>(key.out * each) * p.element);
    const Scale mine = scale.subspan(static_cast<std::size_t>(channel),
                                     static_cast<std::size_t>(key.out));
    (weight.dtype == DType::f32
         ? scale_rows<float>
         : scale_rows<bfloat16>)(source, mine, each, scaled.data());
    reorder(plain, scaled.data(), layout, data.data());
  }
};

using ReadyWeightPtr = std::shared_ptr<const ReadyWeight>;

// All layouts made from one weight: bands of other heights may read another
// layout.
struct ReadyWeights : Storage::Derived {
  ScaledWeight of;
  std::vector<ReadyWeightPtr> all;

  ReadyWeightPtr find(const Section& section) const {
    const auto at = std::find_if(all.begin(), all.end(), [&](const auto& one) {
      return one->channel == section.channel &&
             one->layout == section.convolution->weight;
    });
    return at == all.end() ? nullptr : *at;
  }
};

// Returns the weight of each section, cached with `kept` unless it is null.
std::vector<ReadyWeightPtr> ready_weights(const Pictures& p,
                                          const std::vector<Section>& sections,
                                          const TensorView& weight,
                                          const Storage* kept,
                                          Scale scale = {}) {
  const SingleThreaded single;
  const std::uint64_t version = kept == nullptr ? 0 : kept->version();
  auto ready = std::make_shared<ReadyWeights>();
  if (kept != nullptr) {
    const auto found =
        std::dynamic_pointer_cast<const ReadyWeights>(kept->derived());
    if (found != nullptr && found->of.is(weight, scale)) *ready = *found;
  }
  if (ready->all.empty()) ready->of = {weight, scale};
  const std::size_t before = ready->all.size();
  std::vector<ReadyWeightPtr> weights;
  for (const Section& section : sections) {
    ReadyWeightPtr one = ready->find(section);
    if (one == nullptr) {
      one = std::make_shared<const ReadyWeight>(p, weight, section, scale);
      ready->all.push_back(one);
    }
    weights.push_back(std::move(one));
  }
  if (kept != nullptr && ready->all.size() > before) kept->keep(ready, version);
  return weights;
}

// Spans of bytes that start `stride` bytes apart.
struct Stretches {
  char* data;
  std::size_t stride;
};

void copy_stretches(const Stretches& from, const Stretches& to,
                    std::int64_t count, std::size_t bytes) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto n = static_cast<std::size_t>(i);
    std::memcpy(to.data + n * to.stride, from.data + n * from.stride, bytes);
  }
}

void* channels_from(const TensorView& view, std::int64_t channel) {
  return view.defined() ? at(view, channel, size_of(view.dtype)) : nullptr;
}

void forward_section(const Conv2dForward::Args& args, const TensorView& bias,
                     const Pictures& p, std::int64_t image,
                     const Section& section, void* weight) {
  const SingleThreaded single;
  const ConvKey& key = p.key;
  char* const x =
      at(args.x, image * p.x_elements() + section.x_row * key.width * key.in,
         p.element);
  const std::int64_t y = image * p.y_elements() +
                         section.y_row * key.out_width * key.out +
                         section.channel;
  const Stretches result{at(args.y, y, p.element),
                         static_cast<std::size_t>(key.out) * p.element};
  const bool whole = section.channels == key.out;
  const std::int64_t pixels = section.rows * key.out_width;
  const std::size_t bytes =
      static_cast<std::size_t>(section.channels) * p.element;
  const std::size_t all = static_cast<std::size_t>(pixels) * bytes;
  const Stretches dense{
      whole ? result.data : static_cast<char*>(scratch(Scratch::c, all)),
      bytes};
  if (args.residual.defined()) {  // the sums accumulate onto it
    const Stretches from{at(args.residual, y, p.element), result.stride};
    if (from.data != dense.data) {
      copy_stretches(from, dense, whole ? 1 : pixels, whole ? all : bytes);
    }
  }
  execute(*section.convolution, ConvPass::forward, x, weight,
          channels_from(bias, section.channel), dense.data);
  if (!whole) copy_stretches(dense, result, pixels, bytes);
}

void forward_images(const Conv2dForward::Args& args) {
  Pictures p(ConvPass::forward, args.x, args.weight, args.y, args.taps);
  const TensorView& bias = args.scale.defined() ? args.shift : args.bias;
  p.key.bias = static_cast<std::int64_t>(args.scale.defined() ? ConvBias::f32
                                         : bias.defined() ? ConvBias::as_images
                                                          : ConvBias::none);
  p.key.joined = args.residual.defined() ? 1 : 0;
  p.key.rectified = args.rectify ? 1 : 0;
  const std::vector<Section> sections = sections_of(p);
  const auto count = static_cast<std::int64_t>(sections.size());
  const std::vector<ReadyWeightPtr> weights =
      ready_weights(p, sections, args.weight, args.kept_weight, scale_of(args));
  // Consecutive jobs share the larger operand: a slice's weight, or an image.
  const bool by_images = p.weights() > p.x_elements() * count;
  parallel_for(p.images * count, [&](std::int64_t job) {
    const std::int64_t image = by_images ? job % p.images : job / count;
    const auto i =
        static_cast<std::size_t>(by_images ? job / p.images : job % count);
    forward_section(args, bias, p, image, sections[i], weights[i]->data.data());
  });
}

void data_gradient(const Conv2dBackward::Args& args) {
  const Pictures p(ConvPass::data, args.dx, args.weight, args.dy, args.taps);
  const ConvolutionPtr one = find_convolution(p.key);
  const std::vector<ReadyWeightPtr> weights = ready_weights(
      p, {{0, 0, p.key.out_height, 0, p.key.out, one}}, args.weight, nullptr);
  parallel_for(p.images, [&](std::int64_t n) {
    const SingleThreaded single;
    execute(*one, ConvPass::data, at(args.dx, n * p.x_elements(), p.element),
            weights.front()->data.data(), nullptr,
            at(args.dy, n * p.y_elements(), p.element));
  });
}

// Returns the number of groups of images with separate sums: fewer for large
// weights, since the sums must be read from memory again.
std::int64_t image_groups(const Pictures& p) {
  constexpr std::int64_t kMost = 8, kLeast = 2, kElements = 1 << 22;
  return std::min(p.images, std::clamp(kElements / p.weights(), kLeast, kMost));
}

void weight_gradient(const Conv2dBackward::Args& args) {
  const Pictures p(ConvPass::weights, args.x, args.weight, args.dy, args.taps);
  const std::int64_t groups = image_groups(p);
  const std::int64_t shorter = p.images / groups, longer = p.images % groups;
  ConvKey key = p.key;
  key.images = shorter;
  const ConvolutionPtr one = find_convolution(key);
  key.images = shorter + 1;
  const ConvolutionPtr more = longer > 0 ? find_convolution(key) : nullptr;
  // All sums have the layout of `one`.
  const auto elements =
      static_cast<std::int64_t>(one->weight.get_size() / sizeof(float));
  const Storage sums(static_cast<std::size_t>(groups * elements) *
                     sizeof(float));
  float* const all = static_cast<float*>(sums.data());
  parallel_for(groups, [&](std::int64_t g) {
    const SingleThreaded single;
    const bool is_longer = g < longer;
    const Convolution& mine = is_longer ? *more : *one;
    const std::int64_t n = g * shorter + std::min(g, longer);
    float* const to = all + g * elements;
    if (mine.weight == one->weight) {
      execute(mine, ConvPass::weights,
              at(args.x, n * p.x_elements(), p.element), to, nullptr,
              at(args.dy, n * p.y_elements(), p.element));
      return;
    }
    const Storage own(mine.weight.get_size());
    execute(mine, ConvPass::weights, at(args.x, n * p.x_elements(), p.element),
            own.data(), nullptr, at(args.dy, n * p.y_elements(), p.element));
    reorder(mine.weight, own.data(), one->weight, to);
  });
  add_groups(all, groups, elements);
  const SingleThreaded single;
  reorder(one->weight, all, plain_weight(p.key, args.dweight.dtype),
          args.dweight.data);
}

void backward_images(const Conv2dBackward::Args& args) {
  if (args.dx.defined()) data_gradient(args);
  if (args.dweight.defined()) weight_gradient(args);
}

// Float32 copy of a bfloat16 view, for processors without bfloat16 products.
// round() writes a result back after its last use.
class Widened {
 public:
  explicit Widened(const TensorView& narrow)
      : narrow_(narrow),
        wide_(static_cast<std::size_t>(narrow.numel()) * sizeof(float)) {
    view_ = narrow;
    if (!narrow.defined()) return;
    view_.data = wide_.data();
    view_.dtype = DType::f32;
  }
  const TensorView& read() const {
    each([](float& wide, bfloat16& narrow) {
      wide = static_cast<float>(narrow);
    });
    return view_;
  }
  Output written() const { return {view_}; }
  void round() const {
    each([](float& wide, bfloat16& narrow) { narrow = bfloat16(wide); });
  }

 private:
  template <typename Fn>
  void each(Fn&& fn) const {
    if (!narrow_.defined()) return;
    constexpr std::int64_t kGrain = 1 << 15;
    parallel_chunks(narrow_.numel(), kGrain,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t i = begin; i < end; ++i) {
                        fn(view_.as<float>()[i], narrow_.as<bfloat16>()[i]);
                      }
                    });
  }

  TensorView narrow_, view_;
  Storage wide_;
};

bool widens(DType dtype) {
  initialize();
  return dtype == DType::bf16 && !has_bf16();
}

}  // namespace

void conv2d_forward(const Conv2dForward::Args& args) {
  if (args.y.numel() == 0) return;
  const SignalsBlocked blocked;  // as in gemm.cpp: sgemm may be called
  if (!widens(args.x.dtype)) return forward_images(args);
  const Widened x(args.x), weight(args.weight), bias(args.bias), y(args.y),
      residual(args.residual);
  forward_images({x.read(), weight.read(), bias.read(), y.written(), args.taps,
                  nullptr, args.scale, args.shift, residual.read(),
                  args.rectify});
  y.round();
}

void conv2d_backward(const Conv2dBackward::Args& args) {
  if (args.dy.numel() == 0) {
    // No images: dx is empty, and the sums have no terms.
    if (args.dweight.defined()) {
      std::fill_n(args.dweight.as<char>(),
                  static_cast<std::size_t>(args.dweight.numel()) *
                      size_of(args.dweight.dtype),
                  char{0});
    }
    return;
  }
  const SignalsBlocked blocked;
  if (!widens(args.x.dtype)) return backward_images(args);
  const Widened dy(args.dy), x(args.x), weight(args.weight), dx(args.dx),
      dweight(args.dweight);
  backward_images({dy.read(), x.read(), weight.read(), dx.written(),
                   dweight.written(), args.taps});
  dx.round();
  dweight.round();
}

}  // namespace ea::onednn
