// What attention is, from Python: specs of the core, and slots written in
// Python.
#pragma once

#include "bindings/bind.h"
#include "nn/attention/spec.h"

namespace ea {

// From {"score": …, "scope": …, "bias": …, "evolve": …}, each of them a dict
// with "kind", an object written in Python, or left out; or a list of such, one
// for each layer. Throws ConfigError.
AttentionSpecs specs_of_python(const py::object& attention);

// Slots whose functions are Python methods; see attention/custom.py.
SlotMaker<Score> score_from_python(const py::object& slot);
SlotMaker<Scope> scope_from_python(const py::object& slot);
SlotMaker<Bias> bias_from_python(const py::object& slot);
SlotMaker<Evolve> evolve_from_python(const py::object& slot);

// The numbers, flags and strings of a dict; what is None or nested is left out.
Options options_of(const py::dict& dict);

}  // namespace ea
