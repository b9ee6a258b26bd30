// Products of bfloat16 whose right operand lies in panels: laid out once, for
// all tiles of a call or for all calls with one weight.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cpu/onednn/problem.h"
#include "tensor/storage.h"

namespace ea::onednn {

// y = a op(b) + bias. `kept`: b's storage, if its panels may be kept there.
// b_depth: of op(b), where a has zeros behind that, up to p.k; it rounds up to
// p.k (panel_depth). False, and nothing done, where this is not the way (oneDNN
// has no such product on this processor, or p has a batch or a factor).
bool blocked_product(const Problem& p, const Storage* kept,
                     std::optional<std::int64_t> b_depth = {});

}  // namespace ea::onednn
