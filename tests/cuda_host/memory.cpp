// Guarded mappings, and the signals raised by them and by trapped code.
#include "memory.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstring>

#include "fault.h"

namespace ea::emulation {

namespace {

constexpr std::size_t kPage = 4096;
// All ones is a NaN in every floating type.
constexpr int kPoison = 0xff;

Arena* the_arena = nullptr;

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

Buffer::Buffer(std::string name, std::size_t bytes, Access access, Order order)
    : name_(std::move(name)),
      bytes_(bytes),
      mapped_(whole_pages(bytes) + 2 * kPage),
      access_(access) {
  void* p = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw KernelFault("[cuda_host] no room for " + name_);
  base_ = static_cast<unsigned char*>(p);
  mprotect(base_, kPage, PROT_NONE);
  mprotect(base_ + mapped_ - kPage, kPage, PROT_NONE);
  data_ =
      order == Order::forward ? base_ + mapped_ - kPage - bytes : base_ + kPage;
  poison();
}

Buffer::~Buffer() { munmap(base_, mapped_); }

void Buffer::poison() {
  std::memset(base_ + kPage, kPoison, mapped_ - 2 * kPage);
}

void Buffer::protect(int rights) {
  if (mapped_ > 2 * kPage) {
    mprotect(base_ + kPage, mapped_ - 2 * kPage, freed_ ? PROT_NONE : rights);
  }
}

void Buffer::allow_all() { protect(PROT_READ | PROT_WRITE); }

void Buffer::allow_kernel() {
  protect(access_ == Access::host   ? PROT_NONE
          : access_ == Access::read ? PROT_READ
                                    : PROT_READ | PROT_WRITE);
}

void Buffer::allow_host() {
  protect(access_ == Access::host ? PROT_READ : PROT_NONE);
}

void Buffer::forbid() {
  freed_ = true;
  protect(PROT_NONE);
}

bool Buffer::overrun() const {
  if (freed_) return false;
  for (const unsigned char* p = base_ + kPage; p < base_ + mapped_ - kPage;
       ++p) {
    if (p == data_) p += bytes_;
    if (p < base_ + mapped_ - kPage && *p != kPoison) return true;
  }
  return false;
}

bool Buffer::maps(const void* address) const {
  return address >= base_ && address < base_ + mapped_;
}

Arena::Arena(Order order) : order_(order) {
  if (the_arena != nullptr) throw KernelFault("[cuda_host] two arenas");
  the_arena = this;
}

Arena::~Arena() { the_arena = nullptr; }

Arena* Arena::current() { return the_arena; }

Buffer& Arena::add(std::string name, std::size_t bytes, Access access) {
  buffers_.push_back(
      std::make_unique<Buffer>(std::move(name), bytes, access, order_));
  return *buffers_.back();
}

void Arena::for_kernel() {
  for (const auto& one : buffers_) one->allow_kernel();
}

void Arena::for_host() {
  for (const auto& one : buffers_) one->allow_host();
}

void Arena::finish() {
  for (const auto& one : buffers_) {
    one->allow_all();
    if (one->overrun()) {
      throw KernelFault("writes next to " + one->name() + " (" +
                        std::to_string(one->bytes()) + " bytes)");
    }
  }
}

void Arena::free(const void* data) {
  for (const auto& one : buffers_) {
    if (one->data() == data) {
      one->allow_all();
      const bool overrun = one->overrun();
      one->forbid();
      if (overrun) throw KernelFault("writes next to " + one->name());
    }
  }
}

std::string Arena::describe(const void* address) const {
  for (const auto& one : buffers_) {
    if (!one->maps(address)) continue;
    const auto offset = static_cast<const unsigned char*>(address) -
                        static_cast<const unsigned char*>(one->data());
    return "byte " + std::to_string(offset) + " of " + one->name() + " (" +
           std::to_string(one->bytes()) + " bytes)";
  }
  return "memory that is no argument";
}

namespace {

sigjmp_buf way_out;
std::string report;

void on_signal(int signal, siginfo_t* info, void*) {
  // The code under test raises the signal itself, so it never interrupts code
  // that the lines below depend on.
  if (signal == SIGILL) {
    report = place() +
             "undefined behaviour: a misaligned access, an index outside its "
             "array, a shift or an integer overflow";
  } else {
    report = place() + "may not touch " +
             (the_arena != nullptr ? the_arena->describe(info->si_addr)
                                   : std::string("memory that is no argument"));
  }
  abandon_kernel();
  siglongjmp(way_out, 1);
}

// Installs signal handlers, on a stack of their own, during its lifetime.
class Signals {
 public:
  Signals() : stack_(new char[kSize]) {
    stack_t mine{};
    mine.ss_sp = stack_.get();
    mine.ss_size = kSize;
    sigaltstack(&mine, &old_stack_);
    struct sigaction action{};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < kCount; ++i) {
      sigaction(kSignals[i], &action, &old_[i]);
    }
  }
  ~Signals() {
    for (int i = 0; i < kCount; ++i) sigaction(kSignals[i], &old_[i], nullptr);
    sigaltstack(&old_stack_, nullptr);
  }

 private:
  static constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  static constexpr int kCount = 4;
  static constexpr std::size_t kSize = 64 * 1024;
  std::unique_ptr<char[]> stack_;
  stack_t old_stack_{};
  struct sigaction old_[kCount];
};

}  // namespace

void run_caught(const char* what, void (*body)(void*), void* context) {
  const Signals signals;
  const std::string prefix = std::string("[") + what + " on cuda_host] ";
  if (sigsetjmp(way_out, 1) != 0) throw KernelFault(prefix + report);
  try {
    body(context);
  } catch (const KernelFault& error) {
    throw KernelFault(prefix + error.what());
  }
}

}  // namespace ea::emulation
