// Less memory for more time: the graph of a function is made again in backward.
#pragma once

#include <functional>
#include <vector>

#include "autograd/var.h"

namespace ea {

using Recomputed = std::function<std::vector<Var>(const std::vector<Var>&)>;

// f(inputs), at most Node::kMaxOutputs Vars; undefined ones may be among both.
// What f recorded is let go: one node keeps the inputs, and its backward runs f
// on them again, with the random streams that this thread drew the first time.
// Outputs and gradients have the bits they have without recomputation, and the
// generator its state. `f` owns what it uses, and does the same in both runs
// (InputError if it does not). Without recording it is f(inputs).
std::vector<Var> recompute(const char* name, Recomputed f,
                           const std::vector<Var>& inputs);

// Whether this thread runs such a function for the second time: what it does
// beside its outputs (a batch norm's running statistics) is done already.
bool recomputing();

}  // namespace ea
