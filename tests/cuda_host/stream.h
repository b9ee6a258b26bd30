// A stream of the emulated CUDA, implemented in runtime_api.cpp. A library
// opened at run time (nccl.cpp) may use it through the virtual functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>

// Work in order, and a count of the completed pieces.
struct CUstream_st {
  using Run = std::function<void()>;
  using Ready = std::function<bool()>;  // whether Run would not wait

  explicit CUstream_st(int number) : device(number) {}
  virtual ~CUstream_st() = default;

  virtual void later(Run run, Ready ready);
  virtual void finish();  // runs all work queued so far
  // Copies bytes of the device or the host at once.
  virtual void copy(void* to, const void* from, std::size_t bytes) const;

  struct Work {
    Run run;
    Ready ready;
  };
  int device;
  std::deque<Work> work;
  std::uint64_t done = 0;
};
