// Reads the limits of the memory controller of this process.
#include "runtime/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>

namespace ea {

namespace {

// Kernels write about 2^63 for "no limit" in v1.
constexpr std::int64_t kUnlimited = std::int64_t{1} << 62;

// Returns the number in a file, or kUnlimited if there is none ("max", no such
// file, other text).
std::int64_t limit_in(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  if (!std::getline(file, text)) return kUnlimited;
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool number = error == std::errc() && stop == end && value > 0;
  return number ? value : kUnlimited;
}

// Returns the smallest limit of a group and all its parents. A container often
// sees the path of its group on the host, but its own files at the top; missing
// files are skipped.
std::int64_t limit_of(const std::string& mount, std::string group,
                      const char* file) {
  std::int64_t least = kUnlimited;
  for (;;) {
    while (!group.empty() && group.back() == '/') group.pop_back();
    least = std::min(least, limit_in(mount + group + "/" + file));
    if (group.empty()) return least;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

bool names_memory(const std::string& controllers) {
  return ("," + controllers + ",").find(",memory,") != std::string::npos;
}

}  // namespace

std::int64_t cgroup_memory(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  const std::string mount = root + "/sys/fs/cgroup";
  std::int64_t least = kUnlimited;
  // Each line is HIERARCHY:CONTROLLERS:PATH; v2 has the line 0::PATH.
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    if (first == std::string::npos) continue;
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (names.empty()) {
      least = std::min(least, limit_of(mount, group, "memory.max"));
    } else if (names_memory(names)) {
      least = std::min(
          least, limit_of(mount + "/memory", group, "memory.limit_in_bytes"));
    }
  }
  return least < kUnlimited ? least : 0;
}

}  // namespace ea
