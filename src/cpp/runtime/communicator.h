// Devices of several processes that exchange memory, each on a queue beside
// that of its other work.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace ea {

// One device of each rank. All ranks call exchange() and all_gather() in one
// order; nothing waits for the device.
class Communicator {
 public:
  // Memory of this device, and the rank that gets it or gives it.
  struct Piece {
    void* data;
    std::size_t bytes;
    int peer;
  };

  virtual ~Communicator() = default;
  virtual Device device() const = 0;
  virtual int size() const = 0;
  virtual int rank() const = 0;

  // What is called here next comes after the device's work so far,
  virtual void follow_device() = 0;
  // and the device's later work after what was called here so far.
  virtual void precede_device() = 0;

  // Pieces for other ranks, and pieces from them.
  virtual void exchange(const std::vector<Piece>& out,
                        const std::vector<Piece>& in) = 0;
  // size() parts of `bytes` each lie at `whole`: this rank's goes to all.
  virtual void all_gather(void* whole, std::size_t bytes) = 0;
  // Starts the kernels of `work` on this queue; they use no scratch memory.
  virtual void run(const std::function<void()>& work) = 0;

  // For any thread. Seconds since the last call, while something called here is
  // not done yet; else 0,
  virtual double busy() = 0;
  // what the library says is wrong, empty while nothing is,
  virtual std::string failure() = 0;
  // and the end of all that waits for other ranks: what was to come from them
  // is then garbage, and later calls throw Error.
  virtual void abort() noexcept = 0;

  // At the end of an orderly run, by all ranks, when nothing is under way.
  virtual void close() noexcept = 0;
};

}  // namespace ea
