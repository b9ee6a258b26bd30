// Search for targets, and their step-by-step generation, for Python.
#include <pybind11/stl.h>

#include <optional>

#include "bindings/bind.h"
#include "bindings/models.h"
#include "generation/sampling.h"
#include "generation/search.h"
#include "ops/cached_attention.h"
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
  const HeldGil acquire;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

EarlyStopping early_stopping_of(const std::string& name) {
  if (name == "True") return EarlyStopping::at_once;
  if (name == "False") return EarlyStopping::unlikely;
  EA_CHECK_AS(ConfigError, name == "never", "generate",
              "early_stopping = '{}', expected True, False or 'never'", name);
  return EarlyStopping::never;
}

std::string name_of(EarlyStopping rule) {
  if (rule == EarlyStopping::at_once) return "True";
  return rule == EarlyStopping::unlikely ? "False" : "never";
}

LengthPenalty form_of(const std::string& name) {
  if (name == "transformers") return LengthPenalty::power;
  EA_CHECK_AS(ConfigError, name == "gnmt", "generate",
              "length_penalty_form = '{}', expected 'transformers' or 'gnmt'",
              name);
  return LengthPenalty::gnmt;
}

std::string name_of(LengthPenalty form) {
  return form == LengthPenalty::power ? "transformers" : "gnmt";
}

using Targets =
    std::tuple<std::vector<std::vector<std::int64_t>>, std::vector<double>,
               std::vector<bool>, std::vector<std::vector<double>>>;

Targets found_targets(Model& model, const AnyDict& inputs,
                      const SearchSettings& settings) {
  const Inputs source = inputs_of(model.architecture(), inputs);
  const ReleasedGil release;
  Targets out;
  auto& [ids, scores, ended, token_scores] = out;
  for (Generated& each :
       search(seq2seq(model), source, settings, &raise_signals)) {
    ids.push_back(std::move(each.ids));
    scores.push_back(each.score);
    ended.push_back(each.ended);
    if (settings.scored) token_scores.push_back(std::move(each.token_scores));
  }
  return out;
}

// Returns the probabilities of all tokens, 0 for those that are never drawn.
std::vector<double> probabilities(const std::vector<float>& logits,
                                  double temperature, std::int64_t top_k,
                                  double top_p, std::size_t least) {
  const Distribution from =
      distribution(logits, {temperature, top_k, top_p, {}}, least);
  std::vector<double> out(logits.size(), 0.0);
  for (std::size_t i = 0; i < from.ids.size(); ++i) {
    out[static_cast<std::size_t>(from.ids[i])] = from.probabilities[i];
  }
  return out;
}

void bind_settings(py::module_& m) {
  using S = SearchSettings;
  py::class_<S>(m, "SearchSettings", "Settings of a search for targets.")
      .def(py::init<>())
      .def_readwrite("start", &S::start)
      .def_readwrite("end", &S::end)
      .def_readwrite("max_new_tokens", &S::max_new_tokens)
      .def_readwrite("max_length", &S::max_length)
      .def_readwrite("min_new_tokens", &S::min_new_tokens)
      .def_readwrite("min_length", &S::min_length)
      .def_readwrite("no_repeat_ngram_size", &S::no_repeat_ngram_size)
      .def_readwrite("forced_first", &S::forced_first)
      .def_readwrite("forced_last", &S::forced_last)
      .def_readwrite("prefixes", &S::prefixes)
      .def_readwrite("numbers", &S::numbers)
      .def_readwrite("beams", &S::beams)
      .def_readwrite("length_penalty", &S::length_penalty)
      .def_property(
          "form", [](const S& s) { return name_of(s.form); },
          [](S& s, const std::string& name) { s.form = form_of(name); })
      .def_property(
          "early_stopping",
          [](const S& s) { return name_of(s.early_stopping); },
          [](S& s, const std::string& name) {
            s.early_stopping = early_stopping_of(name);
          })
      .def_readwrite("returned", &S::returned)
      .def_readwrite("scored", &S::scored)
      .def_readwrite("cached", &S::cached)
      .def(
          "sample",
          [](S& s, double temperature, std::int64_t top_k, double top_p,
             std::optional<std::int64_t> seed) {
            s.sampling = Sampling{temperature, top_k, top_p, seed};
          },
          py::arg("temperature"), py::arg("top_k"), py::arg("top_p"),
          py::arg("seed"),
          "Draws tokens at random; top_k 0: among all tokens.");
}

void bind_sampling(py::module_& m) {
  m.def("sampling_probabilities", &probabilities, py::arg("logits"),
        py::arg("temperature"), py::arg("top_k"), py::arg("top_p"),
        py::arg("least") = 1,
        "Returns the probability with which each token is drawn; truncation "
        "keeps at least `least` tokens.");
  m.def(
      "sampling_number",
      [](std::int64_t seed, std::int64_t number, std::int64_t copy,
         std::size_t place) {
        return uniform(random_key({.seed = seed}), number, copy, place);
      },
      py::arg("seed"), py::arg("number"), py::arg("copy"), py::arg("place"),
      "Returns the random number in [0, 1) that draws the token at a position "
      "of a sentence's copy.");
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
          py::arg("ids"), py::call_guard<ReleasedGil>(),
          "Appends one token to each target; returns the logits [targets, "
          "vocabulary] of the next one.")
      .def("expect", &TargetState::expect, py::arg("tokens"),
           "Reserves room for so many tokens over all targets.")
      .def("select", &TargetState::select, py::arg("kept"),
           py::call_guard<ReleasedGil>(),
           "Keeps the targets with these indices, in this order.");
  m.def(
      "start_target",
      [](Model& model, const AnyDict& inputs, bool cached) {
        const Inputs source = inputs_of(model.architecture(), inputs);
        const ReleasedGil release;
        return seq2seq(model).start(source, cached);
      },
      py::arg("model"), py::arg("inputs"), py::arg("cached"),
      py::keep_alive<0, 1>(), "Starts one empty target for each source.");
  m.def(
      "can_cache", [](Model& model) { return seq2seq(model).can_cache(); },
      py::arg("model"),
      "Whether a target's next token can be computed without its earlier "
      "ones.");
  bind_settings(m);
  m.def("search", &found_targets, py::arg("model"), py::arg("inputs"),
        py::arg("settings"),
        "Searches for targets; returns token ids, scores, whether each has "
        "ended, and on request token scores.");
  bind_sampling(m);
  m.def(
      "cached_attention",
      [](const Var& q, const Var& k, const Var& v,
         const std::vector<std::int64_t>& rows,
         const std::vector<std::int64_t>& offsets, std::int64_t heads,
         double scale, const std::array<double, 5>& c, double softmax_scale,
         const std::pair<std::int64_t, std::int64_t>& shift,
         const std::optional<Var>& previous, const std::optional<Var>& weight,
         const std::optional<Var>& bias, const std::optional<Var>& maps,
         const std::vector<std::int64_t>& map_rows) {
        const auto data = [](const std::optional<Var>& x) {
          return x ? x->data() : Tensor();
        };
        const CachedAttended out = cached_attention(
            q.data(), k.data(), v.data(), rows, offsets, heads, scale,
            {{c[0], c[1], c[2], c[3], c[4]},
             softmax_scale,
             {shift.first, shift.second},
             data(previous),
             data(weight),
             data(bias),
             data(maps),
             map_rows,
             true});
        return std::pair{Var(out.context), Var(out.carry)};
      },
      py::arg("q"), py::arg("k"), py::arg("v"), py::arg("rows"),
      py::arg("offsets"), py::arg("heads"), py::arg("scale"),
      py::arg("coefficients") = std::array<double, 5>{0, 0, 0, 1, 0},
      py::arg("softmax_scale") = 1.0, py::arg("shift") = std::pair{0, 0},
      py::arg("previous") = std::nullopt, py::arg("weight") = std::nullopt,
      py::arg("bias") = std::nullopt, py::arg("maps") = std::nullopt,
      py::arg("map_rows") = std::vector<std::int64_t>{},
      py::call_guard<ReleasedGil>(),
      "Computes attention of one query of each sequence over numbered rows of "
      "a cache, without gradients. Returns the context and the flat carried "
      "map.");
}

}  // namespace ea
