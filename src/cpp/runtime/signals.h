// Keeps signal handlers off the calling thread.
#pragma once

#include <cstdint>

namespace ea {

// Blocks every signal of the calling thread that can wait, while it lives;
// whatever was sent meanwhile is delivered afterwards, or at once to a thread
// that blocks none. Signals that report a fault of the thread itself (SIGSEGV,
// SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS) stay as they are: blocked ones end
// the process without the report of a fault handler. Two system calls.
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
