// Dropout (Srivastava et al., 2014) from a counter-based generator.
#pragma once

#include "autograd/var.h"
#include "runtime/random.h"

namespace ea {

// How much a place drops, and the stream it draws.
struct DropoutSite {
  double p = 0.0;  // 0 outside training
  StreamSite site = 0;
};

// An op without a name. Throws ConfigError for a p outside [0, 1).
DropoutSite dropout_rate(double p, bool training);

// x with elements zeroed with probability p, the others scaled by 1 / (1 - p);
// x itself when p = 0, else a random stream is drawn.
Var dropout(const Var& x, DropoutSite at);

}  // namespace ea
