// Bases of the architectures: parameters by name, and one forward contract for
// each kind of input.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "models/inputs.h"
#include "models/series_inputs.h"
#include "nn/attention/attention.h"
#include "nn/module.h"
#include "nn/options.h"

namespace ea {

struct ModelOutput {
  Var loss, logits, seq_relationship_logits, last_hidden_state, pooler_output;
  std::map<int, Var> hidden_states, attentions, attention_logits;
};

// The parts of an output that every task returns: chosen states and maps, as
// the caller's arrays lie.
ModelOutput common_output(const StackOutput& stack, const PackedRows& rows);

class Model : public Module {
 public:
  virtual ModelOutput forward(const TextInputs& inputs) = 0;
  // The same inputs, checked whole, made up to shapes that come again: see
  // models/prepared_text.h. Throws as forward(), and ConfigError where the
  // model has no loss.
  virtual TextInputs prepare(const TextInputs& inputs) const = 0;
};

class SeriesModel : public Module {
 public:
  virtual ModelOutput forward(const SeriesInputs& inputs) = 0;
};

// Settings of a model: Hugging Face's names, flat; `make_evolve` fills the
// evolve slot of each layer.
struct ModelConfig {
  Options options;
  DType dtype = DType::f32;
  EvolveMaker make_evolve;
};

using ModelFactory = std::function<std::unique_ptr<Model>(const ModelConfig&)>;

// A static object of this type adds an architecture ("bert").
struct RegisterModel {
  RegisterModel(const std::string& name, ModelFactory factory);
};

// Throws ConfigError for an unknown architecture, listing the known ones.
std::unique_ptr<Model> create_model(const std::string& architecture,
                                    const ModelConfig& config);

// EA-DC-Transformer with the head that the options name. Throws ConfigError.
std::unique_ptr<SeriesModel> create_series_model(const ModelConfig& config);

}  // namespace ea
