// The memory that the control group of this process may use: the limit of its
// container, batch job or service.
#pragma once

#include <cstdint>
#include <string>

namespace ea {

// Returns the smallest limit of the group and its parents in bytes, or 0 if
// there is none. Reads cgroup v2 (memory.max) and v1 (memory.limit_in_bytes)
// below `root`/sys/fs/cgroup, for the group in `root`/proc/self/cgroup.
std::int64_t cgroup_memory(const std::string& root = "");

}  // namespace ea
