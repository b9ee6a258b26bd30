// One flag per path, read from EA_DISABLE at first use.
#include "runtime/fast_paths.h"

#include <array>
#include <atomic>

#include "runtime/check.h"
#include "runtime/env.h"

namespace ea {

namespace {

constexpr std::array<const char*, 9> kNames = {
    "fused_attention", "fused_activation", "fused_norm",
    "packed_weights",  "first_tokens",     "sparse_embeddings",
    "bfloat16_pairs",  "bfloat16_tiles",   "winograd"};

using Flags = std::array<std::atomic<bool>, kNames.size()>;

void set(Flags& flags, std::string_view name, bool on) {
  bool found = false;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name != "all" && name != kNames[i]) continue;
    flags[i] = on;
    found = true;
  }
  if (found) return;
  std::string known = "all";
  for (const char* one : kNames) known += std::string(", ") + one;
  fail<ConfigError>("fast_paths",
                    "unknown fast path '{}' (in EA_DISABLE or set_fast_path); "
                    "expected one of {}",
                    name, known);
}

Flags& flags() {
  static Flags all;
  static const bool once = [] {
    for (auto& flag : all) flag = true;
    std::string_view rest = env::disabled();
    while (!rest.empty()) {
      const std::size_t end = rest.find(',');
      set(all, rest.substr(0, end), false);
      rest = end == rest.npos ? std::string_view() : rest.substr(end + 1);
    }
    return true;
  }();
  (void)once;
  return all;
}

}  // namespace

bool enabled(FastPath path) {
  return flags()[static_cast<std::size_t>(path)].load(
      std::memory_order_relaxed);
}

std::vector<FastPathEntry> fast_paths() {
  std::vector<FastPathEntry> entries;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    entries.push_back({kNames[i], flags()[i].load()});
  }
  return entries;
}

void set_fast_path(std::string_view name, bool on) { set(flags(), name, on); }

}  // namespace ea
