// Reads whole numbers from Python objects and describes invalid ones.
#include "bindings/arguments.h"

namespace ea {

std::int64_t whole_number(const py::handle& object, const char* name) {
  const bool is_bool = PyBool_Check(object.ptr());
  const auto number = py::reinterpret_steal<py::object>(
      is_bool ? nullptr : PyNumber_Index(object.ptr()));
  if (!number && !is_bool) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) {
      throw py::error_already_set();
    }
    PyErr_Clear();
  }
  EA_CHECK_AS(ConfigError, number, name, "expected a whole number, got {}",
              described(object));
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  EA_CHECK_AS(ConfigError, overflow == 0, name,
              "expected a whole number of 64 bits, got {}", described(object));
  return value;
}

std::string described(const py::handle& object) {
  if (object.is_none()) return "None";
  const std::string type =
      py::str(py::type::handle_of(object).attr("__name__"));
  std::string text = py::repr(object);
  if (text.empty() || text.front() == '<') return "a " + type;
  constexpr std::size_t kLongest = 60;
  if (text.size() > kLongest) {
    std::size_t end = kLongest;  // not inside a UTF-8 character
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
      --end;
    }
    text = text.substr(0, end) + "…";
  }
  return "a " + type + " " + text;
}

}  // namespace ea
