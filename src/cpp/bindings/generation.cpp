// Search for targets, and targets token by token, for Python.
#include <pybind11/stl.h>

#include <optional>

#include "bindings/bind.h"
#include "bindings/models.h"
#include "generation/search.h"
#include "runtime/check.h"

namespace ea {

namespace {

Seq2SeqModel& seq2seq(Model& model) {
  auto* found = dynamic_cast<Seq2SeqModel*>(&model);
  EA_CHECK_AS(ConfigError, found != nullptr, "generate",
              "this model makes no target token by token; expected one with a "
              "sequence-to-sequence head, task=\"seq2seq_lm\"");
  return *found;
}

void raise_signals() {
  const py::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

EarlyStopping early_stopping_of(const std::string& name) {
  if (name == "True") return EarlyStopping::at_once;
  if (name == "False") return EarlyStopping::unlikely;
  EA_CHECK_AS(ConfigError, name == "never", "generate",
              "early_stopping = '{}', expected True, False or 'never'", name);
  return EarlyStopping::never;
}

using Targets = std::tuple<std::vector<std::vector<std::int64_t>>,
                           std::vector<double>, std::vector<bool>>;

Targets found_targets(Model& model, const AnyDict& inputs,
                      const SearchSettings& settings) {
  const Inputs source = inputs_of(model.architecture(), inputs);
  const py::gil_scoped_release release;
  Targets out;
  for (Generated& each :
       search(seq2seq(model), source, settings, &raise_signals)) {
    std::get<0>(out).push_back(std::move(each.ids));
    std::get<1>(out).push_back(each.score);
    std::get<2>(out).push_back(each.ended);
  }
  return out;
}

}  // namespace

void bind_generation(py::module_& m) {
  py::class_<TargetState>(m, "TargetState",
                          "Targets of equal length that grow token by token.")
      .def(
          "next",
          [](TargetState& state, const std::vector<std::int64_t>& ids) {
            return Var(state.next(ids));
          },
          py::arg("ids"), py::call_guard<py::gil_scoped_release>(),
          "Append one token to each target; the logits [targets, vocabulary] "
          "of the next one.")
      .def("select", &TargetState::select, py::arg("kept"),
           py::call_guard<py::gil_scoped_release>(),
           "Keep the targets with these indices, in this order.");
  m.def(
      "start_target",
      [](Model& model, const AnyDict& inputs, bool cached) {
        const Inputs source = inputs_of(model.architecture(), inputs);
        const py::gil_scoped_release release;
        return seq2seq(model).start(source, cached);
      },
      py::arg("model"), py::arg("inputs"), py::arg("cached"),
      py::keep_alive<0, 1>(), "One empty target for each source.");
  m.def(
      "can_cache", [](Model& model) { return seq2seq(model).can_cache(); },
      py::arg("model"),
      "Whether a target's next token can be computed without its earlier "
      "ones.");
  m.def(
      "search",
      [](Model& model, const AnyDict& inputs, std::int64_t start,
         std::int64_t end, std::optional<std::int64_t> max_new_tokens,
         std::int64_t beams, double length_penalty,
         const std::string& early_stopping, std::int64_t returned, bool scored,
         bool cached) {
        return found_targets(
            model, inputs,
            {start, end, max_new_tokens, beams, length_penalty,
             early_stopping_of(early_stopping), returned, scored, cached});
      },
      py::arg("model"), py::arg("inputs"), py::kw_only(), py::arg("start"),
      py::arg("end"), py::arg("max_new_tokens"), py::arg("beams"),
      py::arg("length_penalty"), py::arg("early_stopping"), py::arg("returned"),
      py::arg("scored"), py::arg("cached"),
      "Token ids of each target from `start` on, their scores, and whether "
      "they have ended.");
}

}  // namespace ea
