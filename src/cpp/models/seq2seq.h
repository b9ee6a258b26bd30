// Interface of models that generate a target token by token.
#pragma once

#include <memory>
#include <vector>

#include "models/model.h"

namespace ea {

// Targets of equal length, which grow by one token at a time. Several may have
// the same source. The model must outlive them.
class TargetState {
 public:
  virtual ~TargetState() = default;
  // The number of tokens of each target's source.
  virtual std::vector<std::int64_t> source_lengths() const = 0;
  // Announces the most tokens that all targets together will have, so that
  // caches need not grow on the way.
  virtual void expect(std::int64_t /*tokens*/) {}
  // Appends one token to each target. Returns the logits of the next token:
  // float32 [targets, vocabulary] on the CPU.
  virtual Tensor next(const std::vector<std::int64_t>& ids) = 0;
  // Keeps the targets with these indices, in this order. An index may occur
  // several times.
  virtual void select(const std::vector<std::int64_t>& kept) = 0;
};

class Seq2SeqModel : public Model {
 public:
  // Whether a token can be computed from caches, without its earlier tokens.
  virtual bool can_cache() const = 0;
  // Throws ConfigError if tokens depend on later ones.
  virtual void check_order() const = 0;
  virtual std::int64_t longest_target() const = 0;  // tokens the decoder reads
  virtual std::int64_t target_vocabulary() const = 0;
  // Creates one empty target for each source. Records nothing for gradients.
  // Throws ConfigError if `cached` without can_cache().
  virtual std::unique_ptr<TargetState> start(const Inputs& source,
                                             bool cached) = 0;
};

}  // namespace ea
