// Prevents signal handlers from running on the calling thread.
#pragma once

#include <cstdint>

namespace ea {

// While it exists, blocks every signal of the calling thread that can be
// deferred; such a signal is delivered afterwards, or at once to a thread that
// does not block it. Signals that report a fault of the thread itself (SIGSEGV,
// SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS) are not blocked: a blocked fault
// would end the process without the report of a fault handler. Costs two system
// calls.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  std::uint64_t before_ = 0;  // the kernel's signal set: bit n - 1 is signal n
};

}  // namespace ea
