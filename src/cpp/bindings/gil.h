// Guards that release and take Python's global lock (GIL), also while Python
// ends.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <thread>

namespace ea {

// Calls take(), which takes the GIL. While Python ends, CPython below 3.14
// calls pthread_exit in threads that ask for the GIL; unwound through the
// destructors of our guards this would abort the process. Such a thread stops
// here until the process has ended.
template <typename Take>
void take_gil(Take take) {
  try {
    take();
  } catch (...) {  // nothing else is thrown by C
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
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
  ~HeldGil() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_{};
};

}  // namespace ea
