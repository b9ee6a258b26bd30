// The inputs of a time-series model, before and after packing.
#pragma once

#include "models/inputs.h"
#include "models/packed_rows.h"

namespace ea {

// Inputs as the caller gives them: padded [B, T, C] values, with lengths if
// they differ, or packed [total, C] values with offsets. Omitted ones are
// undefined.
struct SeriesInputs {
  Var values;
  Tensor lengths;           // int64 [B]
  Tensor sequence_offsets;  // int64 [B + 1], packed form
  Tensor masked;            // shape of values; not 0: hidden and predicted
  Tensor labels;
  double label_smoothing = 0.0;
  Wanted wanted;
};

// The inputs that time-series models declare, and their values in a call.
const std::vector<InputSpec>& series_input_specs();
SeriesInputs series_inputs(const Inputs& inputs);

// The packed form: one row per step, no padding.
struct PackedSeries : PackedRows {
  // [total, C] in the model's type, on its device; masked cells are 0. The
  // other members are on the CPU: ops copy indices to the weights' device.
  Var values;
  Tensor positions;  // int64 [total]: the step in its own series
  // The flat indices of masked cells in [total, C], and their true values; both
  // undefined without `masked`.
  Tensor masked_cells;  // int64 [cells]
  Var targets;          // [cells, 1]
};

struct SeriesLimits {
  std::int64_t channels = 0;
  std::int64_t max_length = 0;
  std::int64_t heads = 1;  // heads of the maps
  DType dtype = DType::f32;
  Device device = kCpu;  // device of the weights
};

// Checks shapes, lengths and that every step is finite, and packs; padding is
// never read. Throws ShapeError, DTypeError or InputError that names the
// argument, the index and the limit.
PackedSeries pack(const SeriesInputs& inputs, const SeriesLimits& limits);

}  // namespace ea
