// Base of the architectures: parameters by name, and one forward contract.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/inputs.h"
#include "models/packed_rows.h"
#include "nn/attention/spec.h"
#include "nn/module.h"
#include "nn/options.h"

namespace ea {

struct ModelOutput {
  Var loss, logits, start_logits, end_logits, seq_relationship_logits;
  Var last_hidden_state, pooler_output;
  std::map<int, Var> hidden_states, attentions, attention_logits,
      attention_scores;
  // Outputs of models with two stacks.
  Var encoder_last_hidden_state;
  std::map<std::string, std::map<int, Var>> by_stack;  // "cross_attentions", ..
};

// Returns the requested results in the layout of the caller's arrays, made by
// `pad`. Backward fills the gradients of these copies with those of the
// results.
using Pad = std::function<Var(const Var&)>;
std::map<int, Var> shown(const std::map<int, Var>& results, const Pad& pad);
// shown() for maps; `pad` also gets their layout. pads_maps() calls pad_maps().
using PadMaps = std::function<Var(const Var&, const PackingPtr&)>;
std::map<int, Var> shown(const std::map<int, Carry>& maps, const PadMaps& pad);
PadMaps pads_maps(const PackedRows& queries, const PackedRows& keys);
// Fills the attentions of an output, their logits and their scores.
void put_maps(ModelOutput& out, const KeptMaps& maps, const PadMaps& pad);

// Returns the parts of an output that every task has: requested states and
// maps, in the layout of the caller's arrays.
ModelOutput common_output(const StackOutput& stack, const PackedRows& rows);

struct Architecture;
struct ModelConfig;

class Model : public Module {
 public:
  // `inputs`: inputs that the architecture declares. Throws ShapeError,
  // DTypeError or InputError that names the input, the index and the limit.
  virtual ModelOutput forward(const Inputs& inputs) = 0;
  // Calls forward(), in training as one pass of random streams (PassStreams).
  ModelOutput operator()(const Inputs& inputs);
  const Architecture& architecture() const { return *architecture_; }

 private:
  friend std::unique_ptr<Model> create_model(const std::string&,
                                             const ModelConfig&);
  const Architecture* architecture_ = nullptr;  // set by create_model()
};

// Settings of a model, with Hugging Face's names, and the specs of its
// attention layers.
struct ModelConfig {
  Options options;
  DType dtype = DType::f32;
  AttentionSpecs attention{AttentionSpec()};
  // Specs of attention layers outside the first stack, by their name in the
  // config ("cross_attention").
  std::map<std::string, AttentionSpecs> more_attention = {};
};

// A family of models: the inputs of their calls, and the factory.
struct Architecture {
  std::vector<InputSpec> inputs;
  std::function<std::unique_ptr<Model>(const ModelConfig&)> make;
};

// A static object of this type registers an architecture ("bert").
struct RegisterModel {
  RegisterModel(const std::string& name, Architecture architecture);
};

// Throws ConfigError for an unknown name, listing the known ones.
const Architecture& architecture_of(const std::string& name);
std::unique_ptr<Model> create_model(const std::string& architecture,
                                    const ModelConfig& config);

}  // namespace ea
