// Evolve kinds for Python: their declared options, and slots written in Python.
#include "bindings/attention.h"

#include <pybind11/stl.h>

#include "bindings/numpy.h"
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
  d["required"] = !spec.fallback && spec.type != "bool?";
  d["low"] = spec.low;
  d["high"] = spec.high;
  d["choices"] = spec.choices;
  d["odd"] = spec.odd;
  d["doc"] = spec.doc;
  return d;
}

py::dict kinds() {
  py::dict all;
  for (const EvolveKind& kind : evolve_kinds()) {
    py::list options;
    for (const OptionSpec& spec : kind.options) options.append(describe(spec));
    py::dict d;
    d["paper"] = kind.paper;
    d["options"] = options;
    all[py::str(kind.name)] = d;
  }
  return all;
}

// An evolve slot whose step is a Python method:
//   parameters(layer, num_heads) -> {name: initial array}
//   step(scores, previous, context) -> logits, or (logits, carry).
class PythonEvolve final : public Evolve {
 public:
  PythonEvolve(py::object slot, const EvolveSite& site)
      : slot_(std::move(slot)), heads_(site.heads) {
    const py::object initial = slot_.attr("parameters")(site.layer, site.heads);
    EA_CHECK_AS(ConfigError, py::isinstance<py::dict>(initial), "evolve",
                "{}.parameters() returned a {}, expected a dict of names and "
                "initial arrays",
                type_name(slot_), type_name(initial));
    for (const auto& item : py::dict(initial)) {
      EA_CHECK_AS(ConfigError, py::isinstance<py::str>(item.first), "evolve",
                  "{}.parameters() has a name of type {}, expected strings",
                  type_name(slot_), type_name(item.first));
      const auto name = item.first.cast<std::string>();
      const Tensor values = clone(from_python(item.second));
      names_.push_back(name);
      parameters_.push_back(add_parameter("evolve." + name, values.shape(),
                                          site.dtype,
                                          {Init::Kind::given, 0.0, values}));
    }
  }
  ~PythonEvolve() override {
    const py::gil_scoped_acquire gil;
    slot_ = py::object();
  }

  Evolved step(const Var& scores, const Var& previous,
               const AttentionContext& context) override {
    const py::gil_scoped_acquire gil;
    py::dict parameters;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      parameters[py::str(names_[i])] = parameters_[i];
    }
    const py::object where =
        py::module_::import("evolving_attention.attention.base")
            .attr("StepContext")(
                context.layer, context.num_layers, heads_,
                std::const_pointer_cast<Packing>(context.packing), parameters,
                training());
    const py::object before =
        previous.defined() ? py::cast(previous) : py::object(py::none());
    const py::object result = slot_.attr("step")(scores, before, where);
    if (py::isinstance<py::tuple>(result) && py::len(result) == 2) {
      const py::tuple pair = result;
      return {checked(pair[0], scores), checked(pair[1], scores)};
    }
    const Var logits = checked(result, scores);
    return {logits, logits};
  }

 private:
  static std::string type_name(const py::handle& object) {
    return py::str(py::type::handle_of(object).attr("__name__"));
  }

  Var checked(const py::object& result, const Var& scores) const {
    EA_CHECK_AS(InputError, py::isinstance<Var>(result), "evolve",
                "{}.step returned a {}, expected a Tensor, or a pair of them: "
                "maps for the softmax and maps to carry",
                type_name(slot_), type_name(result));
    const Var maps = result.cast<Var>();
    EA_CHECK(maps.shape() == scores.shape() && maps.dtype() == scores.dtype(),
             "evolve", "{}.step returned {} {}, expected the scores' {} {}",
             type_name(slot_), maps.dtype(), maps.shape(), scores.dtype(),
             scores.shape());
    return maps;
  }

  py::object slot_;
  std::int64_t heads_;
  std::vector<std::string> names_;
  std::vector<Var> parameters_;
};

}  // namespace

EvolveMaker evolve_from_python(const py::object& slot) {
  return [slot](const EvolveSite& site) -> std::unique_ptr<Evolve> {
    return std::make_unique<PythonEvolve>(slot, site);
  };
}

Options options_of(const py::dict& dict) {
  Options options;
  for (const auto& item : dict) {
    const auto key = item.first.cast<std::string>();
    const py::handle value = item.second;
    if (py::isinstance<py::bool_>(value)) {
      options.set(key, value.cast<bool>());
    } else if (py::isinstance<py::int_>(value)) {
      options.set(key, value.cast<std::int64_t>());
    } else if (py::isinstance<py::float_>(value)) {
      options.set(key, value.cast<double>());
    } else if (py::isinstance<py::str>(value)) {
      options.set(key, value.cast<std::string>());
    }  // None and structures are not settings of the core
  }
  return options;
}

void bind_attention(py::module_& m) {
  m.def(
      "check_attention",
      [](const py::dict& options) {
        make_evolve(options_of(options), EvolveSite{1, 2, 1, DType::f32});
      },
      py::arg("options"),
      "Throws ConfigError unless the options name a kind and suit it.");
  m.def("attention_kinds", &kinds,
        "Returns the evolve kinds of the core with their options.");
}

}  // namespace ea
