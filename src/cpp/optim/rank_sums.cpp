// Sends shards and returns sums on the communicator's stream, during backward.
#include "optim/rank_sums.h"

#include <utility>

#include "kernels/copy.h"
#include "kernels/elementwise.h"
#include "kernels/registry.h"
#include "runtime/check.h"

namespace ea {

namespace {

constexpr std::int64_t kAligned = 64;  // elements: alignment of members

std::int64_t rounded_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

Communicator::Piece piece(const Tensor& t, int peer) {
  return {t.raw(), static_cast<std::size_t>(t.numel()) * size_of(t.dtype()),
          peer};
}

}  // namespace

GradientBucket::GradientBucket(std::shared_ptr<Communicator> ranks,
                               std::vector<Var> members)
    : ranks_(std::move(ranks)), members_(std::move(members)) {
  EA_CHECK(!members_.empty(), "bucket", "no parameters, expected at least one");
  const DType dtype = members_[0].dtype();
  std::int64_t size = 0;
  for (const Var& one : members_) {
    EA_CHECK_AS(DTypeError, one.dtype() == dtype, "bucket",
                "a parameter is {} and another {}, expected one type", dtype,
                one.dtype());
    EA_CHECK_AS(DeviceError, one.device() == ranks_->device(), "bucket",
                "a parameter is on {}, the communicator's device is {}",
                one.device(), ranks_->device());
    begins_.push_back(size);
    size += rounded_up(one.numel(), kAligned);
  }
  shard_ = rounded_up(size, kAligned * ranks_->size()) / ranks_->size();
  const Device device = ranks_->device();
  whole_ = zeros({shard_ * ranks_->size()}, dtype, device);
  arrived_ = empty({ranks_->size(), shard_}, dtype, device);
  sum_ = empty({shard_}, dtype, device);
}

Tensor GradientBucket::shard_of(int rank) const {
  return slice_view(whole_, 0, rank * shard_, (rank + 1) * shard_);
}

std::vector<bool> GradientBucket::launch(int givers, bool last) {
  std::vector<bool> given(members_.size(), false);
  if (ranks_->rank() < givers) take(given);
  ranks_->follow_device();
  send_shards(givers);
  add_up(givers, last);
  return given;
}

void GradientBucket::take(std::vector<bool>& given) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Var& one = members_[i];
    const Tensor place =
        slice_view(whole_, 0, begins_[i], begins_[i] + one.numel());
    if (one.grad().defined()) {
      given[i] = true;
      copy_into(reshape_view(contiguous(one.grad()), place.shape()), place);
      one.set_grad({});
    } else {
      kernels::run<Fill>({place, -0.0});
    }
  }
}

void GradientBucket::send_shards(int givers) {
  std::vector<Communicator::Piece> out, in;
  for (int peer = 0; peer < ranks_->size(); ++peer) {
    if (peer == ranks_->rank()) continue;
    if (ranks_->rank() < givers) out.push_back(piece(shard_of(peer), peer));
    if (peer < givers) {
      in.push_back(piece(slice_view(arrived_, 0, peer, peer + 1), peer));
    }
  }
  ranks_->exchange(out, in);
}

void GradientBucket::add_up(int givers, bool last) {
  const Tensor own = shard_of(ranks_->rank());
  ranks_->run([&] {
    for (int rank = 0; rank < givers; ++rank) {
      const Tensor part =
          rank == ranks_->rank()
              ? own
              : reshape_view(slice_view(arrived_, 0, rank, rank + 1),
                             sum_.shape());
      if (begun_) {
        kernels::run<Axpby>({1.0, sum_, 1.0, part, sum_});
      } else {
        kernels::run<Axpby>({1.0, part, 0.0, {}, sum_});
      }
      begun_ = true;
    }
    if (last) kernels::run<Axpby>({1.0, sum_, 0.0, {}, own});
  });
  if (last) {
    ranks_->all_gather(whole_.raw(), piece(sum_, 0).bytes);
  }
}

void GradientBucket::hand_out(const std::vector<bool>& summed) {
  EA_CHECK(summed.size() == members_.size(), "bucket",
           "{} marks for {} parameters", summed.size(), members_.size());
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Var& one = members_[i];
    one.set_grad(summed[i] ? reshape_view(slice_view(whole_, 0, begins_[i],
                                                     begins_[i] + one.numel()),
                                          one.shape())
                           : Tensor());
  }
}

std::vector<Tensor> gather_ranks(
    Communicator& ranks, const Tensor& own, DType dtype,
    const std::vector<std::optional<Shape>>& shapes) {
  EA_CHECK(static_cast<int>(shapes.size()) == ranks.size(), "gather",
           "{} shapes for {} ranks", shapes.size(), ranks.size());
  std::vector<Tensor> parts(shapes.size());
  std::vector<Communicator::Piece> out, in;
  const Tensor mine = own.defined() ? contiguous(own) : Tensor();
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto& shape = shapes[static_cast<std::size_t>(rank)];
    Tensor& part = parts[static_cast<std::size_t>(rank)];
    if (rank == ranks.rank()) {
      EA_CHECK(
          mine.defined() == shape.has_value() &&
              (!shape || (mine.shape() == *shape && mine.dtype() == dtype &&
                          mine.device() == ranks.device())),
          "gather",
          "rank {} sends a tensor whose shape, type or device is not the "
          "announced one",
          rank);
      part = mine;
      continue;
    }
    if (mine.defined()) out.push_back(piece(mine, rank));
    if (!shape) continue;
    part = empty(*shape, dtype, ranks.device());
    in.push_back(piece(part, rank));
  }
  ranks.follow_device();
  ranks.exchange(out, in);
  ranks.precede_device();
  return parts;
}

}  // namespace ea
