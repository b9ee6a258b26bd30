// The table of kernel lists, by name.
#include "kernels/registry.h"

#include <algorithm>

namespace ea {

namespace {

std::vector<detail::KernelListBase*>& lists() {
  static std::vector<detail::KernelListBase*> all;
  return all;
}

std::string joined_names(const detail::KernelListBase& list) {
  std::string names;
  for (const auto& one : list.implementations) {
    names += (names.empty() ? "" : ", ") + one->name;
  }
  return names.empty() ? "none" : names;
}

}  // namespace

namespace detail {

KernelListBase::KernelListBase(const char* kernel_name) : kernel(kernel_name) {
  lists().push_back(this);
}

void KernelListBase::append(const char* implementation) {
  auto one = std::make_unique<Implementation>();
  one->name = implementation;
  implementations.push_back(std::move(one));
}

void KernelListBase::not_found(const std::string& why) const {
  fail<KernelNotFound>(kernel, "{}; implementations of this build: {}", why,
                       joined_names(*this));
}

}  // namespace detail

std::vector<KernelEntry> kernel_entries() {
  std::vector<KernelEntry> entries;
  for (const detail::KernelListBase* list : lists()) {
    for (const auto& one : list->implementations) {
      entries.push_back({list->kernel, one->name, one->calls.load()});
    }
  }
  std::stable_sort(
      entries.begin(), entries.end(),
      [](const auto& a, const auto& b) { return a.kernel < b.kernel; });
  return entries;
}

void force_kernel(const std::string& kernel,
                  const std::string& implementation) {
  bool known = false;
  for (detail::KernelListBase* list : lists()) {
    if (kernel != "*" && kernel != list->kernel) continue;
    if (implementation.empty()) {
      list->forced = nullptr;
      known = true;
      continue;
    }
    for (const auto& one : list->implementations) {
      if (one->name == implementation) {
        list->forced = one.get();
        known = true;
      }
    }
    if (!known && kernel != "*") {
      list->not_found("no implementation '" + implementation + "'");
    }
  }
  if (!known) {
    fail<KernelNotFound>("force_kernel",
                         "no kernel '{}' with an implementation '{}'", kernel,
                         implementation);
  }
}

void force_kernels(std::string_view choices) {
  while (!choices.empty()) {
    const auto comma = choices.find(',');
    const std::string_view choice = choices.substr(0, comma);
    const auto colon = choice.find(':');
    EA_CHECK_AS(ConfigError, colon != std::string_view::npos, "EA_KERNEL",
                "'{}': expected kernel:implementation", choice);
    force_kernel(std::string(choice.substr(0, colon)),
                 std::string(choice.substr(colon + 1)));
    choices = comma == std::string_view::npos ? std::string_view()
                                              : choices.substr(comma + 1);
  }
}

}  // namespace ea
