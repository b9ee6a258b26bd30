// Exchanges memory between the devices of several processes, on a stream of its
// own, separate from the stream of the device's other work.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace ea {

// Connects one device of each rank. All ranks call exchange() and all_gather()
// in the same order; no call synchronises with the device.
class Communicator {
 public:
  // Memory of this device, and the rank that receives or sends it.
  struct Piece {
    void* data;
    std::size_t bytes;
    int peer;
  };

  virtual ~Communicator() = default;
  virtual Device device() const = 0;
  virtual int size() const = 0;
  virtual int rank() const = 0;

  // Later calls here run after the work submitted to the device so far.
  virtual void follow_device() = 0;
  // Later work of the device runs after the calls here so far.
  virtual void precede_device() = 0;

  // Sends `out` to other ranks and receives `in` from them.
  virtual void exchange(const std::vector<Piece>& out,
                        const std::vector<Piece>& in) = 0;
  // `whole` has size() parts of `bytes` each; sends this rank's part to all.
  virtual void all_gather(void* whole, std::size_t bytes) = 0;
  // Launches the kernels of `work` on this stream; they use no scratch memory.
  virtual void run(const std::function<void()>& work) = 0;

  // The next three may be called from any thread.
  // Returns the seconds since the last call while work is pending here; else 0.
  virtual double busy() = 0;
  // Returns the library's error, or an empty string.
  virtual std::string failure() = 0;
  // Ends every operation that waits for other ranks. The data expected from
  // them is then undefined, and later calls throw Error.
  virtual void abort() noexcept = 0;

  // Called by all ranks at the end of a normal run, when no work is pending.
  virtual void close() noexcept = 0;
};

}  // namespace ea
