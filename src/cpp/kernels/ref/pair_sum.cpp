// Reference for the sums of query and key vectors, and their gradients.
#include "kernels/pair_sum.h"

#include "kernels/ref/cells.h"
#include "kernels/ref/map_cells.h"
#include "kernels/ref/run.h"

namespace ea::ref {

namespace {

template <typename T>
void pair_sum_of(const PairSum::Args& args) {
  pair_sums<T>(args.u, args.v, args.y, args.u.dim(1) / args.layout.heads,
               map_cells(args.layout));
}

template <typename T, bool kQueries>
void pair_sum_gradient(const PairSumBackward::Args& args,
                       const TensorView& to) {
  if (!to.defined()) return;
  sums_of_pairs<T, kQueries>(args.dy, to, to.dim(1) / args.layout.heads,
                             map_cells(args.layout));
}

template <typename T>
void pair_sum_backward_of(const PairSumBackward::Args& args) {
  pair_sum_gradient<T, true>(args, args.du);
  pair_sum_gradient<T, false>(args, args.dv);
}

}  // namespace

EA_RUN_REF(PairSum, pair_sum_of, y)
EA_RUN_REF(PairSumBackward, pair_sum_backward_of, dy)

}  // namespace ea::ref
