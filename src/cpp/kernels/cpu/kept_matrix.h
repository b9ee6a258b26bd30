// Caches data derived from a right operand that many products share.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/gemm.h"
#include "tensor/storage.h"

namespace ea {

// Identifies the matrix that cached data was derived from.
struct RightOperand {
  const void* b;
  std::int64_t k, n, stride;
  bool transpose;

  explicit RightOperand(const MatMulProblem& p)
      : b(p.b), k(p.k), n(p.n), stride(p.b_stride), transpose(p.transpose_b) {}
  bool operator==(const RightOperand&) const = default;
};

// Returns the Made(of...) cached with the storage `kept`, or a new one, which
// is cached there unless `kept` is null.
template <typename Made, typename... Of>
std::shared_ptr<const Made> kept_or_made(const Storage* kept, const Of&... of) {
  if (kept == nullptr) return std::make_shared<const Made>(of...);
  auto found = std::dynamic_pointer_cast<const Made>(kept->derived());
  if (found != nullptr && found->made_of(of...)) return found;
  const std::uint64_t version = kept->version();
  found = std::make_shared<const Made>(of...);
  kept->keep(found, version);
  return found;
}

}  // namespace ea
