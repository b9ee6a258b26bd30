// The oneDNN engine, per-thread streams and scratch memory, and oneDNN's thread
// count.
#pragma once

#include <cstddef>
#include <dnnl.hpp>
#include <string>

namespace ea {

std::string onednn_version();  // "3.2.0"
// The instruction set oneDNN uses, by oneDNN's name: "avx512_core_bf16".
std::string onednn_isa();

namespace onednn {

// Caps oneDNN's instruction set as EA_MAX_ISA says. Every other function here
// calls it first; code that calls oneDNN directly must too.
void initialize();

const dnnl::engine& engine();
const dnnl::stream& stream();  // of the calling thread
bool has_bf16();               // bfloat16 products in hardware
bool has_tiles();              // and products of whole tiles (AMX)

// Returns 64-byte aligned memory that the calling thread owns until it ends.
// One block per slot; its contents are lost when it has to grow.
enum class Scratch { primitive, a, c, sum };
constexpr int kScratchSlots = 4;
void* scratch(Scratch slot, std::size_t bytes);

// Sets the number of threads that oneDNN uses for calls from this thread, and
// restores the old one when destroyed. libgomp keeps one value per thread.
class OnednnThreads {
 public:
  explicit OnednnThreads(int count);
  ~OnednnThreads();
  OnednnThreads(const OnednnThreads&) = delete;
  OnednnThreads& operator=(const OnednnThreads&) = delete;

 private:
  int before_;
};

// Keeps oneDNN on the calling thread.
struct SingleThreaded : OnednnThreads {
  SingleThreaded() : OnednnThreads(1) {}
};

}  // namespace onednn

}  // namespace ea
