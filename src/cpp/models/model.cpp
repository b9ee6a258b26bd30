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

std::map<int, Var> shown(const std::map<int, Carry>& maps, const PadMaps& pad) {
  std::map<int, Var> out;
  for (const auto& [i, one] : maps) {
    out[i] = shown_one(one.maps, [pad, layout = one.packing](const Var& x) {
      return pad(x, layout);
    });
  }
  return out;
}

PadMaps pads_maps(const PackedRows& queries, const PackedRows& keys) {
  return [queries, keys](const Var& x, const PackingPtr& layout) {
    return pad_maps(x, layout, queries, keys);
  };
}

void put_maps(ModelOutput& out, const KeptMaps& maps, const PadMaps& pad) {
  out.attentions = shown(maps.probabilities, pad);
  out.attention_logits = shown(maps.logits, pad);
  out.attention_scores = shown(maps.scores, pad);
}

ModelOutput common_output(const StackOutput& stack, const PackedRows& rows) {
  const Pad states = [rows](const Var& x) { return pad_rows(x, rows); };
  ModelOutput out;
  out.hidden_states = shown(stack.hidden_states, states);
  put_maps(out, stack.maps, pads_maps(rows, rows));
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
