// What a model of time series is given, before and after packing.
#pragma once

#include "models/inputs.h"
#include "models/packed_rows.h"

namespace ea {

// As the caller has it: padded [B, T, C] values, with the lengths where they
// differ, or packed [total, C] ones with offsets. Undefined: left out.
struct SeriesInputs {
  Var values;
  Tensor lengths;           // int64 [B]
  Tensor sequence_offsets;  // int64 [B + 1], packed form
  Tensor masked;            // shape of values; not 0: hidden, to be predicted
  Tensor labels;
  double label_smoothing = 0.0;
  Wanted wanted;
};

// The inputs that models of time series declare, and these of what was given.
const std::vector<InputSpec>& series_input_specs();
SeriesInputs series_inputs(const Inputs& inputs);

// As the model computes: one row a step, no padding.
struct PackedSeries : PackedRows {
  // [total, C] of the model's type, on its device; masked cells are 0. All else
  // is on the CPU: the ops that take indices bring them to the weights.
  Var values;
  Tensor positions;  // int64 [total]: the step in its own series
  // Where cells are masked: their flat places in [total, C], and what they hold
  // unmasked; both undefined without `masked`.
  Tensor masked_cells;  // int64 [cells]
  Var targets;          // [cells, 1]
};

struct SeriesLimits {
  std::int64_t channels = 0;
  std::int64_t max_length = 0;
  std::int64_t heads = 1;  // of the maps
  DType dtype = DType::f32;
  Device device = kCpu;  // of the weights
};

// Checks shapes, lengths and that every step is finite, and packs; padding is
// never read. Throws ShapeError, DTypeError or InputError that names the
// argument, the place and the limit.
PackedSeries pack(const SeriesInputs& inputs, const SeriesLimits& limits);

}  // namespace ea
