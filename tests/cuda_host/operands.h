// Derives from the field types of a contract whether each argument is read,
// written or both. The guards of an emulated call follow this.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "guarded.h"
#include "kernels/arguments.h"
#include "kernels/conv1d.h"
#include "kernels/map_layout.h"

namespace ea::emulation {

template <typename Field>
void add_operands(Field& field, Operands& o);

// The arrays of a layout are in host memory.
inline void add_operands(MapLayout& layout, Operands& o) {
  o.host("q_offsets", layout.q_offsets, layout.sequences + 1);
  o.host("k_offsets", layout.k_offsets, layout.sequences + 1);
  o.host("cell_offsets", layout.cell_offsets, layout.sequences + 1);
  o.in("key_mask", layout.key_mask);
}

inline void add_operands(Conv1dTaps& taps, Operands& o) {
  o.host("offsets", taps.offsets, taps.sequences + 1);
}

// Lists of tensors are passed as pointers.
template <typename Item>
void add_operands(const std::vector<Item>*& list, Operands& o) {
  std::vector<Item>& items = o.copy(list);
  for (Item& item : items) add_operands(item, o);
  list = &items;
}

// "tensor 3" in an error is the third tensor of Args.
template <typename Field>
void add_operands(Field& field, Operands& o) {
  static_assert(!std::is_same_v<Field, const std::int64_t*>,
                "an array of the host: say how long it is, as for MapLayout");
  if constexpr (std::is_same_v<Field, Output>) {
    o.out(o.next_name(), field);
  } else if constexpr (std::is_same_v<Field, InOut>) {
    o.both(o.next_name(), field);
  } else if constexpr (detail::AnyView<Field>) {
    o.in(o.next_name(), field);
  } else if constexpr (std::is_class_v<Field>) {
    detail::for_each_field(field, [&](auto& one) { add_operands(one, o); });
  }
}

// Calls an entry twice with guarded copies of its arguments: not a single bit
// may depend on the order of threads, blocks and guards.
template <typename K, auto entry>
void guarded(const typename K::Args& args) {
  std::vector<std::vector<unsigned char>> results[2];
  for (const Order order : {Order::forward, Order::backward}) {
    typename K::Args mine = args;
    Operands operands;
    add_operands(mine, operands);
    auto& got = results[static_cast<int>(order)];
    got = run_guarded(K::name, operands, order, [&] { entry(mine); });
    if (order == Order::backward) {
      check_same(K::name, results[0], got);
      operands.copy_back(got);
    }
  }
}

}  // namespace ea::emulation
