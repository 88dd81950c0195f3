// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/info/host/processor_facts.h>

#include <tutti/backend/process/host_files.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace tutti::info {

namespace {

namespace fs = std::filesystem;

// As /proc/cpuinfo calls them: what kernels are written for.
#if defined(__aarch64__)
constexpr const char* kInstructionSets[] = {"asimd", "asimddp", "fphp", "bf16", "i8mm", "sve", "sve2"};
#else
constexpr const char* kInstructionSets[] = {"avx",         "f16c",        "fma",      "avx2",     "avx_vnni",
                                            "avx512f",     "avx512bw",    "avx512dq", "avx512vl", "avx512_vnni",
                                            "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16"};
#endif

std::uint64_t kibibytes_of(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10) * 1024; }

std::vector<std::pair<std::string, std::string>> caches(const fs::path& root) {
  constexpr int kMost = 16;
  std::vector<std::pair<std::string, std::string>> all;
  for (int i = 0; i < kMost; ++i) {
    const fs::path folder = root / "sys/devices/system/cpu/cpu0/cache" / ("index" + std::to_string(i));
    const std::string type = text_of_file(folder / "type");
    const std::string size = text_of_file(folder / "size");
    if (type.empty() || size.empty()) break;
    const char* const suffix = type == "Data" ? "d" : type == "Instruction" ? "i" : "";
    all.emplace_back("L" + text_of_file(folder / "level") + suffix, size);
  }
  return all;
}

}  // namespace

ProcessorFacts processor_facts(const fs::path& root) {
  ProcessorFacts facts;
  const std::string processors = text_of_file(root / "proc/cpuinfo");
  facts.model = field_of(processors, "model name");
  facts.online_cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const std::string memory = text_of_file(root / "proc/meminfo");
  facts.memory_bytes = kibibytes_of(field_of(memory, "MemTotal"));
  facts.available_memory_bytes = kibibytes_of(field_of(memory, "MemAvailable"));
  facts.caches = caches(root);
  std::istringstream flags(field_of(processors, "flags") + " " + field_of(processors, "Features"));
  std::vector<std::string> there;
  for (std::string flag; flags >> flag;) there.push_back(flag);
  for (const char* name : kInstructionSets)
    (std::ranges::find(there, name) != there.end() ? facts.instruction_sets : facts.missing_instruction_sets)
        .emplace_back(name);
  return facts;
}

}  // namespace tutti::info
