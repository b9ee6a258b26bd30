// Gradients of Python's Tensor.
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <unordered_map>

#include "autograd/engine.h"
#include "bindings/numpy.h"
#include "bindings/tensor.h"
#include "bindings/tensor_docs.h"
#include "runtime/check.h"

namespace ea {

namespace {

// Returns a callback that calls on_complete(i) for leaves[i] while it holds the
// GIL.
Complete told(const std::vector<Var>& leaves, const py::object& on_complete) {
  if (on_complete.is_none()) return {};
  std::unordered_map<const Var::Impl*, std::size_t> places;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    places[leaves[i].impl().get()] = i;
  }
  return [places = std::move(places), &on_complete](const Var::Impl& leaf) {
    const auto it = places.find(&leaf);
    if (it == places.end()) return;
    const HeldGil lock;
    on_complete(it->second);
  };
}

void run_backward(const Var& self, const std::optional<Var>& gradient,
                  const std::vector<Var>& leaves, const py::object& on_complete,
                  bool retain_graph, bool create_graph) {
  EA_CHECK_AS(InputError, !retain_graph, "backward",
              "retain_graph=True is not supported: a graph is freed as it is "
              "used; add the losses and call backward once, or run the forward "
              "pass again");
  EA_CHECK_AS(InputError, !create_graph, "backward",
              "create_graph=True is not supported: gradients of gradients are "
              "not computed; leave it out");
  const Complete complete = told(leaves, on_complete);
  const ReleasedGil release;
  backward(self, gradient ? gradient->data() : Tensor(), complete);
}

void set_gradient(const Var& self, const std::optional<Var>& grad) {
  if (!grad) return self.set_grad({});
  EA_CHECK(grad->shape() == self.shape() && grad->dtype() == self.dtype(),
           "grad", "gradient is {} {}, the tensor {} {}", grad->dtype(),
           grad->shape(), self.dtype(), self.shape());
  EA_CHECK_AS(DeviceError, grad->device() == self.device(), "grad",
              "gradient is on {}, the tensor on {}; use .to(device)",
              grad->device(), self.device());
  self.set_grad(contiguous(grad->data()));
}

std::optional<std::pair<Var, Var>> row_gradient(const Var& self) {
  const RowGradient& rows = self.row_grad();
  if (!rows.defined()) return {};
  return std::pair(Var(rows.ids), Var(rows.rows));
}

void check_rows(const Var& self, const Tensor& ids, const Tensor& rows) {
  const bool fits = self.rank() == 2 && ids.rank() == 1 && rows.rank() == 2 &&
                    rows.dim(0) == ids.dim(0) && rows.dim(1) == self.dim(1) &&
                    ids.dim(0) > 0;
  EA_CHECK(fits, "add_row_grad",
           "ids {} and rows {} for a tensor {}; expected ids [k] and rows "
           "[k, width] for a table [n, width], k > 0",
           ids.shape(), rows.shape(), self.shape());
  EA_CHECK_AS(DTypeError,
              ids.dtype() == DType::i64 && rows.dtype() == self.dtype(),
              "add_row_grad", "ids are {} and rows {}, expected int64 and {}",
              ids.dtype(), rows.dtype(), self.dtype());
  EA_CHECK_AS(
      DeviceError, ids.device().is_cpu() && rows.device() == self.device(),
      "add_row_grad", "ids are on {} and rows on {}, expected cpu and {}",
      ids.device(), rows.device(), self.device());
  const auto* id = ids.data<std::int64_t>();
  for (std::int64_t i = 0; i < ids.numel(); ++i) {
    const bool rises = id[i] > (i > 0 ? id[i - 1] : -1);
    EA_CHECK_AS(InputError, rises && id[i] < self.dim(0), "add_row_grad",
                "ids[{}] = {}; expected increasing ids from 0 to {}", i, id[i],
                self.dim(0) - 1);
  }
}

// Clones both, because the caller keeps its own.
void add_row_gradient(const Var& self, const Var& ids, const Var& rows) {
  const Tensor i = contiguous(ids.data()), r = contiguous(rows.data());
  check_rows(self, i, r);
  accumulate_rows(*self.impl(), {clone(i), clone(r)});
}

void retain_grad(const Var& self) {
  EA_CHECK_AS(InputError, self.requires_grad(), "retain_grad",
              "the tensor does not require a gradient: nothing it was made of "
              "has requires_grad=True, or it was made inside no_grad()");
  retain_gradient(self, self, [](const Tensor& g) { return clone(g); });
}

void add_in_place(const Var& self, const Var& source) {
  EA_CHECK(self.shape() == source.shape() && self.dtype() == source.dtype() &&
               self.data().is_contiguous(),
           "add_",
           "{} {} += {} {}; expected contiguous values and one shape "
           "and dtype",
           self.dtype(), self.shape(), source.dtype(), source.shape());
  EA_CHECK_AS(DeviceError, source.device() == self.device(), "add_",
              "the source is on {}, the tensor on {}; use .to(device)",
              source.device(), self.device());
  accumulate(contiguous(source.data()), self.data());
  self.data().storage()->note_write();
}

}  // namespace

void bind_gradients(py::class_<Var>& c) {
  c.def_property(
       "grad",
       [](const Var& self) -> std::optional<Var> {
         if (!self.grad().defined()) return {};
         return Var(self.grad());
       },
       &set_gradient, docs::kGrad)
      .def_property_readonly(
          "is_table", [](const Var& self) { return self.impl()->is_table; },
          docs::kIsTable)
      .def_property_readonly("row_grad", &row_gradient, docs::kRowGrad)
      .def("add_row_grad", &add_row_gradient, py::arg("ids"), py::arg("rows"),
           py::call_guard<ReleasedGil>(), docs::kAddRowGrad)
      .def("retain_grad", &retain_grad, docs::kRetainGrad)
      .def_property_readonly(
          "retains_grad",
          [](const Var& self) { return self.impl()->retains_grad; },
          docs::kRetainsGrad)
      .def("_kept_bytes", &kept_bytes,
           "Bytes that backward() will read and then free.")
      .def("add_", &add_in_place, py::arg("source"),
           py::call_guard<ReleasedGil>(), docs::kAdd)
      .def("backward", &run_backward, py::arg("gradient") = py::none(),
           py::arg("leaves") = std::vector<Var>(),
           py::arg("on_complete") = py::none(), py::kw_only(),
           py::arg("retain_graph") = false, py::arg("create_graph") = false,
           docs::kBackward);
}

}  // namespace ea
