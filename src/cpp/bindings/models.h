// What the bindings of all architectures share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bindings/bind.h"
#include "models/model.h"

namespace ea {

// `slot`: None, or an evolve kind written in Python. Throws ConfigError.
ModelConfig model_config(const py::dict& config, const std::string& dtype,
                         const py::object& slot);

// Class numbers (int64) or values; None gives an undefined tensor. Throws
// DTypeError.
Tensor labels_of(const py::object& labels);

using Indices = std::optional<std::vector<int>>;
Wanted wanted_of(const Indices& hidden_states, const Indices& attentions,
                 const Indices& attention_logits);

// Name to tensor, of what is there.
py::dict results_of(const ModelOutput& out);

}  // namespace ea
