// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/devices/device_facts.h>

#include <fmt/format.h>

#ifdef TUTTI_HAVE_ONEDNN
#include <dnnl.h>
#endif

namespace tutti {

#ifdef TUTTI_HAVE_ONEDNN

namespace {

const char* name_of(dnnl_cpu_isa_t instructions) {
  switch (instructions) {
    case dnnl_cpu_isa_sse41: return "SSE4.1";
    case dnnl_cpu_isa_avx: return "AVX";
    case dnnl_cpu_isa_avx2: return "AVX2";
    case dnnl_cpu_isa_avx2_vnni: return "AVX2 with VNNI";
    case dnnl_cpu_isa_avx512_core: return "AVX-512";
    case dnnl_cpu_isa_avx512_core_vnni: return "AVX-512 with VNNI";
    case dnnl_cpu_isa_avx512_core_bf16: return "AVX-512 with VNNI and bf16";
    case dnnl_cpu_isa_avx512_core_amx: return "AVX-512 with VNNI, bf16 and AMX";
    default: return nullptr;
  }
}

}  // namespace

ThirdParty onednn_library() {
  const dnnl_version_t& version = *dnnl_version();
  const dnnl_cpu_isa_t instructions = dnnl_get_effective_cpu_isa();
  const char* const name = name_of(instructions);
  return {.name = "oneDNN",
          .version = fmt::format("{}.{}.{}", version.major, version.minor, version.patch),
          .note = name != nullptr ? fmt::format("uses {}", name)
                                  : fmt::format("uses instructions of level {:#x}", static_cast<int>(instructions))};
}

#else

ThirdParty onednn_library() {
  return {.name = "oneDNN", .version = {}, .note = "this build has none (Meson option onednn): Eigen multiplies"};
}

#endif

}  // namespace tutti
