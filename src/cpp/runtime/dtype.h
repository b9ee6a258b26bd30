// Element types, and the dispatch from a run-time type to a C++ type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/bfloat16.h"
#include "runtime/check.h"

namespace ea {

enum class DType : std::uint8_t { f32, bf16, f64, i64, i32, u8, boolean };
inline constexpr std::array kDTypes{DType::f32,    DType::bf16, DType::f64,
                                    DType::i64,    DType::i32,  DType::u8,
                                    DType::boolean};
inline constexpr std::string_view kDTypeNames =  // for messages
    "float32, bfloat16, float64, int64, int32, uint8, bool";

std::size_t size_of(DType dtype);
std::string_view name_of(DType dtype);  // NumPy's name, "float32"
std::optional<DType> find_dtype(std::string_view name);
DType parse_dtype(std::string_view name);  // throws DTypeError
inline bool is_floating(DType t) {
  return t == DType::f32 || t == DType::bf16 || t == DType::f64;
}
// A mask holds 0 and 1, or of uint8 anything for 1.
inline bool is_mask(DType t) { return t == DType::boolean || t == DType::u8; }
std::ostream& operator<<(std::ostream& out, DType dtype);

template <typename T>
struct TypeTag {
  using type = T;
};

// Statistics and sums of a bf16 or f32 kernel are float; f64 stays double.
template <typename T>
using Accumulator =
    std::conditional_t<std::is_same_v<T, double>, double, float>;
inline DType wide_type(DType t) {
  return t == DType::f64 ? DType::f64 : DType::f32;
}

// Calls fn(TypeTag<T>{}) with the C++ type of a floating dtype.
template <typename Fn>
decltype(auto) visit_floating(DType dtype, std::string_view op, Fn&& fn) {
  switch (dtype) {
    case DType::f32:
      return std::forward<Fn>(fn)(TypeTag<float>{});
    case DType::bf16:
      return std::forward<Fn>(fn)(TypeTag<bfloat16>{});
    case DType::f64:
      return std::forward<Fn>(fn)(TypeTag<double>{});
    default:
      fail<DTypeError>(op, "expected float32, bfloat16 or float64, got {}",
                       dtype);
  }
}

// Calls fn(TypeTag<T>{}) with the C++ type of any dtype.
template <typename Fn>
decltype(auto) visit_dtype(DType dtype, std::string_view op, Fn&& fn) {
  switch (dtype) {
    case DType::i64:
      return std::forward<Fn>(fn)(TypeTag<std::int64_t>{});
    case DType::i32:
      return std::forward<Fn>(fn)(TypeTag<std::int32_t>{});
    case DType::u8:
      return std::forward<Fn>(fn)(TypeTag<std::uint8_t>{});
    case DType::boolean:
      return std::forward<Fn>(fn)(TypeTag<bool>{});
    default:
      return visit_floating(dtype, op, std::forward<Fn>(fn));
  }
}

// The dtype of a CUDA kernel's elements.
template <typename T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<bfloat16>() {
  return DType::bf16;
}

}  // namespace ea
