// Divides convolutions into bands of rows of an image, images, and groups of
// images: by the shapes alone, so that threads change no bit.
#include "kernels/cpu/onednn/conv2d.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/onednn/conv_primitives.h"
#include "kernels/cpu/onednn/engine.h"
#include "runtime/bfloat16.h"
#include "runtime/signals.h"
#include "runtime/threads.h"
#include "tensor/storage.h"

namespace ea::onednn {

namespace {

// The convolution of all images, and where its rows lie.
struct Pictures {
  ConvKey key{};  // of one whole image
  std::int64_t images;
  std::size_t element;  // bytes

  Pictures(ConvPass pass, const TensorView& x, const TensorView& weight,
           const TensorView& y, bool biased, const Conv2dTaps& t)
      : images(x.dim(0)), element(size_of(x.dtype)) {
    key.pass = static_cast<std::int64_t>(pass);
    key.dtype = static_cast<std::int64_t>(x.dtype);
    key.biased = biased ? 1 : 0;
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
  // The rows, padding included, that `rows` rows of y read.
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

// A band of rows of y, with the convolution of the rows of x that it reads.
struct Band {
  std::int64_t x_row, y_row;
  ConvolutionPtr convolution;
};

// How many bands an image has: a power of two, which any few threads share
// evenly, of no less work than is worth a job.
std::int64_t bands_in(const Pictures& p) {
  constexpr std::int64_t kMost = 8;
  constexpr std::int64_t kWork = 1 << 22;  // multiply-adds worth a job
  const std::int64_t rows = p.key.out_height;
  const std::int64_t work = p.weights() * rows * p.key.out_width / kWork;
  std::int64_t count = 1;
  while (count < kMost && 2 * count <= std::min(work, rows)) count *= 2;
  return count;
}

// Bands of nearly equal height, the higher ones first: a thread that is free
// early takes a low one. An image whose padding swallows the rows of a band has
// one alone.
std::vector<Band> bands_of(const Pictures& p) {
  const ConvKey& whole = p.key;
  const std::int64_t count = bands_in(p);
  std::vector<Band> bands;
  std::int64_t begin = 0;
  for (std::int64_t b = 0; b < count && count > 1; ++b) {
    const std::int64_t rows =
        (whole.out_height - begin + count - b - 1) / (count - b);
    const std::int64_t first = begin * whole.stride_h - whole.pad_top;
    const std::int64_t last = first + p.rows_read(rows);
    const std::int64_t top = std::max<std::int64_t>(0, first);
    const std::int64_t bottom = std::min(whole.height, last);
    if (bottom <= top) break;
    ConvKey key = whole;
    key.height = bottom - top;
    key.out_height = rows;
    key.pad_top = top - first;
    key.pad_bottom = last - bottom;
    bands.push_back({top, begin, find_convolution(key)});
    begin += rows;
  }
  if (static_cast<std::int64_t>(bands.size()) < count || count == 1) {
    return {{0, 0, find_convolution(whole)}};
  }
  return bands;
}

// A weight in the layout that a convolution reads.
struct ReadyWeight {
  dnnl::memory::desc layout;
  Storage data;

  ReadyWeight(const ConvKey& key, const dnnl::memory::desc& to,
              const void* weight)
      : layout(to), data(to.get_size()) {
    reorder(plain_weight(key, static_cast<DType>(key.dtype)), weight, to,
            data.data());
  }
};

using ReadyWeightPtr = std::shared_ptr<const ReadyWeight>;

// One weight in all layouts that were asked for: bands of other heights may
// read another.
struct ReadyWeights : Storage::Derived {
  const void* source = nullptr;
  std::vector<ReadyWeightPtr> all;

  ReadyWeightPtr in(const dnnl::memory::desc& layout) const {
    const auto at = std::find_if(all.begin(), all.end(), [&](const auto& one) {
      return one->layout == layout;
    });
    return at == all.end() ? nullptr : *at;
  }
};

// The weight in the layout of each convolution; what is made of a kept weight
// is kept with it.
std::vector<ReadyWeightPtr> ready_weights(
    const ConvKey& key, const std::vector<ConvolutionPtr>& convolutions,
    const void* weight, const Storage* kept) {
  const SingleThreaded single;
  const std::uint64_t version = kept == nullptr ? 0 : kept->version();
  auto ready = std::make_shared<ReadyWeights>();
  if (kept != nullptr) {
    const auto found =
        std::dynamic_pointer_cast<const ReadyWeights>(kept->derived());
    if (found != nullptr && found->source == weight) *ready = *found;
  }
  ready->source = weight;
  const std::size_t before = ready->all.size();
  std::vector<ReadyWeightPtr> weights;
  for (const ConvolutionPtr& one : convolutions) {
    ReadyWeightPtr same = ready->in(one->weight);
    if (same == nullptr) {
      same = std::make_shared<const ReadyWeight>(key, one->weight, weight);
      ready->all.push_back(same);
    }
    weights.push_back(std::move(same));
  }
  if (kept != nullptr && ready->all.size() > before) kept->keep(ready, version);
  return weights;
}

void forward_images(const Conv2dForward::Args& args) {
  Pictures p(ConvPass::forward, args.x, args.weight, args.y,
             args.bias.defined(), args.taps);
  p.key.scaled = args.scale.defined() ? 1 : 0;
  p.key.joined = args.residual.defined() ? 1 : 0;
  p.key.rectified = args.rectify ? 1 : 0;
  const std::vector<Band> bands = bands_of(p);
  const auto count = static_cast<std::int64_t>(bands.size());
  std::vector<ConvolutionPtr> convolutions;
  for (const Band& band : bands) convolutions.push_back(band.convolution);
  const std::vector<ReadyWeightPtr> weights =
      ready_weights(p.key, convolutions, args.weight.data, args.kept_weight);
  parallel_for(p.images * count, [&](std::int64_t job) {
    const SingleThreaded single;
    const std::int64_t n = job / count;
    const auto b = static_cast<std::size_t>(job % count);
    const Band& band = bands[b];
    const std::int64_t x =
        n * p.x_elements() + band.x_row * p.key.width * p.key.in;
    const std::int64_t y =
        n * p.y_elements() + band.y_row * p.key.out_width * p.key.out;
    const Epilogue epilogue{
        args.scale.data, args.shift.data,
        args.residual.defined() ? at(args.residual, y, p.element) : nullptr};
    execute(*band.convolution, ConvPass::forward, at(args.x, x, p.element),
            weights[b]->data.data(), args.bias.data, at(args.y, y, p.element),
            epilogue);
  });
}

void data_gradient(const Conv2dBackward::Args& args) {
  const Pictures p(ConvPass::data, args.dx, args.weight, args.dy, false,
                   args.taps);
  const ConvolutionPtr one = find_convolution(p.key);
  const ReadyWeightPtr weight =
      ready_weights(p.key, {one}, args.weight.data, nullptr).front();
  parallel_for(p.images, [&](std::int64_t n) {
    const SingleThreaded single;
    execute(*one, ConvPass::data, at(args.dx, n * p.x_elements(), p.element),
            weight->data.data(), nullptr,
            at(args.dy, n * p.y_elements(), p.element));
  });
}

// How many groups of images sum on their own: fewer of large weights, whose
// sums are memory to read again.
std::int64_t image_groups(const Pictures& p) {
  constexpr std::int64_t kMost = 8, kLeast = 2, kElements = 1 << 22;
  return std::min(p.images, std::clamp(kElements / p.weights(), kLeast, kMost));
}

void weight_gradient(const Conv2dBackward::Args& args) {
  const Pictures p(ConvPass::weights, args.x, args.weight, args.dy, false,
                   args.taps);
  const std::int64_t groups = image_groups(p);
  const std::int64_t shorter = p.images / groups, longer = p.images % groups;
  ConvKey key = p.key;
  key.images = shorter;
  const ConvolutionPtr one = find_convolution(key);
  key.images = shorter + 1;
  const ConvolutionPtr more = longer > 0 ? find_convolution(key) : nullptr;
  // Both have the layout of the first.
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
  constexpr std::int64_t kGrain = 1 << 15;
  parallel_chunks(elements, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = 1; g < groups; ++g) {
      const float* from = all + g * elements;
      for (std::int64_t i = begin; i < end; ++i) all[i] += from[i];
    }
  });
  const SingleThreaded single;
  reorder(one->weight, all, plain_weight(p.key, args.dweight.dtype),
          args.dweight.data);
}

void backward_images(const Conv2dBackward::Args& args) {
  if (args.dx.defined()) data_gradient(args);
  if (args.dweight.defined()) weight_gradient(args);
}

// Where the processor has no bfloat16 products: a view of the same numbers in
// float32, which a result is rounded from when the last use of it is over.
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
    // No image: dx has no element, and no sum has a term.
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
