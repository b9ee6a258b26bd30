// Reference masked softmax over the keys of attention maps.
#include "kernels/softmax.h"

#include "kernels/ref/cells.h"
#include "kernels/ref/map_cells.h"
#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

template <typename T>
void forward_of(const SoftmaxForward::Args& args) {
  cell_softmax<T>(args.x, args.y, args.scale, existing_cells(args.layout));
  keep_all_existing(args.layout, args.y.as<T>());
}

template <typename T>
void backward_of(const SoftmaxBackward::Args& args) {
  cell_softmax_backward<T>(args.dy, args.y, args.dx, args.scale,
                           existing_cells(args.layout));
  keep_all_existing(args.layout, args.dx.as<T>());
}

}  // namespace

EA_RUN_REF(SoftmaxForward, forward_of, x)
EA_RUN_REF(SoftmaxBackward, backward_of, y)

}  // namespace ea::ref
