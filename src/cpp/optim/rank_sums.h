// Sums the gradients of several ranks, in the order of the ranks, on their
// devices.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "autograd/var.h"
#include "runtime/communicator.h"

namespace ea {

// Parameters of one dtype whose gradients are sent together. Every rank owns a
// part (shard) of the bucket. A turn adds one gradient of each rank: each rank
// sends the shards to their owners, and an owner adds the received ones in rank
// order. After the last turn every rank receives all sums. So a sum is
// ((g0 + g1) + g2) + …, turn after turn, with the same additions as backward().
//
// A gradient that a rank does not have is sent as -0.0, which changes no bit of
// the sum.
class GradientBucket {
 public:
  GradientBucket(std::shared_ptr<Communicator> ranks, std::vector<Var> members);

  // Discards the sums at the start of a step.
  void clear() { begun_ = false; }
  // Takes the members' gradients and starts to send them; returns which members
  // had one. Ranks 0 … givers - 1 have a batch in this turn; after the `last`
  // turn the sums are sent back. All ranks call it in the same order of
  // buckets.
  std::vector<bool> launch(int givers, bool last);
  // Sets the gradients of the members marked in `summed` to views of the sums.
  // Call it after launch(…, last) and the communicator's precede_device().
  void hand_out(const std::vector<bool>& summed);

 private:
  void take(std::vector<bool>& given);
  void send_shards(int givers);
  void add_up(int givers, bool last);
  Tensor shard_of(int rank) const;

  std::shared_ptr<Communicator> ranks_;
  std::vector<Var> members_;
  std::vector<std::int64_t> begins_;  // offsets of the members in the bucket
  std::int64_t shard_ = 0;            // elements
  Tensor whole_;                      // [size * shard_]
  Tensor arrived_;  // [size, shard_]: this rank's shard from every rank
  Tensor sum_;      // [shard_]
  bool begun_ = false;
};

// Gathers one tensor of each rank, all of one dtype, in the order of the ranks:
// `own` of this rank, and one of every other rank that has a shape in `shapes`.
// Undefined for ranks without a shape.
std::vector<Tensor> gather_ranks(
    Communicator& ranks, const Tensor& own, DType dtype,
    const std::vector<std::optional<Shape>>& shapes);

}  // namespace ea
