// The extension module evolving_attention._core: registers backends and parts.
#include "bindings/bind.h"
#include "kernels/backends.h"

PYBIND11_MODULE(_core, m) {
  m.doc() = "C++ core of evolving_attention: tensors, autograd, models.";
  ea::bind_errors(m);
  ea::register_all_backends();
  ea::bind_runtime(m);
  ea::bind_tensor(m);
  ea::bind_ops(m);
  ea::bind_attention(m);
  ea::bind_models(m);
  ea::bind_optim(m);
}
