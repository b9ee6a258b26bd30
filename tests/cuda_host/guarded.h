// Calls a kernel's entry with guarded copies of its arguments, twice: the order
// of threads, blocks and guards must not show in a single bit.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fault.h"
#include "memory.h"
#include "tensor/tensor_view.h"

namespace ea::emulation {

// The arguments of one call, as Operands<K>::list names them.
class Operands {
 public:
  void in(const char* name, TensorView& view) { add(name, view, Access::read); }
  void out(const char* name, TensorView& view) {
    add(name, view, Access::write);
  }
  void both(const char* name, TensorView& view) {
    add(name, view, Access::both);
  }
  // An array that the entry reads and a kernel may not.
  template <typename T>
  void host(const char* name, const T*& array, std::int64_t count) {
    add_host(name, reinterpret_cast<const void**>(&array),
             static_cast<std::size_t>(count) * sizeof(T));
  }
  // A copy of a list of views that lives as long as this, for pointers to it.
  template <typename List>
  List& copy(const List* list) {
    auto made = std::make_shared<List>(*list);
    lists_.push_back(made);
    return *made;
  }

  // Guarded copies in an arena, which the views then point to.
  void move_into(Arena& arena);
  // Bytes of every buffer that a kernel may write, after the call.
  std::vector<std::vector<unsigned char>> results() const;
  // Throws if an element of an output was left as it was.
  void check_written() const;
  // The results into the tensors of the caller.
  void copy_back(const std::vector<std::vector<unsigned char>>& results) const;

 private:
  struct One {
    std::string name;
    TensorView* view;      // or null, for a host array
    const void** pointer;  // then
    const unsigned char* begin;
    std::size_t bytes;
    Access access;
    std::size_t span = 0;
  };
  // Views that overlap share a buffer.
  struct Span {
    const unsigned char* begin;
    const unsigned char* end;
    Buffer* buffer = nullptr;
    bool read = false, written = false;
  };
  void add(const char* name, TensorView& view, Access access);
  void add_host(const char* name, const void** pointer, std::size_t bytes);
  void find_spans();

  std::vector<One> all_;
  std::vector<Span> spans_;
  std::vector<std::shared_ptr<void>> lists_;
};

// Specialised in operands.h for every contract.
template <typename K>
struct List;

std::vector<std::vector<unsigned char>> run_guarded(
    const char* kernel, Operands& operands, Order order,
    const std::function<void()>& entry);
void check_same(const char* kernel,
                const std::vector<std::vector<unsigned char>>& forward,
                const std::vector<std::vector<unsigned char>>& backward);

template <typename K, auto entry>
void guarded(const typename K::Args& args) {
  std::vector<std::vector<unsigned char>> results[2];
  for (const Order order : {Order::forward, Order::backward}) {
    typename K::Args mine = args;
    Operands operands;
    List<K>::of(mine, operands);
    auto& got = results[static_cast<int>(order)];
    got = run_guarded(K::name, operands, order, [&] { entry(mine); });
    if (order == Order::backward) {
      check_same(K::name, results[0], got);
      operands.copy_back(got);
    }
  }
}

}  // namespace ea::emulation
