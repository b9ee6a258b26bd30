// bfloat16 products whose right operand is packed into panels once, for all
// tiles of a call or for all calls with one weight.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cpu/onednn/problem.h"
#include "tensor/storage.h"

namespace ea::onednn {

// Computes y = a op(b) + bias. `kept`: b's storage, if its panels may be cached
// there. b_depth: depth of op(b), if a is zero-padded from there to p.k; p.k is
// then panel_depth(b_depth). Returns false, with nothing done, if oneDNN has no
// such product on this processor, or if p has a batch or a factor.
bool blocked_product(const Problem& p, const Storage* kept,
                     std::optional<std::int64_t> b_depth = {});

}  // namespace ea::onednn
