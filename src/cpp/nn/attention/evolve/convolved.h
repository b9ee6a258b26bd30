// Base of the evolve kinds with one convolution over heads.
#pragma once

#include <utility>

#include "nn/attention/registry.h"

namespace ea {

// The convolution's name under attention.self in checkpoints.
inline constexpr const char* kConvName = "evolving_conv";

struct EvolveKernel {
  std::int64_t side = 1;
  Init init = {};
  MapShift shift = {};
  Tensor taps = {};  // [1, 1, side, side]: factors of the taps, or undefined
};

class ConvolvedEvolve : public Evolve {
 public:
  std::int64_t kernel_size() const override {
    return weight_.defined() ? kernel_.side : 1;
  }
  bool reads_later_queries() const override {
    return kernel_size() > 1 && kernel_.shift.down == 0;
  }
  std::optional<std::int64_t> reach_back() const override {
    if (reads_later_queries()) return {};
    return kernel_size() > 1 ? 2 * kernel_.shift.down : 0;
  }

 protected:
  explicit ConvolvedEvolve(EvolveKernel kernel) : kernel_(std::move(kernel)) {}
  // Declares the parameters: without this call, there is no convolution.
  void add_convolution(const SlotSite& site);
  // Returns the kernel [heads, heads, side, side]. The parameter stores the
  // full square; taps that do not count are set to 0.
  Var weight() const;
  const Var& bias() const { return bias_; }  // [heads]
  const MapShift& shift() const { return kernel_.shift; }

 private:
  EvolveKernel kernel_;
  Var weight_, bias_;
};

}  // namespace ea
