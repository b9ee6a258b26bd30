// The backward pass over recorded operations.
#pragma once

#include <functional>

#include "autograd/var.h"

namespace ea {

// Adds d(root)/d(leaf) to the gradient of every leaf that requires one. Without
// `gradient` the root must have one element, and its gradient is 1. Nodes run
// in reverse order of creation; each frees its saved tensors as soon as it has
// run. Throws InputError when the root has no graph.
//
// Each pass accumulates into its own buffer, which is then added to the leaf
// once: two backward passes give bit-identical results to adding their
// gradients. `complete` is called for each leaf of the graph as soon as its
// gradient is final.
using Complete = std::function<void(Var::Impl&)>;
void backward(const Var& root, const Tensor& gradient = {},
              const Complete& complete = {});

// Fills y.grad(), in each backward pass, with `form` of the gradient of x. x is
// the output of an op; y is x itself or a copy in another form. Does nothing if
// x has no graph, or if y already retains a gradient. The graph does not keep y
// alive.
void retain_gradient(const Var& x, const Var& y,
                     std::function<Tensor(const Tensor&)> form);
// Adds a gradient to the Var that retains it, if that Var still exists.
void deliver(const Retained& retained, const Tensor& gradient);

// Adds rows to the gradient of a leaf that is a table [n, width]; within a
// backward pass on this thread, to the buffer of the pass. The gradient stays
// sparse until a dense one is added to it.
void accumulate_rows(Var::Impl& leaf, RowGradient rows);

// Returns the bytes that backward from `root` will read and then free: the
// tensors that nodes saved, each counted once, without those of the leaves.
std::int64_t kept_bytes(const Var& root);

// y += x for tensors of one shape and dtype.
void accumulate(const Tensor& x, const Tensor& y);

}  // namespace ea
