// Threads, seeds, memory, kernels and facts about this build.
#include <pybind11/stl.h>

#include "bindings/bind.h"
#include "kernels/registry.h"
#include "runtime/allocator.h"
#include "runtime/cpu_info.h"
#include "runtime/profiler.h"
#include "runtime/random.h"
#include "runtime/threads.h"

namespace ea {

std::string onednn_version();  // kernels/cpu/onednn/engine.cpp
std::string onednn_isa();

namespace {

py::dict build_info() {
  py::dict info;
  info["compiler"] = "gcc " __VERSION__;
  info["onednn_version"] = onednn_version();
  info["onednn_isa"] = onednn_isa();
  info["cpu_name"] = cpu_name();
  info["isa_found"] = name_of(isa_found());
  info["isa_used"] = name_of(isa_used());
  info["avx512_bf16"] = has_avx512_bf16();
  info["amx_bf16"] = has_amx_bf16();
  info["num_threads"] = num_threads();
  return info;
}

py::list entries() {
  py::list all;
  for (const KernelEntry& e : kernel_entries()) {
    all.append(py::make_tuple(e.kernel, e.implementation, e.calls));
  }
  return all;
}

py::list profile() {
  py::list all;
  for (const ProfileEntry& e : profile_entries()) {
    all.append(py::make_tuple(e.name, e.calls, e.seconds));
  }
  return all;
}

}  // namespace

void bind_runtime(py::module_& m) {
  m.def("set_num_threads", &set_num_threads, py::arg("count"),
        py::call_guard<py::gil_scoped_release>(),
        "Sets how many threads the core uses (1 to 1024). Results do not "
        "depend on it.");
  m.def("get_num_threads", &num_threads,
        "Returns how many threads the core uses.");
  m.def("manual_seed", &manual_seed, py::arg("seed"),
        "Seeds dropout and initial values.");
  m.def(
      "get_rng_state",
      [] {
        const RandomState s = random_state();
        return py::make_tuple(s.seed, s.offset);
      },
      "Returns (seed, offset): the complete state of the generator.");
  m.def(
      "set_rng_state",
      [](std::pair<std::uint64_t, std::uint64_t> s) {
        set_random_state({s.first, s.second});
      },
      py::arg("state"), "Restores what get_rng_state() returned.");
  m.def("build_info", &build_info,
        "Returns versions, instruction sets and threads of this build.");
  m.def("kernel_entries", &entries,
        "Returns (kernel, implementation, calls so far) in order of "
        "preference.");
  m.def("force_kernel", &force_kernel, py::arg("kernel"),
        py::arg("implementation"),
        "Forces an implementation of a kernel ('*': of all that have it); an "
        "empty implementation lifts it.");
  m.def(
      "current_memory", [] { return memory_statistics().current; },
      "Returns the bytes held by tensors.");
  m.def(
      "peak_memory", [] { return memory_statistics().peak; },
      "Returns the most bytes held since reset_peak_memory().");
  m.def("reset_peak_memory", &reset_peak_memory,
        "Starts the count of peak_memory() anew.");
  m.def("set_memory_limit", &set_memory_limit, py::arg("bytes"),
        "Refuses allocations beyond so many bytes (0: no limit).");
  m.def("release_cached_memory", &release_cached_memory,
        "Gives freed blocks that were kept for reuse back to the system.");
  m.def("set_profiling", &set_profiling, py::arg("on"),
        "Switches the timing of kernels on or off.");
  m.def("profile", &profile,
        "Returns (kernel, calls, seconds), longest first.");
  m.def("reset_profile", &reset_profile, "Forgets the timings.");
}

}  // namespace ea
