// The list of architectures, and the common part of their outputs.
#include "models/model.h"

#include "runtime/check.h"

namespace ea {

namespace {

std::map<std::string, Architecture>& architectures() {
  static std::map<std::string, Architecture> all;
  return all;
}

}  // namespace

ModelOutput common_output(const StackOutput& stack, const PackedRows& rows) {
  ModelOutput out;
  for (const auto& [i, state] : stack.hidden_states) {
    out.hidden_states[i] = pad_rows(state, rows);
  }
  for (const auto& [i, maps] : stack.attentions) {
    out.attentions[i] = pad_maps(maps, rows);
  }
  for (const auto& [i, maps] : stack.attention_logits) {
    out.attention_logits[i] = pad_maps(maps, rows);
  }
  return out;
}

ModelOutput Model::operator()(const Inputs& inputs) {
  if (!training()) return forward(inputs);
  PassStreams pass;
  return forward(inputs);
}

RegisterModel::RegisterModel(const std::string& name,
                             Architecture architecture) {
  architectures()[name] = std::move(architecture);
}

const Architecture& architecture_of(const std::string& name) {
  const auto it = architectures().find(name);
  if (it != architectures().end()) return it->second;
  std::string known;
  for (const auto& [other, architecture] : architectures()) {
    known += (known.empty() ? "" : ", ") + other;
  }
  fail<ConfigError>("model", "unknown architecture '{}'; expected one of {}",
                    name, known);
}

std::unique_ptr<Model> create_model(const std::string& architecture,
                                    const ModelConfig& config) {
  const Architecture& found = architecture_of(architecture);
  std::unique_ptr<Model> model = found.make(config);
  model->architecture_ = &found;
  return model;
}

}  // namespace ea
