// The memory and CPUs that this process may use: the limits of its control
// group, which is its container, batch job or service.
#pragma once

#include <cstdint>
#include <string>

namespace ea {

// Returns the smallest limit of the group and its parents in bytes, or 0 if
// there is none. Reads cgroup v2 (memory.max) and v1 (memory.limit_in_bytes)
// below `root`/sys/fs/cgroup, for the group in `root`/proc/self/cgroup.
std::int64_t cgroup_memory(const std::string& root = "");
// Returns how many CPUs this process may use: those of its affinity, and no
// more than the smallest CPU quota of the group and its parents, rounded up:
// cpu.max (v2), or cpu.cfs_quota_us / cpu.cfs_period_us (v1).
int usable_cpus(const std::string& root = "");

}  // namespace ea
