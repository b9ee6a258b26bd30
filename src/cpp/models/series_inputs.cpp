// Checks and packs the inputs of time-series models.
#include "models/series_inputs.h"

#include <algorithm>

#include "ops/arithmetic.h"
#include "ops/gather.h"
#include "ops/shape_ops.h"
#include "runtime/check.h"
#include "tensor/finite.h"

namespace ea {

namespace {

Rows rows_of_padded(const Shape& shape, const Tensor& lengths) {
  const std::int64_t batch = shape[0];
  const std::int64_t width = shape[1];
  EA_CHECK(!lengths.defined() || lengths.shape() == Shape({batch}), "forward",
           "lengths has shape {}, expected ({},): one for each series",
           lengths.shape(), batch);
  Rows rows;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length =
        lengths.defined() ? lengths.data<std::int64_t>()[b] : width;
    EA_CHECK_AS(InputError, length >= 1 && length <= width, "forward",
                "series {} has length {}: expected 1 to {}, the steps of "
                "values {}; leave empty series out",
                b, length, width, shape);
    for (std::int64_t t = 0; t < length; ++t) {
      rows.places.push_back(b * width + t);
      rows.columns.push_back(t);
    }
    rows.offsets.push_back(static_cast<std::int64_t>(rows.places.size()));
  }
  return rows;
}

void check_values(const SeriesInputs& in, const SeriesLimits& limits) {
  const Var& x = in.values;
  const bool padded = !in.sequence_offsets.defined();
  EA_CHECK(x.rank() == (padded ? 3 : 2), "forward",
           "values has shape {}, expected {}", x.shape(),
           padded ? "(series, length, channels), time before channels; or "
                    "(total, channels) with sequence_offsets"
                  : "(total, channels) with sequence_offsets");
  EA_CHECK(x.dim(x.rank() - 1) == limits.channels, "forward",
           "values has shape {}: {} channels in the last axis, this model "
           "takes {} (time stands before channels)",
           x.shape(), x.dim(x.rank() - 1), limits.channels);
  EA_CHECK(padded || !in.lengths.defined(), "forward",
           "lengths with sequence_offsets: packed input has no padding; "
           "leave one of the two out");
  EA_CHECK(!in.masked.defined() || in.masked.shape() == x.shape(), "forward",
           "masked has shape {}, values {}: they must be equal",
           in.masked.shape(), x.shape());
}

void check_lengths(const Rows& rows, const SeriesLimits& limits) {
  EA_CHECK_AS(InputError, rows.offsets.size() > 1, "forward",
              "values has no series; expected at least one");
  for (std::size_t b = 1; b < rows.offsets.size(); ++b) {
    const std::int64_t length = rows.offsets[b] - rows.offsets[b - 1];
    EA_CHECK_AS(InputError, length <= limits.max_length, "forward",
                "series {} has {} steps, more than the {} this model takes "
                "(max_length); shorten it, or train a model with a larger "
                "max_length",
                b - 1, length, limits.max_length);
  }
}

void check_finite(const PackedSeries& series) {
  const Tensor x = to_device(contiguous(series.values.data()), kCpu);
  const std::int64_t i = first_not_finite(x);
  if (i < 0) return;
  const std::int64_t channels = x.dim(1);
  const std::int64_t place = series.places.data<std::int64_t>()[i / channels];
  const std::string where =
      series.padded
          ? format("{}, {}", place / series.length, place % series.length)
          : format("{}", place);
  fail<InputError>("forward",
                   "values[{}, {}] is {}: expected finite numbers in every "
                   "step that is not padding; fill in what is missing",
                   where, i % channels, cast(x, DType::f64).data<double>()[i]);
}

// Sets the masked cells to 0 and stores their true values.
void hide(const Tensor& masked, PackedSeries& series) {
  EA_CHECK_AS(DTypeError, !is_floating(masked.dtype()), "forward",
              "masked is {}, expected booleans: True for hidden cells",
              masked.dtype());
  const Tensor flags = cast(to_device(contiguous(masked), kCpu), DType::i64);
  const std::int64_t channels = series.values.dim(1);
  std::vector<std::int64_t> cells;
  const Tensor shown = zeros(series.values.shape(), DType::i64);
  for (std::int64_t i = 0; i < shown.numel(); ++i) {
    const std::int64_t place =
        series.places.data<std::int64_t>()[i / channels] * channels +
        i % channels;
    const bool hidden = flags.data<std::int64_t>()[place] != 0;
    if (hidden) cells.push_back(i);
    shown.data<std::int64_t>()[i] = hidden ? 0 : 1;
  }
  EA_CHECK_AS(InputError, !cells.empty(), "forward",
              "masked hides no cell that is not padding, so there is nothing "
              "to predict; draw another mask");
  series.masked_cells = from_values(cells);
  series.targets =
      gather_rows(reshape(series.values, {series.values.numel(), 1}),
                  series.masked_cells)
          .detach();
  series.values =
      mul(series.values, Var(to_device(cast(shown, series.values.dtype()),
                                       series.values.device())));
}

}  // namespace

const std::vector<InputSpec>& series_input_specs() {
  using enum InputKind;
  static const std::vector<InputSpec> specs{
      {"values", values, true,
       "numbers [n, length, channels], time before channels; or packed "
       "[total, channels] with sequence_offsets. Values after the end "
       "of a series are not read."},
      {"lengths", integers, true,
       "[n] integers from 1 to length; by default all have the full length."},
      {"labels", labels, true,
       "[n] classes; for regressors [n] or [n, num_targets] values."},
      {"sequence_offsets", integers, false,
       "[n + 1], index of each packed series' first step, then the total."},
      {"masked", flags, false,
       "booleans in the shape of values, True for hidden cells to predict; for "
       "pre-training."},
  };
  return specs;
}

SeriesInputs series_inputs(const Inputs& given) {
  SeriesInputs in;
  in.values = given.var("values");
  EA_CHECK_AS(InputError, in.values.defined(), "forward",
              "values is None; expected an array (series, length, channels)");
  in.lengths = given.array("lengths");
  in.sequence_offsets = given.array("sequence_offsets");
  in.labels = given.array("labels");
  in.masked = given.array("masked");
  in.label_smoothing = given.label_smoothing;
  in.wanted = given.wanted;
  return in;
}

PackedSeries pack(const SeriesInputs& given, const SeriesLimits& limits) {
  SeriesInputs in = given;
  in.lengths = host_integers("lengths", in.lengths);
  in.sequence_offsets = host_integers("sequence_offsets", in.sequence_offsets);
  check_values(in, limits);
  const bool padded = !in.sequence_offsets.defined();
  const Shape shape = in.values.shape();
  const Rows rows =
      padded ? rows_of_padded(shape, in.lengths)
             : rows_of_packed(in.sequence_offsets, shape[0], "steps");
  check_lengths(rows, limits);
  PackedSeries series;
  static_cast<PackedRows&>(series) =
      padded ? packed_rows(rows, limits.heads, shape[0], shape[1])
             : packed_rows(rows, limits.heads);
  Var x = in.values;
  if (padded) {
    x = gather_rows(reshape(x, {shape[0] * shape[1], shape[2]}), series.places);
  }
  series.values = x.dtype() == limits.dtype ? x : cast(x, limits.dtype);
  series.positions = from_values(rows.columns);
  check_finite(series);
  series.values = to_device(series.values, limits.device);
  if (in.masked.defined()) hide(in.masked, series);
  return series;
}

}  // namespace ea
