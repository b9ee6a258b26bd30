// Typed kernel registry: for each kernel an ordered list of implementations;
// the first whose supports(args) holds runs, unless one is forced by name.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/check.h"
#include "runtime/profiler.h"

namespace ea {

// What the registry tells the outside about one implementation.
struct KernelEntry {
  std::string kernel;
  std::string implementation;
  std::int64_t calls;  // since the process started
};

namespace detail {

struct Implementation {
  std::string name;
  std::atomic<std::int64_t> calls{0};
};

// Position-independent part of a kernel's list; registered by name.
struct KernelListBase {
  explicit KernelListBase(const char* kernel_name);
  std::string kernel;
  std::vector<std::unique_ptr<Implementation>> implementations;
  std::atomic<const Implementation*> forced{nullptr};

  void append(const char* implementation);
  [[noreturn]] void not_found(const std::string& why) const;
};

}  // namespace detail

// The list of one kernel K, a struct with `name` and `Args`.
template <typename K>
class KernelList : public detail::KernelListBase {
 public:
  using Args = typename K::Args;
  using Run = void (*)(const Args&);
  using Supports = bool (*)(const Args&);

  static KernelList& instance() {
    static KernelList list;
    return list;
  }

  void add(const char* implementation, Run run, Supports supports) {
    append(implementation);
    entries_.push_back({run, supports});
  }

  void run(const Args& args) {
    const detail::Implementation* forced_one = forced.load();
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      detail::Implementation* one = implementations[i].get();
      if (forced_one != nullptr && forced_one != one) continue;
      const Entry& entry = entries_[i];
      if (entry.supports != nullptr && !entry.supports(args)) continue;
      one->calls.fetch_add(1, std::memory_order_relaxed);
      const ProfileScope scope(K::name);
      entry.run(args);
      return;
    }
    not_found(forced_one != nullptr
                  ? "the forced implementation '" + forced_one->name +
                        "' does not take these arguments"
                  : "none takes these arguments");
  }

 private:
  struct Entry {
    Run run;
    Supports supports;
  };
  KernelList() : KernelListBase(K::name) {}
  std::vector<Entry> entries_;
};

// Appends an implementation to the list of K: call in order of preference.
template <typename K>
void register_kernel(const char* implementation,
                     typename KernelList<K>::Run run,
                     typename KernelList<K>::Supports supports = nullptr) {
  KernelList<K>::instance().add(implementation, run, supports);
}

namespace kernels {

template <typename K>
void run(const typename K::Args& args) {
  KernelList<K>::instance().run(args);
}

}  // namespace kernels

std::vector<KernelEntry> kernel_entries();

// Forces `implementation` of `kernel` ("*": of every kernel that has it);
// an empty implementation lifts it. Throws KernelNotFound for unknown names.
void force_kernel(const std::string& kernel, const std::string& implementation);
// Applies a list "name:implementation,..." (the form of EA_KERNEL).
void force_kernels(std::string_view choices);

}  // namespace ea
