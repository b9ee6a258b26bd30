// A stream of the emulated CUDA, as runtime_api.cpp has it and as a library
// that is opened at run time (nccl.cpp) may use it: through the virtual
// functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>

// Work in its order; what was done is counted.
struct CUstream_st {
  using Run = std::function<void()>;
  using Ready = std::function<bool()>;  // whether it would not wait

  explicit CUstream_st(int number) : device(number) {}
  virtual ~CUstream_st() = default;

  virtual void later(Run run, Ready ready);
  virtual void finish();  // all work so far, now
  // Bytes of the device or the host, now.
  virtual void copy(void* to, const void* from, std::size_t bytes) const;

  struct Work {
    Run run;
    Ready ready;
  };
  int device;
  std::deque<Work> work;
  std::uint64_t done = 0;
};
