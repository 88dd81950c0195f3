// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/process/environment.h>
#include <tutti/backend/processor/instruction_sets.h>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define TUTTI_HAS_AVX512  // as kernels that are compiled for it (packs/native_vector.h)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tutti {

#if defined(TUTTI_HAS_AVX512)
namespace {

// The system lets a process use tiles when it asks for them: their state is large.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr unsigned kTiles = 1U << 24U;
  constexpr unsigned kTilesOfBf16 = 1U << 22U;
  constexpr long kAskForState = 0x1023;
  constexpr long kStateOfTiles = 18;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kTiles) != 0 && (edx & kTilesOfBf16) != 0 &&
         syscall(SYS_arch_prctl, kAskForState, kStateOfTiles) == 0;
#else
  return false;
#endif
}

Bf16Products best_products_of_bf16() {
  constexpr std::int64_t kBest = 3;
  const std::int64_t wanted = environment_number("TUTTI_CPU_BF16", kBest, 0, 2);
  if (wanted >= 2 && may_use_tiles()) return Bf16Products::tiles;
  const bool fast = __builtin_cpu_is("intel") == 0;
  const bool pairs = __builtin_cpu_supports("avx512bf16") != 0 && (wanted == 1 || (wanted > 1 && fast));
  return pairs ? Bf16Products::pairs : Bf16Products::widened;
}

}  // namespace

Bf16Products products_of_bf16() {
  static const Bf16Products used = best_products_of_bf16();
  return used;
}
#else
Bf16Products products_of_bf16() { return Bf16Products::widened; }
#endif

const char* name_of(Bf16Products products) {
  switch (products) {
    case Bf16Products::tiles: return "AMX tiles";
    case Bf16Products::pairs: return "AVX512-BF16";
    case Bf16Products::widened: break;
  }
  return "widened to f32";
}

bool uses_winograd() {
  static const bool used = environment_number("TUTTI_CPU_WINOGRAD", 1, 0, 1) == 1;
  return used;
}

}  // namespace tutti
