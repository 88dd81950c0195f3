// SPDX-License-Identifier: Apache-2.0
// What the library says of itself.
#include <tutti/command/info/report_sections.h>

#include <tutti/backend/cpu_threads.h>
#include <tutti/backend/devices/device_facts.h>
#include <tutti/backend/processor/instruction_sets.h>
#include <tutti/distributed/engines/gpu_engines.h>
#include <tutti/distributed/process_group/process_facts.h>
#include <tutti/distributed/threads/allowed_cores.h>
#include <tutti/exchange/files/zlib_library.h>
#include <tutti/version.h>

#include <string>
#include <utility>

namespace tutti::info {

namespace {

// Looked for once: several sections tell of them.
const CudaFacts& cuda_here() {
  static const CudaFacts facts = cuda_facts();
  return facts;
}
const ProcessFacts& processes_here() {
  static const ProcessFacts facts = process_facts();
  return facts;
}
const ThirdParty& nccl_here() {
  static const ThirdParty nccl =
      cuda_here().libraries.empty() ? ThirdParty{"NCCL", "", cuda_here().trouble} : gpu_engines().nccl();
  return nccl;
}

/// Without what a program would have asked for: "[device] ".
std::string without_operation(const std::string& trouble) {
  const std::size_t end = trouble.find("] ");
  return trouble.starts_with('[') && end != std::string::npos ? trouble.substr(end + 2) : trouble;
}

Report usable(const std::string& trouble) {
  Report engine{{"usable", trouble.empty()}};
  if (!trouble.empty()) engine["note"] = without_operation(trouble);
  return engine;
}

void add(Report& section, const ThirdParty& library) {
  section[library.name] = {{"version", library.version}, {"note", without_operation(library.note)}};
}

}  // namespace

Report build_section() {
  const BuildInfo build = build_info();
  Report section{{"version", version()}, {"library", build.is_shared ? "shared" : "static, in the program"}};
  if (!build.file.empty()) section["file"] = build.file;
  section["compiler"] = build.compiler;
  section["build"] = build.build;
  section["cpu_arch"] = build.cpu_arch.empty() ? "the compiler's default" : build.cpu_arch;
  section["needs"] = build.instruction_sets;
  Report& features = section["options"] = Report::object();
  for (const auto& [name, is_there] : build.features) features[name] = is_there;
  return section;
}

Report devices_section() {
  Report section;
  section["cores_allowed"] = allowed_cores().count();
  section["threads_per_CPU_device"] = fact([] { return Report(cpu_threads(cpu())); });
  section["products_of_bf16"] = fact([] { return Report(name_of(products_of_bf16())); });
  section["CUDA"] = fact([] { return usable(cuda_here().trouble); });
  Report gpus = Report::array();
  for (const GpuFacts& gpu : cuda_here().gpus)
    gpus.push_back(
        {{"name", gpu.name}, {"compute_capability", gpu.compute_capability}, {"memory_bytes", gpu.memory_bytes}});
  section["GPU"] = gpus;
  if (cuda_here().devices_per_gpu > 1) section["CUDA_devices_per_GPU"] = cuda_here().devices_per_gpu;
  return section;
}

Report engines_section() {
  Report section;
  section["shared_memory"] = fact([] { return usable(processes_here().trouble); });
  section["network"] = section["shared_memory"];
  section["MPI"] = fact([] {
    const ProcessFacts& processes = processes_here();
    return usable(!processes.trouble.empty() ? processes.trouble : processes.mpi.note);
  });
  section["NCCL"] = fact([] {
    return usable(!processes_here().trouble.empty() ? processes_here().trouble
                  : !cuda_here().trouble.empty()    ? cuda_here().trouble
                  : nccl_here().version.empty()     ? nccl_here().note
                                                    : "");
  });
  return section;
}

Report libraries_section() {
  Report section;
  add(section, zlib_library());
  for (const ThirdParty& each : processes_here().libraries) add(section, each);
  if (processes_here().trouble.empty()) add(section, processes_here().mpi);
  for (const ThirdParty& each : cuda_here().libraries) add(section, each);
  if (!cuda_here().libraries.empty())
    section["NCCL"] = fact([] {
      Report with;
      add(with, nccl_here());
      return with["NCCL"];
    });
  return section;
}

}  // namespace tutti::info
