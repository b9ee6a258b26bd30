// The optimizers and clipping for Python.
#include "optim/adamw.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <optional>
#include <string>

#include "bindings/numpy.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/radam.h"
#include "optim/sgd.h"
#include "optim/step_log.h"
#include "runtime/check.h"

namespace ea {

namespace {

using Release = py::call_guard<ReleasedGil>;
using Params = std::vector<Var>;

AnyDict state_dict(MomentOptimizer& self) {
  py::dict state;
  state["step"] = self.steps_done();
  const auto& slots = self.slots();
  if (std::any_of(slots.begin(), slots.end(),
                  [](const auto& slot) { return slot.missed > 0; })) {
    const auto count = static_cast<std::int64_t>(slots.size());
    const Tensor missed = empty({count}, DType::i64);
    std::transform(slots.begin(), slots.end(), missed.data<std::int64_t>(),
                   [](const auto& slot) { return slot.missed; });
    state["missed"] = Var(missed);
  }
  for (const auto& [name, tensor] : self.state()) {
    state[py::str(name)] = Var(tensor);
  }
  return state;
}

void load_state_dict(MomentOptimizer& self, const AnyDict& state) {
  const char* name = self.name();
  EA_CHECK_AS(InputError, state.contains("step"), name,
              "the saved state has no 'step'");
  for (const auto& [own, tensor] : self.state()) {
    EA_CHECK_AS(InputError, state.contains(own.c_str()), name,
                "the saved state has no '{}'", own);
    copy_into(from_python(state[own.c_str()], tensor.dtype()), tensor);
  }
  self.set_steps_done(state["step"].cast<std::int64_t>());
  Tensor missed;  // absent in older states: every step counts
  if (state.contains("missed")) {
    missed = contiguous(from_python(state["missed"], DType::i64));
  }
  std::size_t i = 0;
  for (MomentOptimizer::Slot& slot : self.slots()) {
    slot.missed = missed.defined() ? missed.data<std::int64_t>()[i++] : 0;
  }
}

void bind_step_log(py::module_& m) {
  py::class_<StepLog>(m, "StepLog",
                      "Losses and gradient norms of steps, kept on the device "
                      "until look().")
      .def(py::init<>())
      .def(
          "add_loss",
          [](StepLog& self, const Var& loss, double share) {
            self.add_loss(loss.data(), share);
          },
          py::arg("loss"), py::arg("share"), Release(),
          "Adds share times the loss to the current step.")
      .def("restart_step", &StepLog::restart_step, Release(),
           "Discards the losses of the current step.")
      .def(
          "finish",
          [](StepLog& self, const std::vector<Var>& params, double max_norm) {
            return Var(self.finish(params, max_norm));
          },
          py::arg("params"), py::arg("max_norm"), Release(),
          "Ends the step: returns the factor, one number on the device, that "
          "clips its gradients to max_norm (0: not at all); NaN from a step "
          "that is not finite until the next look().")
      .def_property_readonly("steps", &StepLog::steps)
      .def_property_readonly_static(
          "capacity", [](const py::object&) { return StepLog::kRows; })
      .def(
          "look",
          [](StepLog& self) -> ListOf<py::float_, py::float_, py::bool_> {
            std::vector<StepLog::Row> rows;
            {
              const ReleasedGil release;
              rows = self.look();
            }
            py::list all;
            for (const StepLog::Row& row : rows) {
              all.append(py::make_tuple(row.loss, row.norm, row.applied));
            }
            return all;
          },
          "Synchronises with the device; returns (loss, gradient norm, "
          "applied) of each step since the last look.");
}

}  // namespace

void bind_optim(py::module_& m) {
  py::class_<MomentOptimizer>(
      m, "MomentOptimizer",
      "Base of the optimizers: one rate and decay per parameter, at first 0.")
      .def("set_rates", &MomentOptimizer::set_rates, py::arg("begin"),
           py::arg("end"), py::arg("lr"), py::arg("weight_decay"),
           "Sets the rate and decay of parameters begin up to end.")
      .def(
          "step",
          [](MomentOptimizer& self, double grad_scale,
             const std::optional<Var>& scale) {
            self.step(grad_scale, scale ? scale->data() : Tensor());
          },
          py::arg("grad_scale") = 1.0, py::arg("scale") = py::none(), Release())
      .def(
          "state_dict", &state_dict,
          "step, and per parameter i that is not frozen its moments (exp_avg.i "
          "and exp_avg_sq.i, or SGD's momentum_buffer.i) and, for bfloat16, "
          "master.i: the tensors themselves.")
      .def("load_state_dict", &load_state_dict, py::arg("state"));
  py::class_<PlainAdamOptimizer, MomentOptimizer>(m, "Adam").def(
      py::init<Params, double, double, double>(), py::arg("params"),
      py::arg("beta1"), py::arg("beta2"), py::arg("eps"));
  py::class_<AdamWOptimizer, MomentOptimizer>(m, "AdamW")
      .def(py::init<Params, double, double, double>(), py::arg("params"),
           py::arg("beta1"), py::arg("beta2"), py::arg("eps"));
  py::class_<RAdamOptimizer, MomentOptimizer>(m, "RAdam")
      .def(py::init<Params, double, double, double, bool>(), py::arg("params"),
           py::arg("beta1"), py::arg("beta2"), py::arg("eps"),
           py::arg("decoupled"));
  py::class_<SGDOptimizer, MomentOptimizer>(m, "SGD").def(
      py::init<Params, double, bool, bool>(), py::arg("params"),
      py::arg("momentum"), py::arg("nesterov"), py::arg("decoupled"));
  bind_step_log(m);
  m.def("clip_grad_norm", &clip_grad_norm, py::arg("params"),
        py::arg("max_norm"), Release(),
        "Scales gradients to a global norm of at most max_norm; returns the "
        "norm before. Nothing changes when it is not finite.");
  m.def("global_grad_norm", &global_norm, py::arg("params"), Release(),
        "Returns the global norm of the gradients.");
}

}  // namespace ea
