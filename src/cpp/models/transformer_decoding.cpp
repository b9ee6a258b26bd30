// Computes the next token from caches, or by decoding the whole target again.
#include "models/transformer_decoding.h"

#include "autograd/grad_mode.h"
#include "ops/gather.h"
#include "runtime/check.h"

namespace ea {

namespace {

using Indices = std::vector<std::int64_t>;

Tensor logits_of(const Var& rows, const OutputMatrix& output) {
  return cast(to_device(output.logits(rows).data(), kCpu), DType::f32);
}

Indices lengths_of(const Packing& packing) {
  const Indices& offsets = packing.q_offsets();
  Indices lengths;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    lengths.push_back(offsets[i] - offsets[i - 1]);
  }
  return lengths;
}

void check_one_each(const Indices& ids, std::size_t targets) {
  EA_CHECK(ids.size() == targets, "target_state",
           "{} tokens for {} targets; expected one each", ids.size(), targets);
}

Indices chosen(const Indices& values, const Indices& kept) {
  Indices out;
  for (const std::int64_t i : kept) {
    out.push_back(values.at(static_cast<std::size_t>(i)));
  }
  return out;
}

class CachedTarget final : public TargetState {
 public:
  CachedTarget(TransformerBody& body, const OutputMatrix& output,
               const Tokens& memory)
      : body_(body),
        output_(output),
        lengths_(lengths_of(*memory.packing)),
        caches_(body.start(memory)) {
    for (std::size_t i = 0; i < lengths_.size(); ++i) {
      sources_.push_back(static_cast<std::int64_t>(i));
    }
  }

  Indices source_lengths() const override { return lengths_; }

  void expect(std::int64_t tokens) override {
    for (LayerCache& cache : caches_) cache.self.expected = tokens;
  }

  Tensor next(const Indices& ids) override {
    const NoGrad no_grad;
    check_one_each(ids, lengths_.size());
    const Var rows = body_.step(from_values(ids), position_, caches_);
    ++position_;
    return logits_of(rows, output_);
  }

  void select(const Indices& kept) override {
    const NoGrad no_grad;
    const Indices sources = chosen(sources_, kept);
    // Beams of one sentence that are reordered read the same memory.
    const bool same_memory = sources == sources_;
    for (LayerCache& cache : caches_) {
      cache.self.select(kept);
      cache.cross.select(kept, same_memory);
    }
    lengths_ = chosen(lengths_, kept);
    sources_ = sources;
  }

 private:
  TransformerBody& body_;
  OutputMatrix output_;
  std::int64_t position_ = 0;
  Indices lengths_, sources_;
  std::vector<LayerCache> caches_;
};

class WholeTarget final : public TargetState {
 public:
  WholeTarget(TransformerBody& body, const OutputMatrix& output,
              const Tokens& memory)
      : body_(body),
        output_(output),
        memory_(memory),
        targets_(static_cast<std::size_t>(memory.packing->sequences())) {}

  Indices source_lengths() const override {
    return lengths_of(*memory_.packing);
  }

  Tensor next(const Indices& ids) override {
    const NoGrad no_grad;
    check_one_each(ids, targets_.size());
    Indices all, offsets{0}, last;
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      targets_[i].push_back(ids[i]);
      all.insert(all.end(), targets_[i].begin(), targets_[i].end());
      offsets.push_back(static_cast<std::int64_t>(all.size()));
      last.push_back(offsets.back() - 1);
    }
    const Var rows = body_.decode(from_values(all), offsets, memory_);
    return logits_of(gather_rows(rows, from_values(last)), output_);
  }

  void select(const Indices& kept) override {
    const NoGrad no_grad;
    std::vector<Indices> targets;
    for (const std::int64_t i : kept) {
      targets.push_back(targets_.at(static_cast<std::size_t>(i)));
    }
    const SelectedRows selected =
        select_rows(memory_.packing->q_offsets(), kept);
    memory_ = {gather_rows(memory_.rows, selected.rows),
               std::make_shared<const Packing>(memory_.packing->heads(),
                                               selected.offsets)};
    targets_ = std::move(targets);
  }

 private:
  TransformerBody& body_;
  OutputMatrix output_;
  Tokens memory_;
  std::vector<Indices> targets_;
};

}  // namespace

std::unique_ptr<TargetState> start_target(TransformerBody& body,
                                          const OutputMatrix& output,
                                          const TextInputs& source,
                                          bool cached) {
  EA_CHECK_AS(ConfigError, !cached || body.can_cache(), "generate",
              "use_cache=True, but a row of this decoder's maps may depend on "
              "all earlier ones (a bias, or a slot in Python); leave use_cache "
              "out");
  const NoGrad no_grad;
  const Tokens memory = body.encode(source);
  if (cached) return std::make_unique<CachedTarget>(body, output, memory);
  return std::make_unique<WholeTarget>(body, output, memory);
}

}  // namespace ea
