// The list of architectures, and what their outputs share.
#include "models/model.h"

#include "runtime/check.h"

namespace ea {

namespace {

std::map<std::string, ModelFactory>& factories() {
  static std::map<std::string, ModelFactory> all;
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

RegisterModel::RegisterModel(const std::string& name, ModelFactory factory) {
  factories()[name] = std::move(factory);
}

std::unique_ptr<Model> create_model(const std::string& architecture,
                                    const ModelConfig& config) {
  const auto it = factories().find(architecture);
  if (it != factories().end()) return it->second(config);
  std::string known;
  for (const auto& [name, factory] : factories()) {
    known += (known.empty() ? "" : ", ") + name;
  }
  fail<ConfigError>("model", "unknown architecture '{}'; expected one of {}",
                    architecture, known);
}

}  // namespace ea
