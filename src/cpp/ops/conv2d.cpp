// Convolution of images; a 1 x 1 convolution is a matrix product.
#include "ops/conv2d.h"

#include "autograd/node.h"
#include "kernels/registry.h"
#include "ops/images.h"
#include "ops/products.h"
#include "runtime/check.h"

namespace ea {

namespace {

void check_convolution(const Var& x, const Var& weight, const Var& bias,
                       std::int64_t groups) {
  EA_CHECK(x.rank() == 4, "conv2d",
           "input has shape {}, expected four axes: images, channels, height "
           "and width",
           x.shape());
  EA_CHECK(weight.rank() == 4 && weight.dim(0) >= 1 && weight.dim(1) >= 1,
           "conv2d",
           "weight has shape {}, expected (out, in / groups, kernel height, "
           "kernel width), none of them 0",
           weight.shape());
  const std::int64_t in = x.dim(3), out = weight.dim(0);
  EA_CHECK_AS(ConfigError, groups >= 1 && out % groups == 0, "conv2d",
              "groups {}, expected 1 or more that divide the {} output "
              "channels",
              groups, out);
  EA_CHECK(weight.dim(1) * groups == in, "conv2d",
           "weight has shape {} with {} group{}: expected {} input channels, "
           "input has {}",
           weight.shape(), groups, groups == 1 ? "" : "s",
           weight.dim(1) * groups, in);
  check_parameters("conv2d", x.dtype(), weight, bias);
}

// Whether each output pixel reads only the input pixel at its own position.
bool of_single_pixels(const Var& weight, const Conv2dTaps& t) {
  return weight.dim(2) == 1 && weight.dim(3) == 1 && t.stride_h == 1 &&
         t.stride_w == 1 && t.pad_h == 0 && t.pad_w == 0 && t.groups == 1;
}

// Per pixel y = x W^T + b, hence dx = dy W, dW = dy^T x.
Var product_of_pixels(const Var& x, const Var& weight, const Var& bias) {
  const Tensor x2 = as_matrix(x.data());
  const Tensor y = affine(x2, weight, bias);
  const Shape images = x.shape(), weights = weight.shape();
  Shape shape = images;
  shape[3] = weights[0];
  return record(
      "conv2d", reshape_view(y, shape), {x, weight, bias},
      {to_save(x, x2), contiguous(weight.data())},
      [images, weights](const Node& node, const Tensor& grad) {
        const Tensor dy = as_matrix(grad);
        const Tensor w = reshape_view(node.saved(1), {weights[0], weights[1]});
        Node::Gradients grads(3);
        if (node.wants(0)) {
          grads[0] = reshape_view(product(dy, w, false, false), images);
        }
        if (node.wants(1)) {
          const Tensor x2 = as_matrix(node.input(0));
          grads[1] = reshape_view(product(dy, x2, true, false), weights);
        }
        if (node.wants(2)) grads[2] = sum_of_rows(dy);
        return grads;
      });
}

Shape shape_of(const Var& x, const Var& weight, const Conv2dTaps& taps) {
  const std::int64_t height = places_of_window(
      "conv2d", "height",
      {x.dim(1), weight.dim(2), taps.stride_h, taps.pad_h, taps.dilation_h});
  const std::int64_t width = places_of_window(
      "conv2d", "width",
      {x.dim(2), weight.dim(3), taps.stride_w, taps.pad_w, taps.dilation_w});
  return {x.dim(0), height, width, weight.dim(0)};
}

// Whether x is a temporary whose data no graph and no other tensor shares.
bool held_alone(const Var& x) {
  return x.defined() && x.impl().use_count() == 1 && !x.requires_grad() &&
         x.data().storage().use_count() == 1 && x.data().is_contiguous();
}

}  // namespace

Var conv2d(const Var& x, const Var& weight, const Var& bias,
           const Conv2dTaps& taps) {
  check_convolution(x, weight, bias, taps.groups);
  if (of_single_pixels(weight, taps)) {
    return product_of_pixels(x, weight, bias);
  }
  const Tensor y = empty(shape_of(x, weight, taps), x.dtype(), x.device());
  const Tensor images = contiguous(x.data());
  const Tensor w = contiguous(weight.data());
  kernels::run<Conv2dForward>(
      {images, w, bias.defined() ? contiguous(bias.data()) : Tensor(), y, taps,
       keeper_of(weight)});
  return record(
      "conv2d", y, {x, weight, bias}, {to_save(x, images), w},
      [taps](const Node& node, const Tensor& grad) {
        const Tensor x = node.input(0);
        const Tensor& w = node.saved(1);
        const Tensor dy = contiguous(grad);
        Node::Gradients grads(3);
        if (node.wants(0)) grads[0] = empty_like(x);
        if (node.wants(1)) grads[1] = empty_like(w);
        if (node.wants(0) || node.wants(1)) {
          kernels::run<Conv2dBackward>({dy, x, w, grads[0], grads[1], taps});
        }
        if (node.wants(2)) grads[2] = sum_of_rows(as_matrix(dy));
        return grads;
      });
}

Var conv2d_mapped(const Var& x, const Var& weight, const Conv2dTaps& taps,
                  const ChannelMap& map, Var residual, bool rectify) {
  check_convolution(x, weight, {}, taps.groups);
  const Shape shape = shape_of(x, weight, taps);
  EA_CHECK(!residual.defined() || residual.shape() == shape, "conv2d",
           "residual has shape {}, expected {}", residual.shape(), shape);
  const bool in_place = held_alone(residual);
  const Tensor y =
      in_place ? residual.data() : empty(shape, x.dtype(), x.device());
  kernels::run<Conv2dForward>(
      {contiguous(x.data()), contiguous(weight.data()), Tensor(), y, taps,
       keeper_of(weight), map.scale, map.shift,
       residual.defined() ? contiguous(residual.data()) : Tensor(), rectify});
  if (in_place) y.storage()->note_write();
  return Var(y);
}

}  // namespace ea
