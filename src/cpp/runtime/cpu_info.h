// What the processor can do, and what we let ourselves use of it.
#pragma once

#include <string>

namespace ea {

enum class Isa { scalar, avx2, avx512 };  // x86-64 baseline, -v3, -v4

std::string cpu_name();
Isa isa_found();  // what processor and operating system offer
Isa isa_used();   // the same, capped by EA_MAX_ISA
bool has_avx512_bf16();
bool has_amx_bf16();
const char* name_of(Isa isa);

}  // namespace ea
