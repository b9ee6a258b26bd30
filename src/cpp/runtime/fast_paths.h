// Switches of the fast paths: if one is off, plain ops run instead and give the
// same results within rounding.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ea {

enum class FastPath {
  fused_attention,    // scores to context in one kernel
  fused_activation,   // affine map + activation (+ affine map) in one op
  fused_norm,         // a norm in one op with the ops before or after it
  packed_weights,     // weights packed once for many products (inference)
  first_tokens,       // the last layer computes only rows the classifier reads
  sparse_embeddings,  // gradients of tables hold only the rows in use
  bfloat16_pairs,     // our own kernels multiply bfloat16 directly
  bfloat16_tiles,     // fused attention multiplies bfloat16 in AMX tiles
  winograd,           // 3 x 3 convolutions with fewer multiplications
};

// Returns whether the path is on, as it is unless EA_DISABLE names it
// (EA_DISABLE=all: every path).
bool enabled(FastPath path);

struct FastPathEntry {
  std::string name;
  bool on;
};
std::vector<FastPathEntry> fast_paths();
// Throws ConfigError for an unknown name; "all" sets every path.
void set_fast_path(std::string_view name, bool on);

}  // namespace ea
