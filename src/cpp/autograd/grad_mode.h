// Whether operations are recorded, per thread.
#pragma once

namespace ea {

bool grad_enabled();
bool set_grad_enabled(bool enabled);  // returns what it was

// Nothing is recorded while one of these lives.
class NoGrad {
 public:
  NoGrad() : before_(set_grad_enabled(false)) {}
  ~NoGrad() { set_grad_enabled(before_); }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

}  // namespace ea
