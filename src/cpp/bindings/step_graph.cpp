// A device's work that is written down once and started again as a whole.
#include <cstdint>
#include <memory>

#include "bindings/arguments.h"
#include "bindings/devices.h"
#include "runtime/check.h"
#include "runtime/device_backend.h"

namespace ea {

namespace {

using Release = py::call_guard<py::gil_scoped_release>;

class StepGraph {
 public:
  explicit StepGraph(Device device) : device_(device) {}
  ~StepGraph() { cancel(); }
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  void measure() {
    backend().measure(device_.index);
    doing_ = Doing::measure;
  }
  std::size_t measured() {
    check_doing(Doing::measure, "measure() comes before measured()");
    doing_ = Doing::nothing;
    return backend().measured(device_.index);
  }
  void record(std::size_t bytes) {
    backend().record(device_.index, bytes);
    doing_ = Doing::record;
    work_.reset();
    bytes_ = bytes;
  }
  void recorded() {
    check_doing(Doing::record, "record() comes before recorded()");
    doing_ = Doing::nothing;
    work_ = backend().recorded(device_.index);
  }
  void cancel() noexcept {
    if (doing_ == Doing::nothing) return;
    doing_ = Doing::nothing;
    device_backend(device_).cancel_recording(device_.index);
  }
  void start() {
    EA_CHECK_AS(ConfigError, work_ != nullptr, "StepGraph",
                "nothing is recorded yet: record(), the work, recorded(), and "
                "only then start()");
    work_->start();
  }
  Device device() const { return device_; }
  std::size_t bytes() const { return work_ == nullptr ? 0 : bytes_; }

 private:
  enum class Doing : std::uint8_t { nothing, measure, record };
  void check_doing(Doing expected, const char* order) const {
    EA_CHECK_AS(ConfigError, doing_ == expected, "StepGraph", "{}", order);
  }
  DeviceBackend& backend() const { return device_backend(device_); }

  Device device_;
  Doing doing_ = Doing::nothing;
  std::size_t bytes_ = 0;
  std::unique_ptr<RecordedWork> work_;
};

}  // namespace

void bind_step_graph(py::module_& m) {
  py::class_<StepGraph>(
      m, "StepGraph",
      "Work of a device that is written down once and started again as a "
      "whole, on whatever its tensors hold then. All calls that measure and "
      "record come from the thread that does the work.")
      .def(py::init([](const py::object& device) {
             return std::make_unique<StepGraph>(device_of_python(device));
           }),
           py::arg("device"))
      .def("measure", &StepGraph::measure, Release(),
           "Counts what memory this thread's work takes from now on. Raises "
           "BackendUnavailable where a device cannot record work.")
      .def("measured", &StepGraph::measured, Release(),
           "Ends that; returns the bytes that record() needs for the same "
           "work.")
      .def(
          "record",
          [](StepGraph& self, Whole<"StepGraph.record: bytes"> bytes) {
            EA_CHECK_AS(ConfigError, bytes.value >= 0,
                        "StepGraph.record: bytes", "expected 0 or more, got {}",
                        bytes.value);
            const py::gil_scoped_release release;
            self.record(static_cast<std::size_t>(bytes.value));
          },
          py::arg("bytes"),
          "This thread's work is from now on not done but written down; its "
          "memory is `bytes` that the recording keeps. Copies from the host or "
          "to it, waiting, and more memory raise DeviceError.")
      .def("recorded", &StepGraph::recorded, Release(),
           "Ends that. Raises DeviceError where something cannot be recorded, "
           "or tensors of the recording are still held.")
      .def("start", &StepGraph::start, Release(),
           "Does the work once more, in the device's order, and returns at "
           "once. Raises ConfigError before recorded().")
      .def("cancel", &StepGraph::cancel, Release(),
           "Ends measuring or recording, if it is under way: after an "
           "exception.")
      .def_property_readonly(
          "device",
          [](const StepGraph& self) { return name_of(self.device()); })
      .def_property_readonly("bytes", &StepGraph::bytes,
                             "Bytes of memory that what is recorded keeps, "
                             "which recordings of a device share; 0 before.");
}

}  // namespace ea
