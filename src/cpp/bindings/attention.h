// Evolve slots written in Python, for the model bindings.
#pragma once

#include "bindings/bind.h"
#include "nn/attention/attention.h"

namespace ea {

// `slot` has parameters(layer, num_heads) and step(scores, previous, context).
EvolveMaker evolve_from_python(const py::object& slot);

// The numbers, flags and strings of a dict; what is None or nested is left out.
Options options_of(const py::dict& dict);

}  // namespace ea
