// Models for Python: the architectures, and one call for all.
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <tuple>

#include "bindings/arguments.h"
#include "bindings/attention.h"
#include "bindings/models.h"
#include "bindings/numpy.h"
#include "models/model.h"
#include "runtime/check.h"

namespace ea {

namespace {

using Indices = std::optional<std::vector<int>>;
using Stacks = std::optional<std::tuple<Indices, Indices, Indices, Indices>>;

const char* name_of(InputKind kind) {
  switch (kind) {
    case InputKind::integers:
      return "integers";
    case InputKind::values:
      return "values";
    case InputKind::pixels:
      return "pixels";
    case InputKind::labels:
      return "labels";
    case InputKind::edges:
      return "edges";
    default:
      return "flags";
  }
}

// Converts the object to a tensor; `expected` describes a valid input in the
// error.
Var tensor_of(const py::handle& object, const std::string& name,
              const char* expected) {
  try {
    return var_of(object);
  } catch (const InputError&) {
    fail<DTypeError>("forward", "{} must be {}; got {}", name, expected,
                     described(object));
  }
}

Var input_of(const InputSpec& spec, const py::handle& object) {
  switch (spec.kind) {
    case InputKind::integers:
      return Var(optional_integers(object, spec.name.c_str()));
    case InputKind::values:
    case InputKind::pixels: {
      const Var x = tensor_of(
          object, spec.name,
          spec.kind == InputKind::pixels
              ? "a rectangular array of numbers; resize images of different "
                "sizes"
              : "a rectangular array of numbers; pad series of different "
                "lengths and pass lengths");
      return is_floating(x.dtype())
                 ? x
                 : Var(cast(to_device(x.data(), kCpu), DType::f32));
    }
    case InputKind::labels: {
      const Tensor t =
          tensor_of(object, spec.name,
                    "a rectangular array of class numbers, or of values where "
                    "num_labels is 1")
              .data();
      return Var(is_floating(t.dtype()) ? t
                                        : cast(to_device(t, kCpu), DType::i64));
    }
    default:
      return Var(from_python(py::reinterpret_borrow<py::object>(object)));
  }
}

void put(py::dict& out, const char* name, const Var& value) {
  if (value.defined()) out[name] = value;
}

void put(py::dict& out, const char* name, const std::map<int, Var>& values) {
  py::dict d;
  for (const auto& [i, value] : values) d[py::int_(i)] = value;
  if (!values.empty()) out[name] = d;
}

py::dict results_of(const ModelOutput& out) {
  py::dict result;
  put(result, "loss", out.loss);
  put(result, "logits", out.logits);
  put(result, "start_logits", out.start_logits);
  put(result, "end_logits", out.end_logits);
  put(result, "seq_relationship_logits", out.seq_relationship_logits);
  put(result, "last_hidden_state", out.last_hidden_state);
  put(result, "pooler_output", out.pooler_output);
  put(result, "hidden_states", out.hidden_states);
  put(result, "attentions", out.attentions);
  put(result, "attention_logits", out.attention_logits);
  put(result, "attention_scores", out.attention_scores);
  put(result, "encoder_last_hidden_state", out.encoder_last_hidden_state);
  for (const auto& [name, values] : out.by_stack) {
    put(result, name.c_str(), values);
  }
  return result;
}

Wanted wanted_of(const Indices& hidden_states, const Indices& attentions,
                 const Indices& attention_logits,
                 const Indices& attention_scores) {
  return {hidden_states.value_or(std::vector<int>{}),
          attentions.value_or(std::vector<int>{}),
          attention_logits.value_or(std::vector<int>{}),
          attention_scores.value_or(std::vector<int>{})};
}

AnyDict forward(Model& model, const AnyDict& given, double label_smoothing,
                const Indices& hidden_states, const Indices& attentions,
                const Indices& attention_logits,
                const Indices& attention_scores, const Stacks& decoder) {
  Inputs inputs = inputs_of(model.architecture(), given);
  inputs.label_smoothing = label_smoothing;
  inputs.wanted =
      wanted_of(hidden_states, attentions, attention_logits, attention_scores);
  if (decoder) inputs.decoder_wanted = std::apply(&wanted_of, *decoder);
  ModelOutput out;
  {
    const ReleasedGil release;
    out = model(inputs);
  }
  return results_of(out);
}

std::unique_ptr<Model> create(const std::string& architecture,
                              const AnyDict& config, const std::string& dtype) {
  ModelConfig c;
  c.options = options_of(config);
  c.dtype = parse_dtype(dtype);
  EA_CHECK_AS(ConfigError, is_floating(c.dtype), "model",
              "dtype must be float32, bfloat16 or float64, got {}", dtype);
  for (const auto& [key, value] : config) {
    const auto name = key.cast<std::string>();
    if (name == "attention") {
      c.attention = specs_of_python(py::reinterpret_borrow<py::object>(value));
    } else if (name.ends_with("_attention")) {
      c.more_attention[name] =
          specs_of_python(py::reinterpret_borrow<py::object>(value));
    }
  }
  return create_model(architecture, c);
}

py::typing::List<AnyDict> inputs_of_architecture(
    const std::string& architecture) {
  py::list all;
  for (const InputSpec& spec : architecture_of(architecture).inputs) {
    py::dict d;
    d["name"] = spec.name;
    d["kind"] = name_of(spec.kind);
    d["by_position"] = spec.by_position;
    d["doc"] = spec.doc;
    all.append(d);
  }
  return all;
}

}  // namespace

Inputs inputs_of(const Architecture& architecture, const py::dict& given) {
  Inputs inputs;
  std::size_t known = 0;
  for (const InputSpec& spec : architecture.inputs) {
    if (!given.contains(spec.name)) continue;
    ++known;
    const py::object value = given[spec.name.c_str()];
    if (value.is_none()) continue;
    if (spec.kind == InputKind::edges) {
      EA_CHECK_AS(DTypeError, py::isinstance<Edges>(value), "forward",
                  "{} must be the edges of a graph, functional.Edges; got {}",
                  spec.name, described(value));
      inputs.graphs[spec.name] = value.cast<std::shared_ptr<Edges>>();
      continue;
    }
    inputs.arrays[spec.name] = input_of(spec, value);
  }
  EA_CHECK_AS(InputError, known == given.size(), "forward",
              "{} inputs are given, {} of them are known to this model",
              given.size(), known);
  return inputs;
}

void bind_models(py::module_& m) {
  py::class_<Model, Module>(m, "Model", "An architecture with its parameters.")
      .def("forward", &forward, py::arg("inputs"),
           py::arg("label_smoothing") = 0.0,
           py::arg("output_hidden_states") = py::none(),
           py::arg("output_attentions") = py::none(),
           py::arg("output_attention_logits") = py::none(),
           py::arg("output_attention_scores") = py::none(),
           py::arg("decoder_outputs") = py::none(),
           "Runs the model on some of the inputs its architecture declares: "
           "name to tensor or array. Returns the results by name. "
           "decoder_outputs: the four lists of outputs for the second stack.");
  m.def("create_model", &create, py::arg("architecture"), py::arg("config"),
        py::arg("dtype") = "float32",
        "Builds a model without memory: allocate() makes its parameters zeros, "
        "and initialize() or loading sets them.");
  m.def("model_inputs", &inputs_of_architecture, py::arg("architecture"),
        "The inputs that the models of an architecture take: name, kind, "
        "whether by position, and what it is.");
}

}  // namespace ea
