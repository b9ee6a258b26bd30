// Models for Python: build from a config, run forward.
#include "bindings/models.h"

#include <pybind11/stl.h>

#include <memory>

#include "bindings/arguments.h"
#include "bindings/attention.h"
#include "bindings/devices.h"
#include "bindings/numpy.h"
#include "models/prepared_text.h"
#include "nn/attention/registry.h"
#include "runtime/check.h"
#include "tensor/residents.h"

namespace ea {

namespace {

EvolveMaker evolve_maker(const py::dict& config, const py::object& slot) {
  if (!slot.is_none()) return evolve_from_python(slot);
  Options attention;
  attention.set("kind", std::string("vanilla"));
  if (config.contains("attention")) {
    attention = options_of(config["attention"].cast<py::dict>());
  }
  return [attention](const EvolveSite& site) {
    return make_evolve(attention, site);
  };
}

void put(py::dict& out, const char* name, const Var& value) {
  if (value.defined()) out[name] = value;
}

void put(py::dict& out, const char* name, const std::map<int, Var>& values) {
  py::dict d;
  for (const auto& [i, value] : values) d[py::int_(i)] = value;
  if (!values.empty()) out[name] = d;
}

}  // namespace

ModelConfig model_config(const py::dict& config, const std::string& dtype,
                         const py::object& slot) {
  ModelConfig c;
  c.options = options_of(config);
  c.dtype = parse_dtype(dtype);
  EA_CHECK_AS(ConfigError, is_floating(c.dtype), "model",
              "dtype must be float32, bfloat16 or float64, got {}", dtype);
  c.make_evolve = evolve_maker(config, slot);
  return c;
}

Tensor labels_of(const py::object& labels) {
  if (labels.is_none()) return {};
  Tensor t;
  try {
    t = from_python(labels);
  } catch (const InputError&) {
    fail<DTypeError>("forward",
                     "labels must be a rectangular array of class numbers, or "
                     "of values where num_labels is 1; got {}",
                     described(labels));
  }
  return is_floating(t.dtype()) ? t : cast(to_device(t, kCpu), DType::i64);
}

Wanted wanted_of(const Indices& hidden_states, const Indices& attentions,
                 const Indices& attention_logits) {
  return {hidden_states.value_or(std::vector<int>{}),
          attentions.value_or(std::vector<int>{}),
          attention_logits.value_or(std::vector<int>{})};
}

py::dict results_of(const ModelOutput& out) {
  py::dict result;
  put(result, "loss", out.loss);
  put(result, "logits", out.logits);
  put(result, "seq_relationship_logits", out.seq_relationship_logits);
  put(result, "last_hidden_state", out.last_hidden_state);
  put(result, "pooler_output", out.pooler_output);
  put(result, "hidden_states", out.hidden_states);
  put(result, "attentions", out.attentions);
  put(result, "attention_logits", out.attention_logits);
  return result;
}

namespace {

std::unique_ptr<Model> create(const std::string& architecture,
                              const py::dict& config, const std::string& dtype,
                              const py::object& slot) {
  return create_model(architecture, model_config(config, dtype, slot));
}

TextInputs text_inputs(
    const py::object& input_ids, const py::object& attention_mask,
    const py::object& token_type_ids, const py::object& position_ids,
    const py::object& sequence_offsets, const py::object& labels,
    const py::object& next_sentence_label, double label_smoothing) {
  TextInputs in;
  in.input_ids = optional_integers(input_ids, "input_ids");
  EA_CHECK_AS(InputError, in.input_ids.defined(), "forward",
              "input_ids is None; expected token ids");
  in.attention_mask = optional_integers(attention_mask, "attention_mask");
  in.token_type_ids = optional_integers(token_type_ids, "token_type_ids");
  in.position_ids = optional_integers(position_ids, "position_ids");
  in.sequence_offsets = optional_integers(sequence_offsets, "sequence_offsets");
  in.labels = labels_of(labels);
  in.next_sentence_label =
      optional_integers(next_sentence_label, "next_sentence_label");
  in.label_smoothing = label_smoothing;
  return in;
}

py::dict run(Model& model, const TextInputs& in) {
  ModelOutput out;
  {
    const py::gil_scoped_release release;
    out = model.forward(in);
  }
  return results_of(out);
}

py::dict forward(Model& model, const py::object& input_ids,
                 const py::object& attention_mask,
                 const py::object& token_type_ids,
                 const py::object& position_ids,
                 const py::object& sequence_offsets, const py::object& labels,
                 const py::object& next_sentence_label, double label_smoothing,
                 const Indices& hidden_states, const Indices& attentions,
                 const Indices& attention_logits) {
  TextInputs in = text_inputs(input_ids, attention_mask, token_type_ids,
                              position_ids, sequence_offsets, labels,
                              next_sentence_label, label_smoothing);
  in.wanted = wanted_of(hidden_states, attentions, attention_logits);
  return run(model, in);
}

TextInputs prepare(const Model& model, const py::object& input_ids,
                   const py::object& attention_mask,
                   const py::object& token_type_ids,
                   const py::object& position_ids,
                   const py::object& sequence_offsets, const py::object& labels,
                   const py::object& next_sentence_label,
                   double label_smoothing) {
  const TextInputs in = text_inputs(input_ids, attention_mask, token_type_ids,
                                    position_ids, sequence_offsets, labels,
                                    next_sentence_label, label_smoothing);
  const py::gil_scoped_release release;
  return model.prepare(in);
}

struct Resident {
  explicit Resident(Device device) : tensors(device) {}
  Residents tensors;
  std::unique_ptr<Residents::Scope> scope;  // of one thread at a time
};

void bind_prepared(py::module_& m) {
  py::class_<TextInputs>(m, "PreparedText",
                         "A batch made up to a shape that comes again, checked "
                         "whole: see Model.prepare().")
      .def_property_readonly("key", &shape_key,
                             "Equal for batches that one recorded step serves.")
      .def_property_readonly(
          "tokens",
          [](const TextInputs& self) { return self.packed->input_ids.numel(); },
          "Tokens, those included that it was made up with.");
  py::class_<Resident>(
      m, "Residents",
      "What a step reads, at fixed addresses on a device. As a "
      "context: work in it reads what was loaded last there.")
      .def(py::init([](const py::object& device) {
             return std::make_unique<Resident>(device_of_python(device));
           }),
           py::arg("device"))
      .def(
          "load",
          [](Resident& self, const TextInputs& prepared) {
            self.tensors.load(read_by_step(prepared));
          },
          py::arg("prepared"), py::call_guard<py::gil_scoped_release>(),
          "Brings a batch there, over the one before.")
      .def("__enter__",
           [](Resident& self) {
             self.scope = std::make_unique<Residents::Scope>(self.tensors);
           })
      .def("__exit__",
           [](Resident& self, const py::args&) { self.scope.reset(); });
}

}  // namespace

void bind_models(py::module_& m) {
  bind_prepared(m);
  py::class_<Model, Module>(m, "Model", "An architecture with its parameters.")
      .def("forward", &forward, py::arg("input_ids"),
           py::arg("attention_mask") = py::none(),
           py::arg("token_type_ids") = py::none(),
           py::arg("position_ids") = py::none(),
           py::arg("sequence_offsets") = py::none(),
           py::arg("labels") = py::none(),
           py::arg("next_sentence_label") = py::none(),
           py::arg("label_smoothing") = 0.0,
           py::arg("output_hidden_states") = py::none(),
           py::arg("output_attentions") = py::none(),
           py::arg("output_attention_logits") = py::none())
      .def("prepare", &prepare, py::arg("input_ids"),
           py::arg("attention_mask") = py::none(),
           py::arg("token_type_ids") = py::none(),
           py::arg("position_ids") = py::none(),
           py::arg("sequence_offsets") = py::none(),
           py::arg("labels") = py::none(),
           py::arg("next_sentence_label") = py::none(),
           py::arg("label_smoothing") = 0.0,
           "The batch made up to a shape that comes again, its labels checked "
           "too.")
      .def("forward_prepared", &run, py::arg("prepared"),
           "forward() on what prepare() gave; results as of packed arrays.");
  m.def("create_model", &create, py::arg("architecture"), py::arg("config"),
        py::arg("dtype") = "float32", py::arg("evolve") = py::none(),
        "Builds a model; parameters are zero until initialize() or loading.");
}

}  // namespace ea
