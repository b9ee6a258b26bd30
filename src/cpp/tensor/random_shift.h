// A number beside the tensors that moves the streams of a thread's random ops.
#pragma once

#include "tensor/tensor.h"

namespace ea {

// While one lives, every dropout that this thread begins draws stream + shift,
// shift being what the number holds when a kernel runs: work that is recorded
// once drops other elements whenever it is started with another number. The
// backward keeps the tensor, which must hold the same number then. Scopes nest;
// the innermost counts.
class RandomShift {
 public:
  // int64, one number, on the device of the ops; undefined: no shift. Throws
  // DTypeError or ShapeError for anything else.
  explicit RandomShift(Tensor shift);
  ~RandomShift();
  RandomShift(const RandomShift&) = delete;
  RandomShift& operator=(const RandomShift&) = delete;

  // Of this thread's innermost scope; undefined where there is none.
  static Tensor current();

 private:
  Tensor shift_;
  const RandomShift* outer_;
};

}  // namespace ea
