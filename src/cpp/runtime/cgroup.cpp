// Reads the limits of the memory and CPU controllers of this process.
#include "runtime/cgroup.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

namespace ea {

namespace {

// Kernels write about 2^63 for "no limit" of memory in v1.
constexpr std::int64_t kUnlimited = std::int64_t{1} << 62;

// Returns the first line of a file, or "" if there is none.
std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Returns the number in a text, or kUnlimited for other text ("max", "-1").
std::int64_t limit_in(std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool number = error == std::errc() && stop == end && value > 0;
  return number ? value : kUnlimited;
}

// Returns quota / period, rounded up, or kUnlimited without a quota.
std::int64_t cpus_in(std::string_view quota, std::string_view period) {
  const std::int64_t q = limit_in(quota);
  const std::int64_t p = limit_in(period);
  if (q >= kUnlimited || p >= kUnlimited) return kUnlimited;
  return q / p + (q % p > 0 ? 1 : 0);
}

// One limit of the group whose files lie in a folder, as v1 and v2 write it.
using LimitOf = std::int64_t (*)(const std::string& folder);

std::int64_t memory_v1(const std::string& folder) {
  return limit_in(line_of(folder + "/memory.limit_in_bytes"));
}

std::int64_t memory_v2(const std::string& folder) {
  return limit_in(line_of(folder + "/memory.max"));
}

std::int64_t cpus_v1(const std::string& folder) {
  return cpus_in(line_of(folder + "/cpu.cfs_quota_us"),
                 line_of(folder + "/cpu.cfs_period_us"));
}

std::int64_t cpus_v2(const std::string& folder) {  // "max 100000"
  const std::string line = line_of(folder + "/cpu.max");
  const auto space = std::min(line.find(' '), line.size());
  return cpus_in(line.substr(0, space), line.substr(space).erase(0, 1));
}

// Returns the smallest limit of a group and all its parents. A container often
// sees the path of its group on the host, but its own files at the top; missing
// files are skipped.
std::int64_t least_above(const std::string& mount, std::string group,
                         LimitOf limit_of) {
  std::int64_t least = kUnlimited;
  for (;;) {
    while (!group.empty() && group.back() == '/') group.pop_back();
    least = std::min(least, limit_of(mount + group));
    if (group.empty()) return least;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

// Returns the smallest limit of a controller, or 0 if there is none.
std::int64_t least_limit(const std::string& root, const std::string& controller,
                         LimitOf v1, LimitOf v2) {
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
      least = std::min(least, least_above(mount, group, v2));
    } else if (("," + names + ",").find("," + controller + ",") !=
               std::string::npos) {
      least = std::min(least, least_above(mount + "/" + controller, group, v1));
    }
  }
  return least < kUnlimited ? least : 0;
}

}  // namespace

std::int64_t cgroup_memory(const std::string& root) {
  return least_limit(root, "memory", memory_v1, memory_v2);
}

int usable_cpus(const std::string& root) {
  cpu_set_t set;
  CPU_ZERO(&set);
  int count = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    count = std::max(count, CPU_COUNT(&set));
  }
  const std::int64_t quota = least_limit(root, "cpu", cpus_v1, cpus_v2);
  return quota > 0 && quota < count ? static_cast<int>(quota) : count;
}

}  // namespace ea
