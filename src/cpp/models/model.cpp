// The list of architectures, and the common part of their outputs.
#include "models/model.h"

#include "autograd/engine.h"
#include "runtime/check.h"

namespace ea {

namespace {

std::map<std::string, Architecture>& architectures() {
  static std::map<std::string, Architecture> all;
  return all;
}

Var shown_one(const Var& result, const Pad& pad) {
  const Var padded = pad(result);
  retain_gradient(result, padded, [pad](const Tensor& gradient) {
    const Tensor own = pad(Var(gradient)).data();
    return own.storage() == gradient.storage() ? clone(own) : own;
  });
  return padded;
}

}  // namespace

std::map<int, Var> shown(const std::map<int, Var>& results, const Pad& pad) {
  std::map<int, Var> out;
  for (const auto& [i, result] : results) out[i] = shown_one(result, pad);
  return out;
}

std::map<int, Var> shown(const std::map<int, Carry>& maps,
                         const PackedRows& queries, const PackedRows& keys) {
  std::map<int, Var> out;
  for (const auto& [i, one] : maps) {
    const PackingPtr layout = one.packing;
    out[i] = shown_one(one.maps, [layout, queries, keys](const Var& x) {
      return pad_maps(x, layout, queries, keys);
    });
  }
  return out;
}

ModelOutput common_output(const StackOutput& stack, const PackedRows& rows) {
  const Pad states = [rows](const Var& x) { return pad_rows(x, rows); };
  ModelOutput out;
  out.hidden_states = shown(stack.hidden_states, states);
  out.attentions = shown(stack.attentions, rows, rows);
  out.attention_logits = shown(stack.attention_logits, rows, rows);
  out.attention_scores = shown(stack.attention_scores, rows, rows);
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
