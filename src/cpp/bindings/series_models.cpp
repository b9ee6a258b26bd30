// Models of time series for Python: build from a config, run forward.
#include <pybind11/stl.h>

#include "bindings/arguments.h"
#include "bindings/models.h"
#include "bindings/numpy.h"
#include "runtime/check.h"

namespace ea {

namespace {

std::unique_ptr<SeriesModel> create(const py::dict& config,
                                    const std::string& dtype,
                                    const py::object& slot) {
  return create_series_model(model_config(config, dtype, slot));
}

Var values_of(const py::object& values) {
  EA_CHECK_AS(InputError, !values.is_none(), "forward",
              "values is None; expected an array (series, length, channels)");
  Var x;
  try {
    x = py::isinstance<Var>(values) ? values.cast<Var>() : var_of(values);
  } catch (const InputError&) {
    fail<DTypeError>("forward",
                     "values must be a rectangular array of numbers (series, "
                     "length, channels), got {}; pad series of different "
                     "lengths and pass lengths",
                     described(values));
  }
  return is_floating(x.dtype())
             ? x
             : Var(cast(to_device(x.data(), kCpu), DType::f32));
}

py::dict forward(SeriesModel& model, const py::object& values,
                 const py::object& lengths, const py::object& labels,
                 const py::object& sequence_offsets, const py::object& masked,
                 double label_smoothing, const Indices& hidden_states,
                 const Indices& attentions, const Indices& attention_logits) {
  SeriesInputs in;
  in.values = values_of(values);
  in.lengths = optional_integers(lengths, "lengths");
  in.sequence_offsets = optional_integers(sequence_offsets, "sequence_offsets");
  in.labels = labels_of(labels);
  if (!masked.is_none()) in.masked = from_python(masked);
  in.label_smoothing = label_smoothing;
  in.wanted = wanted_of(hidden_states, attentions, attention_logits);
  ModelOutput out;
  {
    const py::gil_scoped_release release;
    out = model.forward(in);
  }
  return results_of(out);
}

}  // namespace

void bind_series_models(py::module_& m) {
  py::class_<SeriesModel, Module>(m, "SeriesModel",
                                  "A model of time series with its parameters.")
      .def("forward", &forward, py::arg("values"),
           py::arg("lengths") = py::none(), py::arg("labels") = py::none(),
           py::arg("sequence_offsets") = py::none(),
           py::arg("masked") = py::none(), py::arg("label_smoothing") = 0.0,
           py::arg("output_hidden_states") = py::none(),
           py::arg("output_attentions") = py::none(),
           py::arg("output_attention_logits") = py::none());
  m.def("create_series_model", &create, py::arg("config"),
        py::arg("dtype") = "float32", py::arg("evolve") = py::none(),
        "Builds a model; parameters are zero until initialize() or loading.");
}

}  // namespace ea
