// Reads the inputs of models from Python dicts.
#pragma once

#include "bindings/bind.h"
#include "models/model.h"

namespace ea {

// Throws DTypeError or InputError for objects that are not such arrays.
Inputs inputs_of(const Architecture& architecture, const py::dict& given);

}  // namespace ea
