// Per-thread switch of the recording of operations.
#pragma once

namespace ea {

bool grad_enabled();
bool set_grad_enabled(bool enabled);  // returns the previous value

class GradMode {
 public:
  explicit GradMode(bool enabled) : before_(set_grad_enabled(enabled)) {}
  ~GradMode() { set_grad_enabled(before_); }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};

// Nothing is recorded while a NoGrad exists.
class NoGrad : public GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

}  // namespace ea
