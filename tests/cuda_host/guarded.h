// Guarded copies of a kernel's arguments, and a call with them.
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

// The arguments of one call, as operands.h lists them.
class Operands {
 public:
  void in(std::string name, TensorView& view) {
    add(std::move(name), view, Access::read);
  }
  void out(std::string name, TensorView& view) {
    add(std::move(name), view, Access::write);
  }
  void both(std::string name, TensorView& view) {
    add(std::move(name), view, Access::both);
  }
  // For arguments without a name: the n-th tensor of the call, from 1.
  std::string next_name() { return "tensor " + std::to_string(++unnamed_); }
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
  void add(std::string name, TensorView& view, Access access);
  void add_host(const char* name, const void** pointer, std::size_t bytes);
  void find_spans();

  std::vector<One> all_;
  std::vector<Span> spans_;
  std::vector<std::shared_ptr<void>> lists_;
  int unnamed_ = 0;
};

std::vector<std::vector<unsigned char>> run_guarded(
    const char* kernel, Operands& operands, Order order,
    const std::function<void()>& entry);
void check_same(const char* kernel,
                const std::vector<std::vector<unsigned char>>& forward,
                const std::vector<std::vector<unsigned char>>& backward);

}  // namespace ea::emulation
