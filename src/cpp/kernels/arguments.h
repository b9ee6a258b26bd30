// The device of a kernel's arguments, found in the fields of its Args:
// contracts stay plain structs, and none can forget to name a tensor.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor/tensor_view.h"

namespace ea::detail {

// Stands for a value of any type where fields are counted.
struct AnyField {
  template <typename T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

// How many fields the aggregate T has: the longest list that initialises it.
inline constexpr std::size_t kMostFields = 16;

template <typename T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyField{})...}; };
}

template <typename T, std::size_t N = kMostFields + 1>
constexpr std::size_t field_count() {
  if constexpr (takes<T>(std::make_index_sequence<N>())) {
    return N;
  } else {
    return field_count<T, N - 1>();
  }
}

// fn(field) for each field of an aggregate, in their order.
template <typename T, typename Fn>
void for_each_field(const T& args, const Fn& fn) {
  constexpr std::size_t n = field_count<T>();
  static_assert(n >= 1 && n <= kMostFields, "add a line for so many fields");
  const auto each = [&fn](const auto&... field) { (fn(field), ...); };
  if constexpr (n == 1) {
    const auto& [a] = args;
    each(a);
  } else if constexpr (n == 2) {
    const auto& [a, b] = args;
    each(a, b);
  } else if constexpr (n == 3) {
    const auto& [a, b, c] = args;
    each(a, b, c);
  } else if constexpr (n == 4) {
    const auto& [a, b, c, d] = args;
    each(a, b, c, d);
  } else if constexpr (n == 5) {
    const auto& [a, b, c, d, e] = args;
    each(a, b, c, d, e);
  } else if constexpr (n == 6) {
    const auto& [a, b, c, d, e, f] = args;
    each(a, b, c, d, e, f);
  } else if constexpr (n == 7) {
    const auto& [a, b, c, d, e, f, g] = args;
    each(a, b, c, d, e, f, g);
  } else if constexpr (n == 8) {
    const auto& [a, b, c, d, e, f, g, h] = args;
    each(a, b, c, d, e, f, g, h);
  } else if constexpr (n == 9) {
    const auto& [a, b, c, d, e, f, g, h, i] = args;
    each(a, b, c, d, e, f, g, h, i);
  } else if constexpr (n == 10) {
    const auto& [a, b, c, d, e, f, g, h, i, j] = args;
    each(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (n == 11) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k] = args;
    each(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (n == 12) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = args;
    each(a, b, c, d, e, f, g, h, i, j, k, l);
  } else if constexpr (n == 13) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = args;
    each(a, b, c, d, e, f, g, h, i, j, k, l, m);
  } else if constexpr (n == 14) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = args;
    each(a, b, c, d, e, f, g, h, i, j, k, l, m, n);
  } else if constexpr (n == 15) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = args;
    each(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
  } else if constexpr (n == 16) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = args;
    each(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
  }
}

// Where the tensors of a kernel call lie, and whether that is one place.
struct Places {
  Device first = kCpu;
  Device other = kCpu;  // differs from `first` iff `mixed`
  bool any = false, mixed = false;

  void add(Device device) {
    if (!any) {
      any = true;
      first = device;
    } else if (!mixed && !(device == first)) {
      mixed = true;
      other = device;
    }
  }
};

template <typename Field>
void find_places(const Field& field, Places& places) {
  if constexpr (std::is_same_v<Field, TensorView>) {
    if (field.defined()) places.add(field.device);
  } else if constexpr (std::is_class_v<Field>) {
    for_each_field(field, [&](const auto& one) { find_places(one, places); });
  }
}

// Lists of tensors are given by pointers.
template <typename Item>
void find_places(const std::vector<Item>* const& list, Places& places) {
  for (const Item& item : *list) find_places(item, places);
}

}  // namespace ea::detail
