// EA_CHECK: rejects invalid arguments with messages of the form "[op] text".
#pragma once

#include <sstream>
#include <string>
#include <string_view>

#include "runtime/error.h"

namespace ea {

namespace detail {

inline void format_rest(std::ostringstream& out, std::string_view pattern) {
  out << pattern;
}

// Replaces each "{}" of `pattern` by the next value, left to right. libstdc++
// 12 has no <format>, and messages need no more than this.
template <typename First, typename... Rest>
void format_rest(std::ostringstream& out, std::string_view pattern,
                 const First& first, const Rest&... rest) {
  const auto at = pattern.find("{}");
  if (at == std::string_view::npos) {
    out << pattern;
    return;
  }
  out << pattern.substr(0, at) << first;
  format_rest(out, pattern.substr(at + 2), rest...);
}

}  // namespace detail

template <typename... Values>
std::string format(std::string_view pattern, const Values&... values) {
  std::ostringstream out;
  detail::format_rest(out, pattern, values...);
  return out.str();
}

template <typename E = ShapeError, typename... Values>
[[noreturn]] void fail(std::string_view op, std::string_view pattern,
                       const Values&... values) {
  throw E("[" + std::string(op) + "] " + format(pattern, values...));
}

}  // namespace ea

// Throws ShapeError "[op] text" unless the condition holds.
#define EA_CHECK(condition, op, ...)                   \
  do {                                                 \
    if (!(condition)) [[unlikely]]                     \
      ::ea::fail<::ea::ShapeError>((op), __VA_ARGS__); \
  } while (false)

// EA_CHECK that throws `Class`, another class of the error tree.
#define EA_CHECK_AS(Class, condition, op, ...)    \
  do {                                            \
    if (!(condition)) [[unlikely]]                \
      ::ea::fail<::ea::Class>((op), __VA_ARGS__); \
  } while (false)
