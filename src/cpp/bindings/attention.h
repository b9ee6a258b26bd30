// Attention specs from Python: specs of the core, and slots written in Python.
#pragma once

#include "bindings/bind.h"
#include "nn/attention/spec.h"

namespace ea {

// Reads {"score": …, "scope": …, "bias": …, "evolve": …}. Each slot is a dict
// with "kind" or an object written in Python, and may be left out. Also reads a
// list of such dicts, one per layer. Throws ConfigError.
AttentionSpecs specs_of_python(const py::object& attention);

// Slots whose functions are Python methods; see attention/custom.py.
SlotMaker<Score> score_from_python(const py::object& slot);
SlotMaker<Scope> scope_from_python(const py::object& slot);
SlotMaker<Bias> bias_from_python(const py::object& slot);
SlotMaker<Evolve> evolve_from_python(const py::object& slot);

// Reads the numbers, flags and strings of a dict; skips None and nested values.
Options options_of(const py::dict& dict);

}  // namespace ea
