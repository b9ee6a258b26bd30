// The optimizer and clipping for Python.
#include <pybind11/stl.h>

#include "bindings/bind.h"
#include "optim/adamw.h"
#include "optim/clip.h"
#include "runtime/check.h"

namespace ea {

namespace {

using Release = py::call_guard<py::gil_scoped_release>;

void set_rates(AdamWOptimizer& self, const std::vector<double>& lrs,
               const std::vector<double>& decays) {
  EA_CHECK(lrs.size() == self.slots().size() &&
               decays.size() == self.slots().size(),
           "adamw", "{} rates and {} decays for {} parameters", lrs.size(),
           decays.size(), self.slots().size());
  for (std::size_t i = 0; i < lrs.size(); ++i) {
    self.slots()[i].lr = lrs[i];
    self.slots()[i].weight_decay = decays[i];
  }
}

py::list state(AdamWOptimizer& self) {
  self.make_state();
  py::list all;
  for (const AdamWOptimizer::Slot& slot : self.slots()) {
    py::dict d;
    d["exp_avg"] = Var(slot.exp_avg);
    d["exp_avg_sq"] = Var(slot.exp_avg_sq);
    if (slot.master.defined()) d["master"] = Var(slot.master);
    all.append(d);
  }
  return all;
}

}  // namespace

void bind_optim(py::module_& m) {
  py::class_<AdamWOptimizer>(m, "AdamW",
                             "AdamW with one rate and decay a parameter.")
      .def(py::init<std::vector<Var>, double, double, double>(),
           py::arg("params"), py::arg("beta1") = 0.9, py::arg("beta2") = 0.999,
           py::arg("eps") = 1e-8)
      .def("set_rates", &set_rates, py::arg("lrs"), py::arg("weight_decays"))
      .def("step", &AdamWOptimizer::step, py::arg("grad_scale") = 1.0,
           Release())
      .def("zero_grad", &AdamWOptimizer::zero_grad, Release())
      .def("state", &state,
           "Per parameter: exp_avg, exp_avg_sq and, for bfloat16, master; the "
           "tensors themselves, so that copy_() restores them.")
      .def_property("steps_done", &AdamWOptimizer::steps_done,
                    &AdamWOptimizer::set_steps_done);
  m.def("clip_grad_norm", &clip_grad_norm, py::arg("params"),
        py::arg("max_norm"), Release(),
        "Scales gradients to a global norm of at most max_norm; returns the "
        "norm before. Nothing changes when it is not finite.");
  m.def("global_grad_norm", &global_norm, py::arg("params"), Release(),
        "Returns the global norm of the gradients.");
}

}  // namespace ea
