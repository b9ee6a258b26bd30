// Blocks signals by a direct system call: glibc's pthread_sigmask skips the two
// signals that glibc uses itself (setuid() and thread cancellation), whose
// handlers also run on the stack of the thread.
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
  // It fails only for a wrong argument, and these are constants.
  (void)syscall(SYS_rt_sigprocmask, how, set, before, sizeof *set);
}

}  // namespace

SignalsBlocked::SignalsBlocked() { change(SIG_BLOCK, &kCanWait, &before_); }

SignalsBlocked::~SignalsBlocked() { change(SIG_SETMASK, &before_, nullptr); }

}  // namespace ea
