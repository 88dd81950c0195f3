// SPDX-License-Identifier: Apache-2.0
// Compiled like the rest of the library, whose instructions the compiler tells by macros. Data only: nothing of this
// object runs.
#include <tutti/backend/processor/instruction_sets.h>

namespace tutti {

constinit const InstructionSet required_instruction_sets[] = {
#ifdef __SSE3__
    {"SSE3", 1, 0, InstructionSet::ecx, 0, InstructionSet::none},
#endif
#ifdef __SSSE3__
    {"SSSE3", 1, 0, InstructionSet::ecx, 9, InstructionSet::none},
#endif
#ifdef __SSE4_1__
    {"SSE4.1", 1, 0, InstructionSet::ecx, 19, InstructionSet::none},
#endif
#ifdef __SSE4_2__
    {"SSE4.2", 1, 0, InstructionSet::ecx, 20, InstructionSet::none},
#endif
#ifdef __POPCNT__
    {"POPCNT", 1, 0, InstructionSet::ecx, 23, InstructionSet::none},
#endif
#ifdef __MOVBE__
    {"MOVBE", 1, 0, InstructionSet::ecx, 22, InstructionSet::none},
#endif
#ifdef __LZCNT__
    {"LZCNT", 0x80000001, 0, InstructionSet::ecx, 5, InstructionSet::none},
#endif
#ifdef __BMI__
    {"BMI1", 7, 0, InstructionSet::ebx, 3, InstructionSet::none},
#endif
#ifdef __BMI2__
    {"BMI2", 7, 0, InstructionSet::ebx, 8, InstructionSet::none},
#endif
#ifdef __AVX__
    {"AVX", 1, 0, InstructionSet::ecx, 28, InstructionSet::ymm},
#endif
#ifdef __AVX2__
    {"AVX2", 7, 0, InstructionSet::ebx, 5, InstructionSet::ymm},
#endif
#ifdef __FMA__
    {"FMA", 1, 0, InstructionSet::ecx, 12, InstructionSet::ymm},
#endif
#ifdef __F16C__
    {"F16C", 1, 0, InstructionSet::ecx, 29, InstructionSet::ymm},
#endif
#ifdef __AVXVNNI__
    {"AVX-VNNI", 7, 1, InstructionSet::eax, 4, InstructionSet::ymm},
#endif
#ifdef __GFNI__
    {"GFNI", 7, 0, InstructionSet::ecx, 8, InstructionSet::none},
#endif
#ifdef __AVX512F__
    {"AVX512F", 7, 0, InstructionSet::ebx, 16, InstructionSet::zmm},
#endif
#ifdef __AVX512CD__
    {"AVX512CD", 7, 0, InstructionSet::ebx, 28, InstructionSet::zmm},
#endif
#ifdef __AVX512BW__
    {"AVX512BW", 7, 0, InstructionSet::ebx, 30, InstructionSet::zmm},
#endif
#ifdef __AVX512DQ__
    {"AVX512DQ", 7, 0, InstructionSet::ebx, 17, InstructionSet::zmm},
#endif
#ifdef __AVX512VL__
    {"AVX512VL", 7, 0, InstructionSet::ebx, 31, InstructionSet::zmm},
#endif
#ifdef __AVX512IFMA__
    {"AVX512IFMA", 7, 0, InstructionSet::ebx, 21, InstructionSet::zmm},
#endif
#ifdef __AVX512VBMI__
    {"AVX512VBMI", 7, 0, InstructionSet::ecx, 1, InstructionSet::zmm},
#endif
#ifdef __AVX512VBMI2__
    {"AVX512VBMI2", 7, 0, InstructionSet::ecx, 6, InstructionSet::zmm},
#endif
#ifdef __AVX512VNNI__
    {"AVX512VNNI", 7, 0, InstructionSet::ecx, 11, InstructionSet::zmm},
#endif
#ifdef __AVX512BITALG__
    {"AVX512BITALG", 7, 0, InstructionSet::ecx, 12, InstructionSet::zmm},
#endif
#ifdef __AVX512VPOPCNTDQ__
    {"AVX512VPOPCNTDQ", 7, 0, InstructionSet::ecx, 14, InstructionSet::zmm},
#endif
#ifdef __AVX512BF16__
    {"AVX512BF16", 7, 1, InstructionSet::eax, 5, InstructionSet::zmm},
#endif
#ifdef __AVX512FP16__
    {"AVX512FP16", 7, 0, InstructionSet::edx, 23, InstructionSet::zmm},
#endif
    {nullptr, 0, 0, InstructionSet::eax, 0, InstructionSet::none}};

constinit const char* const required_by_cpu_arch = TUTTI_CPU_ARCH;

constinit const char* const instruction_level =
#if defined(TUTTI_INSTRUCTION_LEVEL)
    TUTTI_INSTRUCTION_LEVEL;
#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
    "x86-64-v4";
#elif defined(__AVX2__) && defined(__FMA__)
    "x86-64-v3";
#elif defined(__SSE4_2__)
    "x86-64-v2";
#elif defined(__x86_64__)
    "x86-64";
#elif defined(__aarch64__)
    "aarch64";
#else
    "unknown";
#endif

}  // namespace tutti
