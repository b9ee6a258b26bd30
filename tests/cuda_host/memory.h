// Guarded memory for emulated kernels: pages beyond both ends cannot be
// touched, what was not written reads as NaN, and the host cannot look inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace ea::emulation {

// Where a buffer lies in its pages, and in which order threads and blocks run.
// A correct kernel gives the same bits in both.
enum class Order : std::uint8_t {
  forward,   // data ends at the guard behind it; threads in rising order
  backward,  // data begins at the guard before it; threads in falling order
};

enum class Access : std::uint8_t {
  read,   // an input: writes fault
  write,  // an output: NaN until written
  both,
  host,  // for the host alone: a kernel's reads fault
};

// One mapping: guard page, whole pages with the data at one end, guard page.
class Buffer {
 public:
  Buffer(std::string name, std::size_t bytes, Access access, Order order);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  unsigned char* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Access access() const { return access_; }
  const std::string& name() const { return name_; }

  void poison();  // the data too
  void allow_all();
  void allow_kernel();
  void allow_host();
  void forbid();  // for good: freed memory
  // True where bytes around the data were changed.
  bool overrun() const;
  bool maps(const void* address) const;

 private:
  void protect(int rights);
  std::string name_;
  std::size_t bytes_, mapped_;
  Access access_;
  unsigned char* base_;
  unsigned char* data_;
  bool freed_ = false;
};

// The memory of one kernel call. At most one exists at a time.
class Arena {
 public:
  explicit Arena(Order order);
  ~Arena();
  static Arena* current();

  Order order() const { return order_; }
  Buffer& add(std::string name, std::size_t bytes, Access access);
  void for_kernel();  // only what a kernel may touch can be touched
  void for_host();    // only what the host may touch
  // Opens everything; throws if bytes around a buffer were changed.
  void finish();
  void free(const void* data);
  // "12 bytes behind y (float32 ...)" for a report.
  std::string describe(const void* address) const;

 private:
  Order order_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace ea::emulation
