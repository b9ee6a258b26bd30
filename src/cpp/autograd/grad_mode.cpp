// Stores the per-thread switch.
#include "autograd/grad_mode.h"

namespace ea {

namespace {
thread_local bool enabled = true;
}  // namespace

bool grad_enabled() { return enabled; }

bool set_grad_enabled(bool value) {
  const bool before = enabled;
  enabled = value;
  return before;
}

}  // namespace ea
