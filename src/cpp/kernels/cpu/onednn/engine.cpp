// Starts oneDNN: instruction-set cap, engine, streams, scratch memory.
#include "kernels/cpu/onednn/engine.h"

#include <utility>

#include "runtime/allocator.h"
#include "runtime/check.h"
#include "runtime/cpu_info.h"

// libgomp comes with oneDNN; only these two functions of it are used.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int);
}

namespace ea {

namespace {

const char* name_of_isa(dnnl::cpu_isa isa) {
  using enum dnnl::cpu_isa;
  static constexpr std::pair<dnnl::cpu_isa, const char*> kNames[] = {
      {sse41, "sse41"},
      {avx, "avx"},
      {avx2, "avx2"},
      {avx2_vnni, "avx2_vnni"},
      {avx2_vnni_2, "avx2_vnni_2"},
      {avx512_core, "avx512_core"},
      {avx512_core_vnni, "avx512_core_vnni"},
      {avx512_core_bf16, "avx512_core_bf16"},
      {avx512_core_fp16, "avx512_core_fp16"},
      {avx512_core_amx, "avx512_core_amx"},
      {avx512_core_amx_fp16, "avx512_core_amx_fp16"},
  };
  for (const auto& [one, name] : kNames) {
    if (one == isa) return name;
  }
  return "default";
}

}  // namespace

std::string onednn_version() {
  const dnnl_version_t* v = dnnl_version();
  return format("{}.{}.{}", v->major, v->minor, v->patch);
}

std::string onednn_isa() {
  onednn::initialize();
  return name_of_isa(dnnl::get_effective_cpu_isa());
}

namespace onednn {

void initialize() {
  static const bool once = [] {
    // Fails only if other code of this process has already used oneDNN. Its own
    // choice then stays: correct, though not the requested cap.
    if (isa_used() == Isa::avx2) dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
    return true;
  }();
  (void)once;
}

const dnnl::engine& engine() {
  initialize();
  // Never destroyed: threads may still compute while the process ends.
  static const auto* const one = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *one;
}

const dnnl::stream& stream() {
  thread_local const dnnl::stream one(engine());
  return one;
}

bool has_bf16() {
  static const bool yes = [] {
    initialize();
    switch (dnnl::get_effective_cpu_isa()) {
      case dnnl::cpu_isa::avx512_core_bf16:
      case dnnl::cpu_isa::avx512_core_fp16:
      case dnnl::cpu_isa::avx512_core_amx:
      case dnnl::cpu_isa::avx512_core_amx_fp16:
        return true;
      default:
        return false;
    }
  }();
  return yes;
}

bool has_tiles() {
  static const bool yes = [] {
    initialize();
    const auto isa = dnnl::get_effective_cpu_isa();
    return isa == dnnl::cpu_isa::avx512_core_amx ||
           isa == dnnl::cpu_isa::avx512_core_amx_fp16;
  }();
  return yes;
}

void* scratch(Scratch slot, std::size_t bytes) {
  struct Owned {
    MemoryBlock block;
    ~Owned() { deallocate(block); }
  };
  thread_local Owned slots[kScratchSlots];
  MemoryBlock& block = slots[static_cast<int>(slot)].block;
  if (block.data == nullptr || block.capacity < bytes) {
    deallocate(block);
    block = {};
    block = allocate(bytes);
  }
  return block.data;
}

OnednnThreads::OnednnThreads(int count) : before_(omp_get_max_threads()) {
  if (before_ != count) omp_set_num_threads(count);
}

OnednnThreads::~OnednnThreads() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}

}  // namespace onednn

}  // namespace ea
