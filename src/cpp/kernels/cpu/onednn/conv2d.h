// Image convolutions by oneDNN, partitioned into single-threaded jobs of fixed
// shape.
#pragma once

#include "kernels/conv2d.h"

namespace ea::onednn {

void conv2d_forward(const Conv2dForward::Args& args);
void conv2d_backward(const Conv2dBackward::Args& args);

}  // namespace ea::onednn
