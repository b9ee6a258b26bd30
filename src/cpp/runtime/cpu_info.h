// Instruction sets that the processor supports, and those that the core uses.
#pragma once

#include <string>

namespace ea {

enum class Isa { scalar, avx2, avx512 };  // x86-64 baseline, -v3, -v4

std::string cpu_name();
Isa isa_found();  // supported by processor and operating system
Isa isa_used();   // the same, limited by EA_MAX_ISA
bool has_avx512_bf16();
bool has_amx_bf16();  // asks the system once to let this process use it
const char* name_of(Isa isa);

}  // namespace ea
