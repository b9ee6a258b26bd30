// Guards that release and take Python's global lock (GIL), also while Python
// ends.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <thread>

namespace ea {

// Stops this thread until the process has ended. While Python ends, CPython
// below 3.14 calls pthread_exit in threads that ask for the GIL; unwound
// through the destructors of our guards this would abort the process.
[[noreturn]] inline void wait_for_end() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

// Calls take(), which takes the GIL.
template <typename Take>
void take_gil(Take take) {
  try {
    take();
  } catch (...) {  // nothing else is thrown by C
    wait_for_end();
  }
}

// Releases the GIL until the end of the scope.
class ReleasedGil {
 public:
  ReleasedGil() : state_(PyEval_SaveThread()) {}
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;
  ~ReleasedGil() {
    take_gil([&] { PyEval_RestoreThread(state_); });
  }

 private:
  PyThreadState* state_;
};

// Holds the GIL until the end of the scope, on any thread.
class HeldGil {
 public:
  HeldGil() {
    take_gil([&] { state_ = PyGILState_Ensure(); });
  }
  HeldGil(const HeldGil&) = delete;
  HeldGil& operator=(const HeldGil&) = delete;
  ~HeldGil() {
    // Python code that ran meanwhile may have lost the GIL for good. Once
    // Python has ended, PyGILState_Check() is always true.
    const bool ended = PyGILState_GetThisThreadState() == nullptr;
    if (ended || PyGILState_Check() == 0) wait_for_end();
    PyGILState_Release(state_);
  }

 private:
  PyGILState_STATE state_{};
};

}  // namespace ea
