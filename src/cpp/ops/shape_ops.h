// Differentiable changes of shape.
#pragma once

#include <vector>

#include "autograd/var.h"

namespace ea {

// One size may be -1: it is computed from the others.
Var reshape(const Var& x, Shape shape);
Var transpose(const Var& x, int axis_a, int axis_b);
// y's axis i is x's axis axes[i]; `axes` names each once.
Var permute(const Var& x, const std::vector<int>& axes,
            const char* op = "permute");
// The same values in memory of their own.
Var copied(const Var& x);
// x[..., begin:end, ...] along an axis
Var slice(const Var& x, int axis, std::int64_t begin, std::int64_t end);
// Tensors of equal shape but for `axis`, one after another
Var concat(const std::vector<Var>& xs, int axis);

}  // namespace ea
