// Switches of the fast paths: each can be turned off, and the plain ops that
// stand behind it run instead, with the same results within rounding.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ea {

enum class FastPath {
  fused_attention,    // scores to context in one kernel
  fused_activation,   // an affine map and its activation, or two, in one op
  fused_norm,         // dropout, residual and layer norm in one op
  packed_weights,     // weights laid out once for many products (inference)
  first_tokens,       // the last layer ends with the rows a classifier reads
  sparse_embeddings,  // gradients of tables hold the rows in use alone
  bfloat16_pairs,     // fused attention and conv1d multiply bfloat16 as it is
};

// On unless EA_DISABLE names it (EA_DISABLE=all: every one).
bool enabled(FastPath path);

struct FastPathEntry {
  std::string name;
  bool on;
};
std::vector<FastPathEntry> fast_paths();
// Throws ConfigError for an unknown name; "all" stands for every one.
void set_fast_path(std::string_view name, bool on);

}  // namespace ea
