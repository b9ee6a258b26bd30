// The inputs of models from Python's dicts.
#pragma once

#include "bindings/bind.h"
#include "models/model.h"

namespace ea {

// Throws DTypeError or InputError for objects that are no such arrays.
Inputs inputs_of(const Architecture& architecture, const py::dict& given);

}  // namespace ea
