// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace tutti::info {

/// This machine's processor and memory. What the system does not tell is empty or 0.
struct ProcessorFacts {
  std::string model;
  int online_cores = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t available_memory_bytes = 0;
  std::vector<std::pair<std::string, std::string>> caches;  ///< name and size, as "L1d", "32K"; those of the first core
  std::vector<std::string> instruction_sets;                ///< those of the known ones that are there
  std::vector<std::string> missing_instruction_sets;        ///< the others
};

/// `root`: where the system's files lie; another one than "/" for tests.
ProcessorFacts processor_facts(const std::filesystem::path& root = "/");

}  // namespace tutti::info
