// C++ exceptions become the Python classes of the same name.
#include <new>

#include "bindings/bind.h"
#include "runtime/error.h"

namespace ea {

namespace {

void raise(const char* name, const char* message) {
  const py::object type =
      py::module_::import("evolving_attention.errors").attr(name);
  PyErr_SetString(type.ptr(), message);
}

void translate(std::exception_ptr pointer) {
  if (!pointer) return;
  try {
    std::rethrow_exception(pointer);
  } catch (const ShapeError& e) {
    raise("ShapeError", e.what());
  } catch (const DTypeError& e) {
    raise("DTypeError", e.what());
  } catch (const DeviceError& e) {
    raise("DeviceError", e.what());
  } catch (const InputError& e) {
    raise("InputError", e.what());
  } catch (const ConfigError& e) {
    raise("ConfigError", e.what());
  } catch (const BackendUnavailable& e) {
    raise("BackendUnavailable", e.what());
  } catch (const KernelNotFound& e) {
    raise("KernelNotFound", e.what());
  } catch (const OutOfMemory& e) {
    raise("OutOfMemory", e.what());
  } catch (const Error& e) {
    raise("Error", e.what());
  } catch (const std::bad_alloc&) {
    raise("OutOfMemory", "[allocate] the system has no memory left");
  }
}

}  // namespace

void raise_from_import() {
  try {
    translate(std::current_exception());
  } catch (py::error_already_set& e) {
    e.restore();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_ImportError, e.what());
  }
}

void bind_errors(py::module_& m) {
  (void)m;
  py::register_exception_translator(&translate);
}

}  // namespace ea
