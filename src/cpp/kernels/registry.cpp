// The table of kernel lists, by name.
#include "kernels/registry.h"

#include <algorithm>

namespace ea {

namespace {

std::vector<detail::KernelListBase*>& lists() {
  static auto* const all = new std::vector<detail::KernelListBase*>;
  return *all;
}

std::string joined_names(const detail::ImplementationList& list) {
  std::string names;
  for (const auto& one : list.implementations) {
    names += (names.empty() ? "" : ", ") + one->name;
  }
  return names.empty() ? "none" : names;
}

// Returns text such as "ref, simd on cpu; none on cuda".
std::string names_by_device(const detail::KernelListBase& list) {
  std::string all;
  for (int t = 0; t < kDeviceTypes; ++t) {
    all += format("{}{} on {}", t == 0 ? "" : "; ",
                  joined_names(list.devices[static_cast<std::size_t>(t)]),
                  name_of(static_cast<DeviceType>(t)));
  }
  return all;
}

// Forces the implementation `name` if the list has it; returns whether it does.
bool force_in(detail::ImplementationList& list, const std::string& name) {
  for (const auto& one : list.implementations) {
    if (one->name != name) continue;
    list.forced = one.get();
    return true;
  }
  return false;
}

}  // namespace

namespace detail {

KernelListBase::KernelListBase(const char* kernel_name) : kernel(kernel_name) {
  lists().push_back(this);
}

void KernelListBase::append(DeviceType device, const char* implementation) {
  auto one = std::make_unique<Implementation>();
  one->name = implementation;
  devices[static_cast<std::size_t>(device)].implementations.push_back(
      std::move(one));
}

void KernelListBase::not_found(Device device, const std::string& why) const {
  fail<KernelNotFound>(kernel, "{} on {}; implementations of this build: {}",
                       why, device, names_by_device(*this));
}

void KernelListBase::mixed(const Places& places) const {
  fail<DeviceError>(kernel,
                    "its arguments are on {} and on {}, expected one device; "
                    "move tensors, or the model, with .to(device)",
                    places.first, places.other);
}

}  // namespace detail

std::vector<KernelEntry> kernel_entries() {
  std::vector<KernelEntry> entries;
  for (const detail::KernelListBase* list : lists()) {
    for (int t = 0; t < kDeviceTypes; ++t) {
      const auto& here = list->devices[static_cast<std::size_t>(t)];
      for (const auto& one : here.implementations) {
        entries.push_back({list->kernel, one->name, static_cast<DeviceType>(t),
                           one->calls.load()});
      }
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
    for (detail::ImplementationList& here : list->devices) {
      if (implementation.empty()) {
        here.forced = nullptr;
        known = true;
      } else if (force_in(here, implementation)) {
        known = true;
      }
    }
    if (!known && kernel != "*") {
      fail<KernelNotFound>(
          kernel, "no implementation '{}'; implementations of this build: {}",
          implementation, names_by_device(*list));
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
