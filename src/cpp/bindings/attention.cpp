// Attention specs from Python, the declared kinds, and the single layer.
#include "bindings/attention.h"

#include <pybind11/stl.h>

#include <algorithm>

#include "bindings/arguments.h"
#include "nn/attention/attention.h"
#include "runtime/check.h"

namespace ea {

namespace {

py::object value_of(const Options::Value& value) {
  return std::visit([](const auto& v) { return py::object(py::cast(v)); },
                    value);
}

py::dict describe(const OptionSpec& spec) {
  py::dict d;
  d["name"] = spec.name;
  d["type"] = spec.type;
  d["default"] =
      spec.fallback ? value_of(*spec.fallback) : py::object(py::none());
  d["required"] = !spec.fallback && spec.type.back() != '?';
  d["low"] = spec.low;
  d["high"] = spec.high;
  d["choices"] = spec.choices;
  d["odd"] = spec.odd;
  d["per_layer"] = spec.per_layer;
  d["doc"] = spec.doc;
  return d;
}

template <typename Slot>
AnyDict describe_kinds() {
  py::dict all;
  for (const SlotKind<Slot>& kind : slot_kinds<Slot>()) {
    py::list options;
    for (const OptionSpec& spec : kind.options) options.append(describe(spec));
    py::dict d;
    d["paper"] = kind.paper;
    d["options"] = options;
    all[py::str(kind.name)] = d;
  }
  return all;
}

DictOf<AnyDict> kinds() {
  py::dict all;
  all[slot_name<Score>()] = describe_kinds<Score>();
  all[slot_name<Scope>()] = describe_kinds<Scope>();
  all[slot_name<Bias>()] = describe_kinds<Bias>();
  all[slot_name<Evolve>()] = describe_kinds<Evolve>();
  return all;
}

// Reads the maker that spec[slot] describes, if present.
template <typename Slot>
void read_slot(const py::dict& spec,
               SlotMaker<Slot> (*from_python)(const py::object&),
               SlotMaker<Slot>& target) {
  const char* name = slot_name<Slot>();
  if (!spec.contains(name) || spec[name].is_none()) return;
  const py::object value = spec[name];
  target = py::isinstance<py::dict>(value) ? slot_maker<Slot>(options_of(value))
                                           : from_python(value);
}

AttentionSpec spec_of_python(const py::handle& value) {
  EA_CHECK_AS(
      ConfigError, py::isinstance<py::dict>(value), "attention",
      "a spec is {}, expected a dict with score, scope, bias and evolve",
      described(value));
  const auto dict = py::reinterpret_borrow<py::dict>(value);
  AttentionSpec spec;
  read_slot<Score>(dict, &score_from_python, spec.score);
  read_slot<Scope>(dict, &scope_from_python, spec.scope);
  read_slot<Bias>(dict, &bias_from_python, spec.bias);
  read_slot<Evolve>(dict, &evolve_from_python, spec.evolve);
  return spec;
}

// Makes a single attention layer for tests and experiments.
std::unique_ptr<Attention> make_attention(
    const AnyDict& spec, Whole<"Attention: hidden_size"> hidden_size,
    Whole<"Attention: num_heads"> heads, const py::object& memory_size,
    const py::object& key_width, const py::object& value_width, double dropout,
    int layer, int num_layers, const std::string& dtype) {
  const auto or_else = [](const py::object& given, const char* name,
                          std::int64_t otherwise) {
    return given.is_none() ? otherwise : whole_number(given, name);
  };
  AttentionConfig c;
  c.query_size = hidden_size.value;
  c.memory_size =
      or_else(memory_size, "Attention: memory_size", hidden_size.value);
  c.heads = heads.value;
  EA_CHECK_AS(
      ConfigError, c.query_size > 0 && c.memory_size > 0 && c.heads > 0,
      "attention",
      "hidden_size {}, memory_size {} and num_heads {} must be positive",
      c.query_size, c.memory_size, c.heads);
  c.head_key_width =
      or_else(key_width, "Attention: head_key_width", c.query_size / c.heads);
  c.head_value_width = or_else(value_width, "Attention: head_value_width",
                               c.query_size / c.heads);
  EA_CHECK_AS(ConfigError, c.head_key_width > 0 && c.head_value_width > 0,
              "attention",
              "a head has keys of width {} and values of width {}; expected "
              "positive widths (hidden_size {}, num_heads {})",
              c.head_key_width, c.head_value_width, c.query_size, c.heads);
  EA_CHECK_AS(ConfigError, layer >= 0 && layer < num_layers, "attention",
              "layer is {}, expected 0 to {}, as num_layers is {}", layer,
              num_layers - 1, num_layers);
  c.dropout = dropout;
  c.layer = layer;
  c.num_layers = num_layers;
  c.dtype = parse_dtype(dtype);
  c.init = AffineInit::uniform(c.query_size);
  EA_CHECK_AS(ConfigError, is_floating(c.dtype), "attention",
              "dtype must be float32, bfloat16 or float64, got {}", dtype);
  auto made = std::make_unique<Attention>(c, spec_of_python(spec));
  made->allocate();
  return made;
}

AttentionOutput run_attention(Attention& self, const Var& queries,
                              const std::shared_ptr<Packing>& query_packing,
                              const std::optional<Var>& memory,
                              const std::shared_ptr<Packing>& memory_packing,
                              const Carry* previous) {
  const Tokens asking{queries, query_packing};
  const Tokens answering{
      memory ? *memory : queries,
      memory_packing ? PackingPtr(memory_packing) : PackingPtr(query_packing)};
  const ReleasedGil release;
  return self.forward(asking, answering, previous ? *previous : Carry(),
                      AttentionWanted());
}

void bind_layer(py::module_& m) {
  py::class_<Carry>(m, "Carry", "Maps carried to the next layer.")
      .def_readonly("maps", &Carry::maps, "Flat maps.")
      .def_property_readonly(
          "packing",
          [](const Carry& self) {
            return std::const_pointer_cast<Packing>(self.packing);
          },
          "Layout of the maps.");
  py::class_<AttentionOutput>(m, "AttentionOutput",
                              "Output of an attention layer.")
      .def_readonly("context", &AttentionOutput::context,
                    "[query tokens, heads * head_value_width]")
      .def_readonly("carry", &AttentionOutput::carry,
                    "Maps for the next layer.")
      .def_readonly("probabilities", &AttentionOutput::probabilities,
                    "Flat maps after the softmax, before dropout.");
  py::class_<Attention, Module>(
      m, "Attention",
      "One attention layer over packed sequences, without an output "
      "projection; "
      "its parameters are zero until initialize() or loading.")
      .def(py::init(&make_attention), py::arg("spec"), py::arg("hidden_size"),
           py::arg("num_heads"), py::arg("memory_size") = py::none(),
           py::arg("head_key_width") = py::none(),
           py::arg("head_value_width") = py::none(), py::arg("dropout") = 0.0,
           py::arg("layer") = 0, py::arg("num_layers") = 1,
           py::arg("dtype") = "float32")
      .def("forward", &run_attention, py::arg("queries"), py::arg("packing"),
           py::arg("memory") = py::none(), py::arg("memory_packing") = nullptr,
           py::arg("previous") = nullptr,
           "Attends from packed rows [total, hidden_size] over themselves, or "
           "over `memory` with its own packing; `previous` is the carry of the "
           "layer before.");
}

}  // namespace

AttentionSpecs specs_of_python(const py::object& attention) {
  AttentionSpecs specs;
  if (attention.is_none()) return {AttentionSpec()};
  if (!py::isinstance<py::list>(attention)) return {spec_of_python(attention)};
  for (const py::handle& each : py::reinterpret_borrow<py::list>(attention)) {
    specs.push_back(spec_of_python(each));
  }
  return specs;
}

namespace {

bool is_numbers(const py::handle& value) {
  if (!py::isinstance<py::list>(value) && !py::isinstance<py::tuple>(value)) {
    return false;
  }
  const auto number = [](const py::handle& each) {
    return (py::isinstance<py::int_>(each) ||
            py::isinstance<py::float_>(each)) &&
           !py::isinstance<py::bool_>(each);
  };
  return std::all_of(value.begin(), value.end(), number);
}

// Returns the sites of a chain of layers: as many layers as a list-valued
// option of evolve has numbers, else three.
std::vector<SlotSite> layers_of(const py::dict& spec) {
  SlotSite site;
  site.num_layers = 3;
  if (spec.contains("evolve") && py::isinstance<py::dict>(spec["evolve"])) {
    for (const auto& item : py::dict(spec["evolve"])) {
      if (!is_numbers(item.second) || py::len(item.second) == 0) continue;
      site.num_layers = static_cast<int>(py::len(item.second));
    }
  }
  std::vector<SlotSite> all(static_cast<std::size_t>(site.num_layers), site);
  for (int i = 0; i < site.num_layers; ++i) {
    all[static_cast<std::size_t>(i)].layer = i;
  }
  return all;
}

}  // namespace

Options options_of(const py::dict& dict) {
  Options options;
  for (const auto& item : dict) {
    const auto key = item.first.cast<std::string>();
    const py::handle value = item.second;
    if (py::isinstance<py::bool_>(value)) {
      options.set(key, value.cast<bool>());
    } else if (py::isinstance<py::int_>(value)) {
      options.set(key, whole_number(value, key.c_str()));
    } else if (py::isinstance<py::float_>(value)) {
      options.set(key, value.cast<double>());
    } else if (py::isinstance<py::str>(value)) {
      options.set(key, value.cast<std::string>());
    } else if (is_numbers(value)) {
      options.set(key, value.cast<std::vector<double>>());
    }  // None and nested values are not settings of the core
  }
  return options;
}

void bind_attention(py::module_& m) {
  m.def(
      "check_attention",
      [](const AnyDict& spec) {
        const AttentionSpec made = spec_of_python(spec);
        for (const SlotSite& site : layers_of(spec)) make_slots(made, site);
      },
      py::arg("spec"),
      "Throws ConfigError unless every slot names a valid kind with valid "
      "options, and the kinds can be combined.");
  m.def(
      "reads_later_queries",
      [](const AnyDict& spec) {
        const AttentionSpec made = spec_of_python(spec);
        const std::vector<SlotSite> sites = layers_of(spec);
        return std::any_of(
            sites.begin(), sites.end(), [&made](const SlotSite& site) {
              return make_slots(made, site).evolve->reads_later_queries();
            });
      },
      py::arg("spec"),
      "Whether the maps of a query depend on those of later queries, which "
      "attention of target tokens must not.");
  m.def("attention_kinds", &kinds,
        "Returns the kinds of each slot of the core with their options.");
}

// Called after bind_modules(): the layer is a module.
void bind_attention_layer(py::module_& m) { bind_layer(m); }

}  // namespace ea
