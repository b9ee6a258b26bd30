// Whole numbers as arguments; errors give the argument's name and the type
// found.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "bindings/bind.h"
#include "runtime/check.h"

namespace ea {

// Text as a template argument: "function: argument".
template <std::size_t N>
struct ArgumentName {
  char text[N];
  constexpr ArgumentName(const char (&from)[N]) { std::copy_n(from, N, text); }
};

// A whole-number argument; for wrong types pybind11 itself would print a list
// of C++ signatures.
template <ArgumentName Name>
struct Whole {
  std::int64_t value = 0;
};

// Reads an int, or anything with __index__. Throws a ConfigError with `name`
// for other objects, including bools, and for values beyond int64.
std::int64_t whole_number(const py::handle& object, const char* name);

// Describes an object for messages: "a str 'x'", "a float 2.5", "None".
std::string described(const py::handle& object);

}  // namespace ea

namespace pybind11::detail {

template <ea::ArgumentName Name>
struct type_caster<ea::Whole<Name>> {
  PYBIND11_TYPE_CASTER(ea::Whole<Name>, const_name("int"));

  bool load(handle source, bool) {
    value.value = ea::whole_number(source, Name.text);
    return true;
  }
};

}  // namespace pybind11::detail
