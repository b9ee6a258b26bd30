// Finds twins by the storage of the tensors on the CPU.
#include "tensor/residents.h"

#include <utility>

#include "runtime/check.h"

namespace ea {

namespace {

thread_local const Residents* here = nullptr;

}  // namespace

void Residents::load(std::vector<Tensor> given) {
  const bool first = twins_.empty();
  EA_CHECK(first || given.size() == twins_.size(), "residents",
           "{} tensors, expected the {} of the first time", given.size(),
           twins_.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Tensor& t = given[i];
    EA_CHECK(t.device().is_cpu() && t.is_contiguous(), "residents",
             "tensor {} is on {}, expected a contiguous one on the CPU", i,
             t.device());
    if (first) twins_.push_back(empty(t.shape(), t.dtype(), device_));
    EA_CHECK(t.shape() == twins_[i].shape(), "residents",
             "tensor {} has shape {}, the first time {}", i, t.shape(),
             twins_[i].shape());
    EA_CHECK_AS(DTypeError, t.dtype() == twins_[i].dtype(), "residents",
                "tensor {} is {}, the first time {}", i, t.dtype(),
                twins_[i].dtype());
    copy_into(t, twins_[i]);
  }
  given_ = std::move(given);
}

Residents::Scope::Scope(const Residents& residents)
    : before_(std::exchange(here, &residents)) {}

Residents::Scope::~Scope() { here = before_; }

Tensor twin_of(const Tensor& t, Device device) {
  if (here == nullptr || !(here->device_ == device) || !t.defined() ||
      !t.is_contiguous()) {
    return {};
  }
  for (std::size_t i = 0; i < here->given_.size(); ++i) {
    const Tensor& given = here->given_[i];
    const std::int64_t begin = t.offset() - given.offset();
    if (t.storage() != given.storage() || t.dtype() != given.dtype() ||
        begin < 0 || begin + t.numel() > given.numel()) {
      continue;
    }
    const Tensor flat = reshape_view(here->twins_[i], {given.numel()});
    return reshape_view(slice_view(flat, 0, begin, begin + t.numel()),
                        t.shape());
  }
  return {};
}

}  // namespace ea
