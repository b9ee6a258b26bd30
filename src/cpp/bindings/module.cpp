// The extension module evolving_attention._core: registers backends and parts.
#include "bindings/bind.h"
#include "kernels/backends.h"

// pybind11 would turn any error here into an ImportError. A bad EA_* variable
// must be a ConfigError at import as elsewhere.
#undef PYBIND11_CATCH_INIT_EXCEPTIONS
#define PYBIND11_CATCH_INIT_EXCEPTIONS \
  catch (...) {                        \
    ea::raise_from_import();           \
  }

PYBIND11_MODULE(_core, m) {
  m.doc() = "C++ core of evolving_attention: tensors, autograd, models.";
  ea::bind_errors(m);
  ea::register_all_backends();
  ea::bind_runtime(m);
  ea::bind_devices(m);
  ea::bind_tensor(m);
  ea::bind_ops(m);
  ea::bind_attention(m);
  ea::bind_modules(m);
  ea::bind_attention_layer(m);
  ea::bind_models(m);
  ea::bind_generation(m);
  ea::bind_optim(m);
  ea::bind_communicator(m);
  ea::tell_wrong_calls(m);
}
