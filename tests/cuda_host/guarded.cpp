// Guarded copies of a kernel's arguments, and checks of its results.
#include "guarded.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "emulation.h"
#include "kernels/cuda/scratch.h"

namespace ea::cuda {

MemoryBlock allocate_scratch(cudaStream_t, std::size_t bytes) {
  emulation::Buffer& made = emulation::Arena::current()->add(
      "scratch", bytes, emulation::Access::write);
  made.allow_host();
  return {made.data(), bytes};
}

void free_scratch(cudaStream_t, MemoryBlock block) noexcept {
  emulation::Arena::current()->free(block.data);
}

}  // namespace ea::cuda

namespace ea::emulation {

namespace {

// Calls fn(index, offset in bytes) for every element of a view.
template <typename Fn>
void for_each_element(const TensorView& view, Fn&& fn) {
  const std::size_t size = size_of(view.dtype);
  for (std::int64_t i = 0; i < view.numel(); ++i) {
    std::int64_t rest = i, offset = 0;
    for (int axis = view.shape.rank() - 1; axis >= 0; --axis) {
      offset += rest % view.shape[axis] * view.strides[axis];
      rest /= view.shape[axis];
    }
    fn(i, static_cast<std::size_t>(offset) * size);
  }
}

// Returns the bytes from the first element of a view to the end of its last.
std::size_t extent(const TensorView& view) {
  if (view.numel() == 0) return 0;
  std::int64_t last = 0;
  for (int axis = 0; axis < view.shape.rank(); ++axis) {
    last += (view.shape[axis] - 1) * view.strides[axis];
  }
  return static_cast<std::size_t>(last + 1) * size_of(view.dtype);
}

bool all_ones(const unsigned char* p, std::size_t size) {
  return std::all_of(p, p + size, [](unsigned char c) { return c == 0xff; });
}

}  // namespace

void Operands::add(std::string name, TensorView& view, Access access) {
  if (!view.defined()) return;
  all_.push_back({std::move(name), &view, nullptr,
                  static_cast<const unsigned char*>(view.data), extent(view),
                  access});
}

void Operands::add_host(const char* name, const void** pointer,
                        std::size_t bytes) {
  if (*pointer == nullptr) return;
  all_.push_back({name, nullptr, pointer,
                  static_cast<const unsigned char*>(*pointer), bytes,
                  Access::host});
}

void Operands::find_spans() {
  std::vector<One*> order;
  for (One& one : all_) order.push_back(&one);
  std::sort(order.begin(), order.end(),
            [](const One* a, const One* b) { return a->begin < b->begin; });
  for (One* one : order) {
    const bool joins = !spans_.empty() && one->access != Access::host &&
                       one->bytes > 0 && one->begin < spans_.back().end;
    if (!joins) spans_.push_back({one->begin, one->begin});
    Span& span = spans_.back();
    span.end = std::max(span.end, one->begin + one->bytes);
    span.read |= one->access != Access::write;
    span.written |= one->access == Access::write || one->access == Access::both;
    one->span = spans_.size() - 1;
  }
}

void Operands::move_into(Arena& arena) {
  find_spans();
  for (const One& one : all_) {
    Span& span = spans_[one.span];
    if (span.buffer == nullptr) {
      const Access access = one.access == Access::host ? Access::host
                            : !span.written            ? Access::read
                            : span.read                ? Access::both
                                                       : Access::write;
      const auto bytes = static_cast<std::size_t>(span.end - span.begin);
      span.buffer = &arena.add(one.name, bytes, access);
      if (bytes > 0) std::memcpy(span.buffer->data(), span.begin, bytes);
    }
    unsigned char* here = span.buffer->data() + (one.begin - span.begin);
    if (one.view == nullptr) {
      *one.pointer = here;
      continue;
    }
    one.view->data = here;
    if (span.read) continue;
    for_each_element(*one.view, [&](std::int64_t, std::size_t offset) {
      std::memset(here + offset, 0xff, size_of(one.view->dtype));
    });
  }
}

std::vector<std::vector<unsigned char>> Operands::results() const {
  std::vector<std::vector<unsigned char>> all;
  for (const Span& span : spans_) {
    const unsigned char* data = span.buffer->data();
    all.emplace_back(data, data + (span.written ? span.buffer->bytes() : 0));
  }
  return all;
}

void Operands::check_written() const {
  for (const One& one : all_) {
    const Span& span = spans_[one.span];
    if (one.view == nullptr || one.access != Access::write || span.read ||
        !is_floating(one.view->dtype))
      continue;
    const auto* data = one.view->as<const unsigned char>();
    for_each_element(*one.view, [&](std::int64_t i, std::size_t offset) {
      if (all_ones(data + offset, size_of(one.view->dtype))) {
        throw KernelFault("element " + std::to_string(i) + " of " + one.name +
                          " was not written, or computed from memory that was "
                          "not");
      }
    });
  }
}

void Operands::copy_back(
    const std::vector<std::vector<unsigned char>>& results) const {
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    if (results[i].empty()) continue;
    std::memcpy(const_cast<unsigned char*>(spans_[i].begin), results[i].data(),
                results[i].size());
  }
}

std::vector<std::vector<unsigned char>> run_guarded(
    const char* kernel, Operands& operands, Order order,
    const std::function<void()>& entry) {
  // Threads, blocks and the arena are global to the process.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  Arena arena(order);
  operands.move_into(arena);
  arena.for_host();
  struct Call {
    const std::function<void()>& entry;
    Operands& operands;
    Arena& arena;
    std::vector<std::vector<unsigned char>> results;
  } call{entry, operands, arena, {}};
  run_caught(
      kernel,
      [](void* context) {
        Call& c = *static_cast<Call*>(context);
        c.entry();
        c.arena.finish();
        c.operands.check_written();
        c.results = c.operands.results();
      },
      &call);
  return call.results;
}

void check_same(const char* kernel,
                const std::vector<std::vector<unsigned char>>& forward,
                const std::vector<std::vector<unsigned char>>& backward) {
  if (forward == backward) return;
  throw KernelFault(
      std::string("[") + kernel +
      " on cuda_host] the result depends on the order of threads or blocks (a "
      "barrier is missing?), or on where its arguments lie");
}

}  // namespace ea::emulation
