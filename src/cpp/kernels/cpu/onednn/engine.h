// The one oneDNN engine, per-thread streams and scratch, and its thread
// setting.
#pragma once

#include <cstddef>
#include <dnnl.hpp>
#include <string>

namespace ea {

std::string onednn_version();  // "3.2.0"
// The instruction set oneDNN uses, in its own words: "avx512_core_bf16".
std::string onednn_isa();

namespace onednn {

// Caps oneDNN's instruction set as EA_MAX_ISA says. Every other function here
// does it first; code that calls oneDNN directly must as well.
void initialize();

const dnnl::engine& engine();
const dnnl::stream& stream();  // of the calling thread
bool has_bf16();               // bfloat16 products in hardware
bool has_tiles();              // and those of whole tiles: AMX

// 64-byte aligned memory of the calling thread, kept until it ends; one block
// per slot, whose old contents are lost when it has to grow.
enum class Scratch { primitive, a, b, c, sum };
constexpr int kScratchSlots = 5;
void* scratch(Scratch slot, std::size_t bytes);

// How many threads oneDNN takes for what the calling thread asks of it while
// this lives: libgomp's setting is one value per thread, and the caller finds
// its own again afterwards.
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
