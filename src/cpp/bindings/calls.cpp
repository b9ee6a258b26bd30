// Errors of calls whose arguments fit no overload. pybind11 would print its
// signatures and every value; told() in evolving_attention/calls.py shortens
// that.
#include <cstddef>
#include <string>

#include "bindings/bind.h"

namespace ea {

namespace {

using Dispatcher = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t,
                                 PyObject*);

constexpr const char* kModule = "evolving_attention._core";

Dispatcher pybind_dispatcher = nullptr;  // of all functions of the module

// Shortens the text of the current TypeError if no overload fitted.
void shorten(PyObject* const* args, Py_ssize_t count, PyObject* names) {
  py::error_already_set error;
  // An error that Python code raised within the call has a traceback: keep it.
  const py::str text = error.trace() ? py::str() : py::str(error.value());
  if (!text.contains("(): incompatible ")) {
    error.restore();
    return;
  }
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  py::list given;
  for (Py_ssize_t i = 0; i < count + named; ++i) {
    py::str type = py::type::handle_of(args[i]).attr("__name__");
    if (i >= count) {
      type = py::str("{}={}").format(
          py::handle(PyTuple_GET_ITEM(names, i - count)), type);
    }
    given.append(type);
  }
  const py::object told =
      py::module_::import("evolving_attention.calls").attr("told")(text, given);
  PyErr_SetObject(PyExc_TypeError, told.ptr());
}

PyObject* call(PyObject* self, PyObject* const* args, Py_ssize_t count,
               PyObject* names) {
  PyObject* result = pybind_dispatcher(self, args, count, names);
  if (result == nullptr && PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
    try {
      shorten(args, PyVectorcall_NARGS(static_cast<std::size_t>(count)), names);
    } catch (py::error_already_set& error) {
      error.restore();
    }
  }
  return result;
}

PyMethodDef* definition_of(const py::handle& function) {
  return reinterpret_cast<PyCFunctionObject*>(function.ptr())->m_ml;
}

Dispatcher dispatcher_of(const PyMethodDef& definition) {
  return reinterpret_cast<Dispatcher>(
      reinterpret_cast<void (*)()>(definition.ml_meth));
}

void tell_calls_within(const py::handle& scope) {
  for (const py::handle entry :
       py::list(scope.attr("__dict__").attr("values")())) {
    py::handle function = entry;
    if (PyInstanceMethod_Check(entry.ptr())) {
      function = PyInstanceMethod_GET_FUNCTION(entry.ptr());
    } else if (Py_IS_TYPE(entry.ptr(), &PyStaticMethod_Type)) {
      function = entry.attr("__func__");  // the entry keeps it alive
    }
    if (PyType_Check(entry.ptr()) &&
        entry.attr("__module__").cast<std::string>() == kModule) {
      tell_calls_within(entry);
    } else if (PyCFunction_CheckExact(function.ptr())) {
      PyMethodDef* const definition = definition_of(function);
      if (dispatcher_of(*definition) == pybind_dispatcher) {
        definition->ml_meth =
            reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call));
      }
    }
  }
}

}  // namespace

void tell_wrong_calls(py::module_& m) {
  const py::cpp_function any([] {});
  const PyMethodDef& definition = *definition_of(any);
  // Other versions of pybind11 may define functions in another form: keep them.
  if (definition.ml_flags != (METH_FASTCALL | METH_KEYWORDS)) return;
  pybind_dispatcher = dispatcher_of(definition);
  tell_calls_within(m);
}

}  // namespace ea
