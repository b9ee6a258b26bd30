// Gradients of the maps that fused attention does not store.
#pragma once

#include <memory>
#include <vector>

#include "autograd/var.h"
#include "kernels/fused_attention.h"
#include "ops/packing.h"

namespace ea {

// The maps of one fused_attention() whose gradients may be retained: S and P
// are recomputed for the caller, L is the carry.
class FusedMaps {
 public:
  // Tensors saved for backward; undefined where the input was absent.
  struct Saved {
    Tensor q, k, v, previous, weight, bias, score_bias, logits;
    FusedAttention numbers;  // its views are not used
    PackingPtr packing;
  };

  // After this call, retain_gradient(map, ...) retains the whole gradient: the
  // part through the fused op plus the part that reaches `map` directly.
  void observe_scores(const Var& map) { observe(scores_, map); }
  void observe_logits(const Var& map) { join(logits_, map); }
  void observe_probabilities(const Var& map) { observe(probabilities_, map); }

  // Called in backward with the gradients of the context and the carry; either
  // may be undefined.
  void fill(const Saved& saved, const Tensor& dcontext,
            const Tensor& dcarry) const;

 private:
  struct Map {
    std::shared_ptr<std::vector<Retained>> to =
        std::make_shared<std::vector<Retained>>();
    std::shared_ptr<Tensor> direct = std::make_shared<Tensor>();

    bool wanted() const;
    void deliver(const Tensor& gradient) const;
  };
  static void join(const Map& map, const Var& x);
  static void observe(const Map& map, const Var& x);

  Map scores_, logits_, probabilities_;
};

}  // namespace ea
