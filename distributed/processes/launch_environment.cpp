// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/launch_environment.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

namespace tutti {

namespace {

constexpr int kMostProcesses = 1 << 20;
constexpr int kMostPorts = 65535;
// Those that are derived from a job's name: below the ones that the kernel gives to connections.
constexpr int kFirstPortOfJobs = 20'000;
constexpr int kPortsOfJobs = 12'000;

/// Variables of one launcher.
class Variables {
 public:
  explicit Variables(const EnvironmentReader& read) : read_(read) {}

  // An empty one counts as unset.
  std::optional<std::string> text(const std::string& name) const {
    auto value = read_(name);
    return value && value->empty() ? std::nullopt : value;
  }
  std::string text_or_empty(const std::string& name) const { return text(name).value_or(""); }

  bool all_set(std::initializer_list<const char*> names) const {
    return std::ranges::all_of(names, [this](const char* name) { return text(name).has_value(); });
  }

  int number(const std::string& name, int least, int most) const {
    const std::string value = text_or_empty(name);
    int number = 0;
    const char* const last = value.data() + value.size();
    const auto [end, error] = std::from_chars(value.data(), last, number);
    if (error != std::errc() || end != last || number < least || number > most)
      raise<Error>("[launch] {} is \"{}\": it must be a number from {} to {}", name, value, least, most);
    return number;
  }
  int number_or(const std::string& name, int otherwise, int least, int most) const {
    return text(name) ? number(name, least, most) : otherwise;
  }

  /// Reads rank and size, and the same among the processes of the host where their names are given and set.
  LaunchPlace place(std::string launcher, const char* rank, const char* size, const char* local_rank,
                    const char* local_size) const {
    LaunchPlace place{.launcher = std::move(launcher), .local_size = 0, .address = {}, .job = {}, .variable = size};
    place.size = number(size, 1, kMostProcesses);
    place.rank = number(rank, 0, place.size - 1);
    place.local_size = local_size == nullptr ? 0 : number_or(local_size, 0, 1, place.size);
    const int most = (place.local_size == 0 ? place.size : place.local_size) - 1;
    place.local_rank = number_or(local_rank, 0, 0, most);
    return place;
  }

  /// Adds where rank 0 waits, of launchers that do not say so themselves.
  void add_address(LaunchPlace& place) const {
    if (text("TUTTI_RENDEZVOUS")) return read_rendezvous(place);
    place.address = text_or_empty("MASTER_ADDR");
    place.port = number_or("MASTER_PORT", 0, 1, kMostPorts);
  }

  /// Where no address is told and all processes have one host, adds a loopback one, with a port that the job's name
  /// gives to all of them.
  void add_address_of_one_host(LaunchPlace& place, bool one_host) const {
    if (!one_host || place.port != 0 || place.job.empty() || !place.address.empty()) return;
    std::uint64_t digest = 0xCBF29CE484222325U;  // FNV-1a
    for (const char each : place.job) digest = (digest ^ static_cast<unsigned char>(each)) * 0x100000001B3U;
    for (const std::uint64_t factor : {0xFF51AFD7ED558CCDU, 0xC4CEB9FE1A85EC53U})  // mixed, as MurmurHash3 ends
      digest = (digest ^ digest >> 33U) * factor;
    place.address = "127.0.0.1";
    place.port = kFirstPortOfJobs + static_cast<int>((digest ^ digest >> 33U) % kPortsOfJobs);
  }

  void read_rendezvous(LaunchPlace& place) const {
    const std::string value = text_or_empty("TUTTI_RENDEZVOUS");
    const std::size_t colon = value.rfind(':');
    std::string host = value.substr(0, colon);
    const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) host = host.substr(1, host.size() - 2);
    int port = 0;
    const char* const last = value.data() + value.size();
    const bool has_port = colon != std::string::npos &&
                          std::from_chars(value.data() + colon + 1, last, port).ptr == last && port >= 1 &&
                          port <= kMostPorts;
    if (!has_port || host.empty() || (!bracketed && host.find_first_of(":[]") != std::string::npos))
      raise<Error>(
          "[launch] TUTTI_RENDEZVOUS is \"{}\": it must be \"host:port\", of IPv6 \"[address]:port\", with a port from "
          "1 "
          "to {}",
          value, kMostPorts);
    place.address = host;
    place.port = port;
  }

 private:
  const EnvironmentReader& read_;
};

// Who sets a part of these expects this process in a job.
std::optional<LaunchPlace> of_tutti(const Variables& variables) {
  constexpr const char* kNames[] = {"TUTTI_RANK", "TUTTI_WORLD_SIZE", "TUTTI_RENDEZVOUS"};
  // An address alone goes with others' ranks.
  if (!variables.text("TUTTI_RANK") && !variables.text("TUTTI_WORLD_SIZE")) return std::nullopt;
  for (const char* name : kNames)
    if (!variables.text(name))
      raise<Error>(
          "[launch] {} is not set, though {} is: a process of a job needs TUTTI_RANK, TUTTI_WORLD_SIZE and "
          "TUTTI_RENDEZVOUS",
          name, variables.text("TUTTI_RANK") ? "TUTTI_RANK" : "TUTTI_WORLD_SIZE");
  LaunchPlace place =
      variables.place("TUTTI_*", "TUTTI_RANK", "TUTTI_WORLD_SIZE", "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_WORLD_SIZE");
  variables.read_rendezvous(place);
  place.job = variables.text_or_empty("TUTTI_JOB");
  return place;
}

std::optional<LaunchPlace> of_torchrun(const Variables& variables) {
  if (!variables.all_set({"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})) return std::nullopt;
  LaunchPlace place = variables.place("RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  place.address = variables.text_or_empty("MASTER_ADDR");
  place.port = variables.number("MASTER_PORT", 1, kMostPorts);
  // torchrun's agent listens on that port itself. All processes have to come to another one by themselves.
  if (const auto run = variables.text("TORCHELASTIC_RUN_ID")) {
    place.launcher = "torchrun";
    place.job = *run;
    place.port = place.port == kMostPorts ? place.port - 1 : place.port + 1;
  }
  return place;
}

std::optional<LaunchPlace> of_open_mpi(const Variables& variables) {
  if (!variables.all_set({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"})) return std::nullopt;
  LaunchPlace place = variables.place("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                      "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  variables.add_address(place);
  place.job = variables.text_or_empty("PMIX_NAMESPACE");
  variables.add_address_of_one_host(place, place.local_size == place.size);
  return place;
}

std::optional<LaunchPlace> of_mpich(const Variables& variables) {
  if (!variables.all_set({"PMI_RANK", "PMI_SIZE"})) return std::nullopt;
  LaunchPlace place = variables.place("MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  variables.add_address(place);
  return place;
}

// Of a step of srun: a script of sbatch sees the job's number of tasks, and is alone.
std::optional<LaunchPlace> of_slurm(const Variables& variables) {
  if (!variables.all_set(
          {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_NODELIST", "SLURM_STEP_ID"}))
    return std::nullopt;
  LaunchPlace place = variables.place("SLURM", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr);
  variables.add_address(place);
  place.job = variables.text_or_empty("SLURM_JOB_ID") + "." + variables.text_or_empty("SLURM_STEP_ID");
  variables.add_address_of_one_host(place, variables.text_or_empty("SLURM_STEP_NUM_NODES") == "1" &&
                                               variables.all_set({"SLURM_JOB_ID"}) &&
                                               !variables.text("SLURM_HET_SIZE"));
  if (place.address.empty()) place.address = first_host(variables.text_or_empty("SLURM_STEP_NODELIST"));
  return place;
}

std::optional<LaunchPlace> of_indexed_job(const Variables& variables) {
  if (!variables.all_set({"JOB_COMPLETION_INDEX", "WORLD_SIZE", "MASTER_ADDR"})) return std::nullopt;
  LaunchPlace place = variables.place("an Indexed Job", "JOB_COMPLETION_INDEX", "WORLD_SIZE", "LOCAL_RANK", nullptr);
  variables.add_address(place);
  return place;
}

// What no launcher completed, and yet somebody has set for a process that has others.
void refuse_half(const Variables& variables) {
  const bool ranked = variables.text("RANK").has_value();
  const bool sized = variables.text("WORLD_SIZE").has_value();
  if (sized ? variables.number("WORLD_SIZE", 1, kMostProcesses) == 1 : !ranked) return;
  const char* missing = !sized                           ? "WORLD_SIZE"
                        : !variables.text("MASTER_ADDR") ? "MASTER_ADDR"
                        : !ranked                        ? "RANK"
                                                         : "MASTER_PORT";
  raise<Error>(
      "[launch] {} is not set, though {} is: a process of a job needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT to "
      "find the others; one that is alone has none of them",
      missing, ranked ? "RANK" : "WORLD_SIZE");
}

// PMIx numbers a job's processes, and tells only who calls it how many there are. A program that initialises Open MPI
// without mpirun finds such a number, too, and is alone.
void refuse_number_alone(const Variables& variables) {
  if (!variables.text("PMIX_RANK") || variables.text("WORLD_SIZE")) return;
  if (variables.text_or_empty("OMPI_MCA_ess") == "singleton") return;
  raise<Error>(
      "[launch] PMIX_RANK is set, and nothing that says how many processes there are, as by prun: set TUTTI_RANK, "
      "TUTTI_WORLD_SIZE and TUTTI_RENDEZVOUS, or start them with mpirun or srun; WORLD_SIZE=1 if this one is alone");
}

}  // namespace

LaunchPlace launch_place(const EnvironmentReader& read) {
  const Variables variables(read);
  for (const auto launcher : {of_tutti, of_torchrun, of_open_mpi, of_mpich, of_slurm, of_indexed_job})
    if (auto place = launcher(variables)) return *place;
  refuse_half(variables);
  refuse_number_alone(variables);
  return {};
}

LaunchPlace launch_place() {
  return launch_place([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

std::string first_host(const std::string& nodes) {
  const auto check = [&](bool good) {
    if (!good) raise<Error>("[launch] \"{}\" is no list of hosts as SLURM writes it", nodes);
  };
  std::string host;
  // Names and numbers in brackets by turns: "rack[1-2]-node[03,07]".
  std::size_t place = 0;
  while (place < nodes.size() && nodes[place] != ',') {
    if (nodes[place] != '[') {
      host += nodes[place++];
      continue;
    }
    const std::size_t close = nodes.find(']', place);
    check(close != std::string::npos);
    const std::size_t end = nodes.find_first_not_of("0123456789", ++place);
    check(end > place && (nodes[end] == '-' || nodes[end] == ',' || nodes[end] == ']'));
    host += nodes.substr(place, end - place);
    place = close + 1;
  }
  check(!host.empty() && host.find_first_of("[] \t") == std::string::npos);
  return host;
}

}  // namespace tutti
