// The device and the types of a kernel's arguments, found in the fields of its
// Args: contracts stay plain structs, and none can forget to name a tensor.
#pragma once

#include <concepts>
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

// fn(view) for each tensor in an argument, left out or not. The view has the
// type it has in the contract (Output, ...); lists of tensors are given by
// pointers.
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

// Whether a call of K is in float32 or bfloat16: the first tensor that it reads
// is, and none is float64. What the kernels of a backend take where its list
// does not say otherwise.
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
