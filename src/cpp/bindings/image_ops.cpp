// Functions on images for Python, with channels before height and width as in
// PyTorch.
#include <pybind11/stl.h>

#include <optional>

#include "bindings/arguments.h"
#include "bindings/ops.h"
#include "ops/conv2d.h"
#include "ops/images.h"
#include "ops/pool2d.h"
#include "ops/relative_2d.h"

namespace ea {

// One number for both axes, or one for the height and one for the width.
template <ArgumentName Name>
struct Sides {
  std::int64_t height = 0, width = 0;
};

}  // namespace ea

namespace pybind11::detail {

template <ea::ArgumentName Name>
struct type_caster<ea::Sides<Name>> {
  PYBIND11_TYPE_CASTER(ea::Sides<Name>, const_name("int | tuple[int, int]"));

  bool load(handle source, bool) {
    if (!isinstance<tuple>(source) && !isinstance<list>(source)) {
      value.height = value.width = ea::whole_number(source, Name.text);
      return true;
    }
    const auto both = reinterpret_borrow<sequence>(source);
    EA_CHECK_AS(ConfigError, both.size() == 2, Name.text,
                "expected a whole number or two of them (height, width), got "
                "{}",
                ea::described(source));
    value.height = ea::whole_number(both[0], Name.text);
    value.width = ea::whole_number(both[1], Name.text);
    return true;
  }
};

}  // namespace pybind11::detail

namespace ea {

namespace {

void bind_conv2d(py::module_& ops) {
  ops.def(
      "conv2d",
      [](const Var& input, const Var& weight, const OptionalVar& bias,
         Sides<"conv2d: stride"> stride, Sides<"conv2d: padding"> padding,
         Sides<"conv2d: dilation"> dilation, Whole<"conv2d: groups"> groups) {
        const Conv2dTaps taps{stride.height, stride.width,    padding.height,
                              padding.width, dilation.height, dilation.width,
                              groups.value};
        return channels_first(conv2d(channels_last(input, "conv2d"), weight,
                                     or_none(bias), taps));
      },
      py::arg("input"), py::arg("weight"), py::arg("bias") = py::none(),
      py::arg("stride") = 1, py::arg("padding") = 0, py::arg("dilation") = 1,
      py::arg("groups") = 1, Release(),
      R"(Convolves images.

    y[n, o, i, j] = bias[o] + sum over c, u, v of
        weight[o, c, u, v] x[n, c, i stride + u dilation - padding,
                             j stride + v dilation - padding]

Pixels outside the image are 0. With groups, output channel o sees the input channels
of its own group alone. With a kernel larger than 1 x 1, an image alone has the bits
that it has in a batch.

Args:
    input: [n, in, height, width].
    weight: [out, in / groups, kernel height, kernel width].
    bias: [out], or None.
    stride: distance of two windows, 1 or more; one number, or (height, width).
    padding: zeros on either side of each axis, 0 or more.
    dilation: distance of two taps, 1 or more.
    groups: divides the channels in and out.

Returns:
    [n, out, out height, out width] in the type of the input, with
    out = (size + 2 padding - dilation (kernel - 1) - 1) // stride + 1 of each axis.

Raises:
    ShapeError: input, weight or bias do not fit, or the kernel is larger than the
        image with its padding.
    DTypeError: the tensors differ in type.
    ConfigError: a setting is out of range or not an integer.

Example:
    >>> from evolving_attention import functional as F
    >>> x = [[[[1.0, 2.0], [3.0, 4.0]]]]
    >>> F.conv2d(x, [[[[1.0, 1.0], [1.0, 1.0]]]]).numpy().tolist()
    [[[[10.0]]]]

Source: LeCun et al., Neural Computation, 1989.)");
}

// The stride is the kernel's size unless it is given.
template <typename Kernel, typename Stride, typename Padding>
PoolWindows windows_of(const Kernel& kernel,
                       const std::optional<Stride>& stride,
                       const Padding& padding) {
  return {kernel.height,
          kernel.width,
          stride ? stride->height : kernel.height,
          stride ? stride->width : kernel.width,
          padding.height,
          padding.width};
}

void bind_max_pool2d(py::module_& ops) {
  ops.def(
      "max_pool2d",
      [](const Var& input, Sides<"max_pool2d: kernel_size"> kernel,
         std::optional<Sides<"max_pool2d: stride">> stride,
         Sides<"max_pool2d: padding"> padding,
         Sides<"max_pool2d: dilation"> dilation, bool ceil_mode) {
        PoolWindows windows = windows_of(kernel, stride, padding);
        windows.dilation_h = dilation.height;
        windows.dilation_w = dilation.width;
        return channels_first(
            max_pool2d(channels_last(input, "max_pool2d"), windows, ceil_mode));
      },
      py::arg("input"), py::arg("kernel_size"), py::arg("stride") = py::none(),
      py::arg("padding") = 0, py::arg("dilation") = 1,
      py::arg("ceil_mode") = false, Release(),
      R"(Takes the greatest pixel of each window of images.

    y[n, c, i, j] = max over u, v of x[n, c, i stride + u dilation - padding,
                                       j stride + v dilation - padding]

Pixels outside the image do not count; a NaN is the greatest. Of equal pixels the first
one gets the gradient.

Args:
    input: [n, channels, height, width].
    kernel_size: sides of a window; one number, or (height, width).
    stride: distance of two windows, 1 or more; None: the kernel's sides.
    padding: how far windows reach beyond the image, at most half of the kernel.
    dilation: distance of two cells of a window, 1 or more.
    ceil_mode: whether windows that reach beyond the padding count, if they begin
        before it ends.

Returns:
    [n, channels, out height, out width] in the type of the input.

Raises:
    ShapeError: there are no images, or the window is larger than the image with its
        padding.
    ConfigError: a setting is out of range or not an integer.

Example:
    >>> from evolving_attention import functional as F
    >>> x = [[[[1.0, 2.0, 5.0, 0.0], [3.0, 4.0, 0.0, 6.0]]]]
    >>> F.max_pool2d(x, 2).numpy().tolist()
    [[[[4.0, 6.0]]]])");
}

void bind_avg_pool2d(py::module_& ops) {
  ops.def(
      "avg_pool2d",
      [](const Var& input, Sides<"avg_pool2d: kernel_size"> kernel,
         std::optional<Sides<"avg_pool2d: stride">> stride,
         Sides<"avg_pool2d: padding"> padding, bool ceil_mode,
         bool count_include_pad) {
        return channels_first(avg_pool2d(channels_last(input, "avg_pool2d"),
                                         windows_of(kernel, stride, padding),
                                         ceil_mode, count_include_pad));
      },
      py::arg("input"), py::arg("kernel_size"), py::arg("stride") = py::none(),
      py::arg("padding") = 0, py::arg("ceil_mode") = false,
      py::arg("count_include_pad") = true, Release(),
      R"(Takes the mean of each window of images.

    y[n, c, i, j] = sum over u, v of x[n, c, i stride + u - padding,
                                       j stride + v - padding] / cells

Pixels outside the image are 0. The mean of a whole image is
``adaptive_avg_pool2d(x, 1)``.

Args:
    input: [n, channels, height, width].
    kernel_size: sides of a window; one number, or (height, width).
    stride: distance of two windows, 1 or more; None: the kernel's sides.
    padding: how far windows reach beyond the image, at most half of the kernel.
    ceil_mode: whether windows that reach beyond the padding count, if they begin
        before it ends.
    count_include_pad: whether cells are those of the image with its padding, or of
        the image alone.

Returns:
    [n, channels, out height, out width] in the type of the input.

Raises:
    ShapeError: there are no images, or the window is larger than the image with its
        padding.
    ConfigError: a setting is out of range or not an integer.

Example:
    >>> from evolving_attention import functional as F
    >>> x = [[[[1.0, 2.0, 5.0, 0.0], [3.0, 4.0, 1.0, 6.0]]]]
    >>> F.avg_pool2d(x, 2).numpy().tolist()
    [[[[2.5, 3.0]]]])");
}

void bind_adaptive_pools(py::module_& ops) {
  ops.def(
      "adaptive_avg_pool2d",
      [](const Var& input, Sides<"adaptive_avg_pool2d: output_size"> size) {
        return channels_first(
            adaptive_avg_pool2d(channels_last(input, "adaptive_avg_pool2d"),
                                size.height, size.width));
      },
      py::arg("input"), py::arg("output_size"), Release(),
      R"(Takes the mean of each window of images, in windows that divide the image.

    y[n, c, i, j] = mean of x[n, c, h, w] over
        floor(i H / out height) <= h < ceil((i + 1) H / out height),
        floor(j W / out width)  <= w < ceil((j + 1) W / out width)

Windows of neighbours share pixels where the sizes do not divide. With output_size=1 it
is the mean of the whole image.

Args:
    input: [n, channels, H, W].
    output_size: out height and out width, each 1 or more; one number, or (height,
        width).

Returns:
    [n, channels, out height, out width] in the type of the input.

Raises:
    ShapeError: there are no images, or images without pixels.
    ConfigError: output_size is out of range or not an integer.

Example:
    >>> from evolving_attention import functional as F
    >>> x = [[[[1.0, 2.0, 6.0], [3.0, 4.0, 8.0]]]]
    >>> F.adaptive_avg_pool2d(x, (1, 2)).numpy().tolist()
    [[[[2.5, 5.0]]]]
    >>> F.adaptive_avg_pool2d(x, 1).numpy().tolist()
    [[[[4.0]]]]

Source: He et al., ECCV 2014, Sec. 2.2 (windows); Lin et al., ICLR 2014, Sec. 3.2 (the
whole image).)");
  ops.def(
      "adaptive_max_pool2d",
      [](const Var& input, Sides<"adaptive_max_pool2d: output_size"> size) {
        return channels_first(
            adaptive_max_pool2d(channels_last(input, "adaptive_max_pool2d"),
                                size.height, size.width));
      },
      py::arg("input"), py::arg("output_size"), Release(),
      R"(Takes the greatest pixel of each window, in windows that divide the image.

    y[n, c, i, j] = max of x[n, c, h, w] over
        floor(i H / out height) <= h < ceil((i + 1) H / out height),
        floor(j W / out width)  <= w < ceil((j + 1) W / out width)

A NaN is the greatest. Of equal pixels the first one gets the gradient.

Args:
    input: [n, channels, H, W].
    output_size: out height and out width, each 1 or more; one number, or (height,
        width).

Returns:
    [n, channels, out height, out width] in the type of the input.

Raises:
    ShapeError: there are no images, or images without pixels.
    ConfigError: output_size is out of range or not an integer.

Example:
    >>> from evolving_attention import functional as F
    >>> x = [[[[1.0, 2.0, 6.0], [3.0, 9.0, 8.0]]]]
    >>> F.adaptive_max_pool2d(x, (1, 2)).numpy().tolist()
    [[[[9.0, 9.0]]]]

Source: He et al., ECCV 2014, Sec. 2.2.)");
}

void bind_relative_2d(py::module_& ops) {
  ops.def(
      "relative_2d", &relative_2d, py::arg("rows"), py::arg("columns"),
      py::arg("packing").none(false), Release(),
      R"(Spreads products by distance along rows and columns of images over maps.

    maps[b, h, i, j] = rows[r, D + clip(j // W - i // W, -D, D)]
                     + columns[r, W - 1 + j % W - i % W]
    with r = (offsets[b] + i) heads + h

The tokens of a sequence are the pixels of an image of width W, row by row. With the
products of each query's heads and the vectors of the distances, these are the logits of
relative keys of images.

Args:
    rows: [total queries * heads, 2 D + 1], a column for each distance in rows.
    columns: [total queries * heads, 2 W - 1], a column for each distance in columns.
    packing: heads and sequences.

Returns:
    Flat maps [packing.map_elements] in the type of rows.

Raises:
    ShapeError: rows or columns have other rows, or an even number of columns.
    DTypeError: the two differ in type.

Example:
    >>> from evolving_attention import functional as F
    >>> packing = F.Packing(1, [0, 2])
    >>> rows, columns = [[7.0], [8.0]], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    >>> F.relative_2d(rows, columns, packing).reshape(2, 2).numpy().tolist()
    [[9.0, 10.0], [12.0, 13.0]]

Source: Bello et al., ICCV 2019, Sec. 3.1.2.)");
}

}  // namespace

void bind_image_ops(py::module_& ops) {
  bind_conv2d(ops);
  bind_max_pool2d(ops);
  bind_avg_pool2d(ops);
  bind_adaptive_pools(ops);
  bind_relative_2d(ops);
}

}  // namespace ea
