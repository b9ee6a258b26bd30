// The backward pass over recorded operations.
#pragma once

#include <functional>

#include "autograd/var.h"

namespace ea {

// Adds d(root)/d(leaf) to the gradient of every leaf that requires one. Without
// `gradient` the root must have one element, and 1 is taken. Nodes run in the
// reverse of the order in which they were made; each frees what it saved as
// soon as it has run. Throws InputError when the root has no graph.
//
// What one pass adds to a leaf is summed by itself and then added once: two
// passes give the bits of the sum of their gradients. `complete` is told each
// leaf of the graph as soon as nothing more will come for it.
using Complete = std::function<void(Var::Impl&)>;
void backward(const Var& root, const Tensor& gradient = {},
              const Complete& complete = {});

// Adds rows to the gradient of a leaf that is a table [n, width]; in a backward
// pass on this thread to what the pass will add. It stays a gradient of rows
// while nothing dense is added to it.
void accumulate_rows(Var::Impl& leaf, RowGradient rows);

// y += x for tensors of one shape and dtype.
void accumulate(const Tensor& x, const Tensor& y);

}  // namespace ea
