// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/engines/network/mpi/mpi_job.h>

#include <tutti/tests/distributed/processes/control/job.h>

#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>

namespace tutti::testing {

namespace {

// The folder that tests are built in; plugins are built beside it.
std::filesystem::path tests_folder() { return std::filesystem::read_symlink("/proc/self/exe").parent_path(); }

}  // namespace

std::string MpiJob::said_by(int rank) const {
  const std::string beginning = "rank " + std::to_string(rank) + ": ";
  for (auto line = lines.rbegin(); line != lines.rend(); ++line)
    if (line->starts_with(beginning)) return line->substr(beginning.size());
  return "";
}

bool has_mpirun() { return std::system("command -v mpirun > /dev/null 2>&1") == 0; }

MpiJob run_mpi(std::size_t ranks, const std::string& program, const std::vector<std::string>& arguments,
               const std::map<std::string, std::string>& variables) {
  std::map<std::string, std::string> all{
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
      {"TUTTI_PLUGINS", (tests_folder().parent_path() / "distributed/engines/network/mpi").string()},
      {"TUTTI_RENDEZVOUS", "127.0.0.1:" + std::to_string(free_port())},
      {"TUTTI_SECRET", "a secret of the tests with mpirun"}};
  for (const auto& [name, value] : variables) all[name] = value;
  std::string command = "env";
  for (const auto& [name, value] : all) command += " '" + name + "=" + value + "'";
  command += " timeout -k 5 100 mpirun -n " + std::to_string(ranks) + " --oversubscribe --bind-to none '" +
             (tests_folder() / program).string() + "'";
  for (const std::string& argument : arguments) command += " '" + argument + "'";
  const auto start = std::chrono::steady_clock::now();
  MpiJob job;
  FILE* const output = popen((command + " 2>&1").c_str(), "r");
  if (output == nullptr) throw std::runtime_error("no shell");
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), line.size(), output) != nullptr) {
    job.lines.emplace_back(line.data());
    if (job.lines.back().ends_with('\n')) job.lines.back().pop_back();
  }
  const int status = pclose(output);
  job.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  job.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return job;
}

}  // namespace tutti::testing
