// Threads, seeds, memory, kernels, and facts about this build.
#include <pybind11/stl.h>

#include <algorithm>

#include "bindings/arguments.h"
#include "bindings/bind.h"
#include "kernels/registry.h"
#include "runtime/cgroup.h"
#include "runtime/cpu_info.h"
#include "runtime/device.h"
#include "runtime/fast_paths.h"
#include "runtime/profiler.h"
#include "runtime/random.h"
#include "runtime/threads.h"

namespace ea {

std::string onednn_version();  // kernels/cpu/onednn/engine.cpp
std::string onednn_isa();

namespace {

AnyDict build_info() {
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

ListOf<py::str, py::str, py::int_> entries(const std::string& device) {
  const auto asked = parse_device(device);
  EA_CHECK_AS(ConfigError, asked.has_value(), "kernel_entries",
              "device is '{}', expected cpu or cuda", device);
  py::list all;
  for (const KernelEntry& e : kernel_entries()) {
    if (e.device != asked->type) continue;
    all.append(py::make_tuple(e.kernel, e.implementation, e.calls));
  }
  return all;
}

ListOf<py::str, py::int_, py::float_> profile() {
  py::list all;
  for (const ProfileEntry& e : profile_entries()) {
    all.append(py::make_tuple(e.name, e.calls, e.seconds));
  }
  return all;
}

RandomState random_state_of(const py::object& state) {
  const bool pair = py::isinstance<py::sequence>(state) &&
                    !py::isinstance<py::str>(state) && py::len(state) == 2;
  EA_CHECK_AS(ConfigError, pair, "set_rng_state",
              "expected the pair (seed, offset) of get_rng_state(), got {}",
              described(state));
  // Seeds and offsets use all 64 bits, so Whole cannot read them.
  const auto number = [&](int i) {
    const py::object one = state[py::int_(i)];
    const auto value = PyLong_Check(one.ptr()) != 0
                           ? PyLong_AsUnsignedLongLong(one.ptr())
                           : static_cast<unsigned long long>(-1);
    if (PyErr_Occurred() != nullptr)
      PyErr_Clear();
    else if (PyLong_Check(one.ptr()) != 0)
      return std::uint64_t{value};
    fail<ConfigError>("set_rng_state",
                      "expected whole numbers from 0 to 2^64 - 1 as in "
                      "get_rng_state(), got {}",
                      described(one));
  };
  return {number(0), number(1)};
}

}  // namespace

void bind_runtime(py::module_& m) {
  m.def(
      "set_num_threads",
      [](Whole<"set_num_threads: count"> count) {
        const std::int64_t n =
            std::clamp<std::int64_t>(count.value, 0, 1 << 20);
        set_num_threads(static_cast<int>(n));
      },
      py::arg("count"), py::call_guard<ReleasedGil>(),
      "Sets how many threads the core uses (1 to 1024). Results do not "
      "depend on it.");
  m.def("get_num_threads", &num_threads,
        "Returns how many threads the core uses.");
  m.def("usable_cpus", &usable_cpus, py::arg("root") = "",
        "Returns how many CPUs this process may use: those of its affinity, "
        "and no more than the CPU quota of its container, read below "
        "root/sys/fs/cgroup. It is the default number of threads.");
  m.def(
      "manual_seed",
      [](Whole<"manual_seed: seed"> seed) {
        EA_CHECK_AS(ConfigError, seed.value >= 0, "manual_seed: seed",
                    "expected 0 or more, got {}", seed.value);
        manual_seed(static_cast<std::uint64_t>(seed.value));
      },
      py::arg("seed"), "Seeds dropout and initial values.");
  m.def(
      "get_rng_state",
      [] {
        const RandomState s = random_state();
        return py::make_tuple(s.seed, s.offset);
      },
      "Returns (seed, offset): the complete state of the generator.");
  m.def(
      "set_rng_state",
      [](const py::object& state) { set_random_state(random_state_of(state)); },
      py::arg("state"), "Restores what get_rng_state() returned.");
  m.def("build_info", &build_info,
        "Returns versions, instruction sets and threads of this build.");
  m.def("kernel_entries", &entries, py::arg("device") = "cpu",
        "Returns (kernel, implementation, calls so far) for a type of device, "
        "in order of preference.");
  m.def("force_kernel", &force_kernel, py::arg("kernel"),
        py::arg("implementation"),
        "Forces an implementation of a kernel ('*': of all that have it); an "
        "empty implementation lifts it.");
  (void)fast_paths();  // makes a wrong EA_DISABLE fail at import
  m.def(
      "fast_paths",
      []() -> DictOf<py::bool_> {
        py::dict all;
        for (const FastPathEntry& e : fast_paths()) all[e.name.c_str()] = e.on;
        return all;
      },
      "Returns which fast paths are on, by name.");
  m.def("set_fast_path", &set_fast_path, py::arg("name"), py::arg("on"),
        "Switches a fast path ('all': every one) on or off. Its fallback gives "
        "the same results within rounding.");
  m.def("set_profiling", &set_profiling, py::arg("on"),
        "Switches the timing of kernels on or off.");
  m.def("profile", &profile,
        "Returns (kernel, calls, seconds), longest first.");
  m.def("reset_profile", &reset_profile, "Discards the timings.");
}

}  // namespace ea
