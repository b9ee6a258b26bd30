// Sizes and names of element types.
#include "runtime/dtype.h"

#include <array>
#include <ostream>

namespace ea {

namespace {

struct Entry {
  DType dtype;
  std::size_t size;
  std::string_view name;
};

constexpr std::array<Entry, 7> kEntries{{
    {DType::f32, 4, "float32"},
    {DType::bf16, 2, "bfloat16"},
    {DType::f64, 8, "float64"},
    {DType::i64, 8, "int64"},
    {DType::i32, 4, "int32"},
    {DType::u8, 1, "uint8"},
    {DType::boolean, 1, "bool"},
}};

const Entry& entry(DType dtype) {
  return kEntries[static_cast<std::size_t>(dtype)];
}

}  // namespace

std::size_t size_of(DType dtype) { return entry(dtype).size; }

std::string_view name_of(DType dtype) { return entry(dtype).name; }

std::optional<DType> find_dtype(std::string_view name) {
  for (const Entry& e : kEntries) {
    if (e.name == name) return e.dtype;
  }
  return {};
}

DType parse_dtype(std::string_view name) {
  const std::optional<DType> found = find_dtype(name);
  EA_CHECK_AS(DTypeError, found, "dtype",
              "unknown element type '{}'; expected one of {}", name,
              kDTypeNames);
  return *found;
}

std::ostream& operator<<(std::ostream& out, DType dtype) {
  return out << name_of(dtype);
}

}  // namespace ea
