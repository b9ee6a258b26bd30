// Finds the device and the dtypes of a kernel's arguments by visiting the
// fields of its Args. Contracts stay plain structs, and no tensor can be
// missed.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor/tensor_view.h"

namespace ea::detail {

// Converts to any type; used to count fields.
struct AnyField {
  template <typename T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

// Largest number of fields that for_each_field() supports.
inline constexpr std::size_t kMostFields = 16;

template <typename T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyField{})...}; };
}

// Returns the number of fields of the aggregate T: the length of the longest
// list that initialises it.
template <typename T, std::size_t N = kMostFields + 1>
constexpr std::size_t field_count() {
  if constexpr (takes<T>(std::make_index_sequence<N>())) {
    return N;
  } else {
    return field_count<T, N - 1>();
  }
}

// Calls fn(field) for each field of an aggregate, in order.
template <typename T, typename Fn>
void for_each_field(T& args, const Fn& fn) {
  constexpr std::size_t n = field_count<std::remove_const_t<T>>();
  static_assert(n >= 1 && n <= kMostFields, "add a line for so many fields");
  const auto each = [&fn](auto&... field) { (fn(field), ...); };
  if constexpr (n == 1) {
    auto& [a] = args;
    each(a);
  } else if constexpr (n == 2) {
    auto& [a, b] = args;
    each(a, b);
  } else if constexpr (n == 3) {
    auto& [a, b, c] = args;
    each(a, b, c);
  } else if constexpr (n == 4) {
    auto& [a, b, c, d] = args;
    each(a, b, c, d);
  } else if constexpr (n == 5) {
    auto& [a, b, c, d, e] = args;
    each(a, b, c, d, e);
  } else if constexpr (n == 6) {
    auto& [a, b, c, d, e, f] = args;
    each(a, b, c, d, e, f);
  } else if constexpr (n == 7) {
    auto& [a, b, c, d, e, f, g] = args;
    each(a, b, c, d, e, f, g);
  } else if constexpr (n == 8) {
    auto& [a, b, c, d, e, f, g, h] = args;
    each(a, b, c, d, e, f, g, h);
  } else if constexpr (n == 9) {
    auto& [a, b, c, d, e, f, g, h, i] = args;
    each(a, b, c, d, e, f, g, h, i);
  } else if constexpr (n == 10) {
    auto& [a, b, c, d, e, f, g, h, i, j] = args;
    each(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (n == 11) {
    auto& [a, b, c, d, e, f, g, h, i, j, k] = args;
    each(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (n == 12) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = args;
    each(a, b, c, d, e, f, g, h, i, j, k, l);
  } else if constexpr (n == 13) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = args;
    each(a, b, c, d, e, f, g, h, i, j, k, l, m);
  } else if constexpr (n == 14) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = args;
    each(a, b, c, d, e, f, g, h, i, j, k, l, m, n);
  } else if constexpr (n == 15) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = args;
    each(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
  } else if constexpr (n == 16) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = args;
    each(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
  }
}

template <typename Field>
concept AnyView = std::derived_from<std::remove_const_t<Field>, TensorView>;

template <typename Item, typename Fn>
void for_each_view(const std::vector<Item>* const& list, const Fn& fn);

// Calls fn(view) for each tensor of an argument, including omitted ones. The
// view has the type it has in the contract (Output, ...). Lists of tensors are
// passed as pointers.
template <typename Field, typename Fn>
void for_each_view(Field& field, const Fn& fn) {
  if constexpr (AnyView<Field>) {
    fn(field);
  } else if constexpr (std::is_class_v<Field>) {
    for_each_field(field, [&](auto& one) { for_each_view(one, fn); });
  }
}

template <typename Item, typename Fn>
void for_each_view(const std::vector<Item>* const& list, const Fn& fn) {
  for (const Item& item : *list) for_each_view(item, fn);
}

// Devices of the tensors of a kernel call.
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

template <typename Args>
Places places_of(const Args& args) {
  Places places;
  for_each_view(args, [&](const TensorView& view) {
    if (view.defined()) places.add(view.device);
  });
  return places;
}

}  // namespace ea::detail

namespace ea {

inline bool is_narrow(const TensorView& view) {
  return view.dtype == DType::f32 || view.dtype == DType::bf16;
}

// Returns whether a call of K computes in float32 or bfloat16: its first input
// has one of these types, and no input is float64. This is the default
// condition for the kernels of a backend.
template <typename K>
bool narrow(const typename K::Args& args) {
  bool first = true, all = true;
  detail::for_each_view(args, [&](const auto& view) {
    using View = std::remove_cvref_t<decltype(view)>;
    if constexpr (!std::same_as<View, Output> && !std::same_as<View, Number>) {
      if (!view.defined()) return;
      all = all && (first ? is_narrow(view) : view.dtype != DType::f64);
      first = false;
    }
  });
  return all;
}

}  // namespace ea
