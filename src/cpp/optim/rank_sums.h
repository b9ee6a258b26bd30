// Gradients of several ranks, summed in the order of the ranks on their
// devices.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "autograd/var.h"
#include "runtime/communicator.h"

namespace ea {

// Parameters of one dtype whose gradients travel together. Every rank owns a
// part (shard) of the bucket. A turn adds one gradient of each rank: a rank
// sends the shards to their owners, and an owner adds what it got in rank
// order. After the last turn all get the sums of all. So a sum is ((g0 + g1) +
// g2) + …, turn after turn, with the additions of backward().
//
// A gradient that a rank does not have travels as -0.0, which changes no bit of
// what it is added to.
class GradientBucket {
 public:
  GradientBucket(std::shared_ptr<Communicator> ranks, std::vector<Var> members);

  // Forgets the sums: a new step begins.
  void clear() { begun_ = false; }
  // Takes the members' gradients and starts their way; returns which there
  // were. Ranks 0 … givers - 1 have some in this turn; `last`: the sums are
  // wanted after it. All ranks call it in one order of buckets.
  std::vector<bool> launch(int givers, bool last);
  // The sums become the gradients of the members for which `summed` says so, as
  // views. After launch(…, last) and precede_device() of the communicator.
  void hand_out(const std::vector<bool>& summed);

 private:
  void take(std::vector<bool>& given);
  void send_shards(int givers);
  void add_up(int givers, bool last);
  Tensor shard_of(int rank) const;

  std::shared_ptr<Communicator> ranks_;
  std::vector<Var> members_;
  std::vector<std::int64_t> begins_;  // of the members in the bucket
  std::int64_t shard_ = 0;            // elements
  Tensor whole_;                      // [size * shard_]
  Tensor arrived_;  // [size, shard_]: this rank's shard of all
  Tensor sum_;      // [shard_]
  bool begun_ = false;
};

// What every rank gives, by rank, all of one dtype: its own and, where `shapes`
// has one, that of each other rank. Undefined where it has none.
std::vector<Tensor> gather_ranks(
    Communicator& ranks, const Tensor& own, DType dtype,
    const std::vector<std::optional<Shape>>& shapes);

}  // namespace ea
