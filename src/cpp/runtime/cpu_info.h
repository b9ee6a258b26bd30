// Instruction sets that the processor supports, and those that the core uses.
#pragma once

#include <string>

namespace ea {

enum class Isa { scalar, avx2, avx512 };  // x86-64 baseline, -v3, -v4

std::string cpu_name();
Isa isa_found();  // supported by the processor and the operating system
Isa isa_used();   // isa_found(), limited by EA_MAX_ISA
bool has_avx512_bf16();
bool has_amx_bf16();  // requests AMX from the system once
const char* name_of(Isa isa);

}  // namespace ea
