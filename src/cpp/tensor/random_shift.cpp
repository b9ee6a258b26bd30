// The scopes of a thread, as a list from the innermost outwards.
#include "tensor/random_shift.h"

#include <utility>

#include "runtime/check.h"

namespace ea {

namespace {
thread_local const RandomShift* innermost = nullptr;
}  // namespace

RandomShift::RandomShift(Tensor shift)
    : shift_(std::move(shift)), outer_(innermost) {
  if (shift_.defined()) {
    EA_CHECK_AS(DTypeError, shift_.dtype() == DType::i64, "random_shift",
                "the shift is {}, expected int64", shift_.dtype());
    EA_CHECK(shift_.numel() == 1, "random_shift",
             "the shift has shape {}, expected one number", shift_.shape());
  }
  innermost = this;
}

RandomShift::~RandomShift() { innermost = outer_; }

Tensor RandomShift::current() {
  return innermost != nullptr ? innermost->shift_ : Tensor();
}

}  // namespace ea
