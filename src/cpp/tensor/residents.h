// Tensors on the CPU that have a twin on a device, at one address for many
// steps: what a step is given, where its work is written down once.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace ea {

class Residents {
 public:
  explicit Residents(Device device) : device_(device) {}
  Residents(const Residents&) = delete;
  Residents& operator=(const Residents&) = delete;

  // Brings the values of `given`, contiguous and on the CPU, to the twins,
  // which are made by the first call. Throws ShapeError or DTypeError for
  // others than that was given.
  void load(std::vector<Tensor> given);

  // While it lives, to_device() on this thread gives the twins of the tensors
  // loaded last, and of their parts, instead of copies.
  class Scope {
   public:
    explicit Scope(const Residents& residents);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const Residents* before_;
  };

 private:
  friend Tensor twin_of(const Tensor& t, Device device);

  Device device_;
  std::vector<Tensor> given_, twins_;
};

// The twin of a tensor on the CPU, or of a contiguous part of one; undefined
// without one there.
Tensor twin_of(const Tensor& t, Device device);

}  // namespace ea
