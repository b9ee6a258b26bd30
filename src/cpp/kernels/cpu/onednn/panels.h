// The right operand of a bfloat16 product in panels of 64 columns, the layout
// that oneDNN's blocked products read.
#pragma once

#include <cstdint>

#include "kernels/cpu/kept_matrix.h"
#include "kernels/cpu/onednn/problem.h"
#include "tensor/storage.h"

namespace ea::onednn {

// A panel is [depth / 2, 64, 2], zero-padded after the last row and column.
constexpr std::int64_t kPanel = 64;

std::int64_t panel_depth(std::int64_t k);  // k, padded
std::int64_t panels_bytes(std::int64_t k, std::int64_t n);

// p.b in panels; may be cached with b's storage.
struct Panels : Storage::Derived {
  explicit Panels(const Problem& p);
  bool made_of(const Problem& p) const { return operand == RightOperand(p); }

  RightOperand operand;
  Storage data;
};

}  // namespace ea::onednn
