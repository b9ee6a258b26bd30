// Guarded memory for emulated kernels: pages beyond both ends are inaccessible,
// unwritten memory reads as NaN, and the host cannot access device buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace ea::emulation {

// Position of a buffer in its pages, and the order in which threads and blocks
// run. A correct kernel gives the same bits in both orders.
enum class Order : std::uint8_t {
  forward,   // data ends at the guard page; threads in rising order
  backward,  // data starts at the guard page; threads in falling order
};

enum class Access : std::uint8_t {
  read,   // an input: writes fault
  write,  // an output: NaN until written
  both,
  host,  // only for the host: a kernel's reads fault
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

  void poison();  // including the data
  void allow_all();
  void allow_kernel();
  void allow_host();
  void forbid();  // permanently: freed memory
  // Returns whether bytes around the data were changed.
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

// Memory of one kernel call. At most one arena exists at a time.
class Arena {
 public:
  explicit Arena(Order order);
  ~Arena();
  static Arena* current();

  Order order() const { return order_; }
  Buffer& add(std::string name, std::size_t bytes, Access access);
  void for_kernel();  // allows only the accesses of kernels
  void for_host();    // allows only the accesses of the host
  // Allows all accesses; throws if bytes around a buffer were changed.
  void finish();
  void free(const void* data);
  // Describes an address for a report, as "byte 160 of y (160 bytes)".
  std::string describe(const void* address) const;

 private:
  Order order_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace ea::emulation
