// The bias slot with learned relative positions.
#pragma once

#include <memory>

#include "nn/attention/slots.h"

namespace ea {

// For sequences of up to `max_length` tokens; q_i is multiplied as it is, and
// the product scaled as the scores are.
std::unique_ptr<Bias> make_relative_bias(std::int64_t max_length,
                                         std::int64_t head_width, DType dtype);

}  // namespace ea
