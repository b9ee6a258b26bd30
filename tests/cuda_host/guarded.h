// Guarded copies of a kernel's arguments, and calls with them.
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

// Arguments of one call, as listed by operands.h.
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
  // Returns a name for the n-th tensor of the call, counted from 1.
  std::string next_name() { return "tensor " + std::to_string(++unnamed_); }
  // Adds an array that the host entry reads and a kernel must not read.
  template <typename T>
  void host(const char* name, const T*& array, std::int64_t count) {
    add_host(name, reinterpret_cast<const void**>(&array),
             static_cast<std::size_t>(count) * sizeof(T));
  }
  // Copies a list of views. The copy lives as long as this object, so pointers
  // to it stay valid.
  template <typename List>
  List& copy(const List* list) {
    auto made = std::make_shared<List>(*list);
    lists_.push_back(made);
    return *made;
  }

  // Copies the arguments to guarded buffers and points the views to them.
  void move_into(Arena& arena);
  // Returns the bytes of every buffer that a kernel may write, after the call.
  std::vector<std::vector<unsigned char>> results() const;
  // Throws if an element of an output was not written.
  void check_written() const;
  // Copies the results to the caller's tensors.
  void copy_back(const std::vector<std::vector<unsigned char>>& results) const;

 private:
  struct One {
    std::string name;
    TensorView* view;      // null for a host array
    const void** pointer;  // of a host array
    const unsigned char* begin;
    std::size_t bytes;
    Access access;
    std::size_t span = 0;
  };
  // Address range of a buffer; overlapping views share one.
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
