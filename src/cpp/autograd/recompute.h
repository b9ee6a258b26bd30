// Saves memory at the cost of time: backward builds a function's graph again.
#pragma once

#include <functional>
#include <vector>

#include "autograd/var.h"

namespace ea {

using Recomputed = std::function<std::vector<Var>(const std::vector<Var>&)>;

// Returns f(inputs), at most Node::kMaxOutputs Vars; inputs and outputs may be
// undefined. The graph of f is released: one node keeps the inputs, and its
// backward runs f on them again, with the random streams of the first run.
// Outputs, gradients and the generator's state have the same bits as without
// recomputation. `f` owns what it uses and must compute the same in both runs
// (InputError otherwise). If nothing is recorded, this is just f(inputs).
std::vector<Var> recompute(const char* name, Recomputed f,
                           const std::vector<Var>& inputs);

// Returns whether this thread runs such a function for the second time: side
// effects (a batch norm's running statistics) must not happen again.
bool recomputing();

}  // namespace ea
