// Dropout (Srivastava et al., 2014) from a counter-based generator.
#pragma once

#include "autograd/var.h"
#include "runtime/random.h"

namespace ea {

// Dropout probability of one site, and the random stream it draws.
struct DropoutSite {
  double p = 0.0;  // 0 outside training
  StreamSite site = 0;
};

// Returns a site without a name. Throws ConfigError for a p outside [0, 1).
DropoutSite dropout_rate(double p, bool training);

// Zeroes elements with probability p and scales the others by 1 / (1 - p).
// Returns x itself when p = 0, else draws a random stream.
Var dropout(const Var& x, DropoutSite at);

}  // namespace ea
