// Blocks signals by the kernel's own call: glibc's pthread_sigmask leaves out
// the two signals that glibc uses itself (setuid() and thread cancellation),
// whose handlers run on the stack of the thread as well.
#include "runtime/signals.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ea {

namespace {

constexpr std::uint64_t bit(int signal) {
  return std::uint64_t{1} << (signal - 1);
}

constexpr std::uint64_t kCanWait = ~(bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) |
                                     bit(SIGFPE) | bit(SIGTRAP) | bit(SIGSYS));

void change(int how, const std::uint64_t* set, std::uint64_t* before) {
  // It fails for a wrong argument only, and these are constants.
  (void)syscall(SYS_rt_sigprocmask, how, set, before, sizeof *set);
}

}  // namespace

SignalsBlocked::SignalsBlocked() { change(SIG_BLOCK, &kCanWait, &before_); }

SignalsBlocked::~SignalsBlocked() { change(SIG_SETMASK, &before_, nullptr); }

}  // namespace ea
