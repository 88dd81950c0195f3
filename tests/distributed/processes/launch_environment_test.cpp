// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/launch_environment.h>

#include <tutti/backend/error.h>

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;

namespace {

using Variables = std::map<std::string, std::string>;

LaunchPlace place_in(const Variables& variables) {
  return launch_place([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

void check(const LaunchPlace& place, const LaunchPlace& expected) {
  CHECK(place.launcher == expected.launcher);
  CHECK(place.rank == expected.rank);
  CHECK(place.size == expected.size);
  CHECK(place.local_rank == expected.local_rank);
  CHECK(place.local_size == expected.local_size);
  CHECK(place.address == expected.address);
  CHECK(place.port == expected.port);
  CHECK(place.job == expected.job);
}

const Variables kTutti{{"TUTTI_RANK", "2"}, {"TUTTI_WORLD_SIZE", "4"}, {"TUTTI_RENDEZVOUS", "10.0.0.1:4000"}};
const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "head"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RUN_ID", "run7"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "prterun-head-1@1"}};
const Variables kMpich{{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "1"}};
const Variables kSlurm{{"SLURM_PROCID", "6"},
                       {"SLURM_STEP_NUM_TASKS", "8"},
                       {"SLURM_LOCALID", "2"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_JOB_ID", "123"},
                       {"SLURM_NTASKS", "8"},
                       {"SLURM_STEP_NODELIST", "node[07-08]"}};
const Variables kIndexedJob{{"JOB_COMPLETION_INDEX", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "job-0.job"}};

}  // namespace

TEST_CASE("launch_environment: nothing is set: alone") {
  check(place_in({}), {});
  CHECK(place_in({}).alone());
  CHECK(place_in({{"WORLD_SIZE", "1"}, {"MASTER_ADDR", "head"}, {"TUTTI_RENDEZVOUS", "head:4000"}}).alone());
  CHECK(place_in({}).variable.empty());
  CHECK(place_in({{"TUTTI_RANK", ""}, {"TUTTI_WORLD_SIZE", ""}}).alone());
}

TEST_CASE("launch_environment: what each launcher sets") {
  check(place_in(kTutti), {"TUTTI_*", 2, 4, 0, 0, "10.0.0.1", 4000, ""});
  check(place_in(with(kTutti, {{"TUTTI_LOCAL_RANK", "1"}, {"TUTTI_LOCAL_WORLD_SIZE", "2"}, {"TUTTI_JOB", "a"}})),
        {"TUTTI_*", 2, 4, 1, 2, "10.0.0.1", 4000, "a"});
  // torchrun's agent listens on the port that it names.
  check(place_in(kTorchrun), {"torchrun", 3, 4, 1, 2, "head", 29501, "run7"});
  check(place_in(without(without(kTorchrun, "TORCHELASTIC_RUN_ID"), "LOCAL_WORLD_SIZE")),
        {"RANK and WORLD_SIZE", 3, 4, 1, 0, "head", 29500, ""});
  check(place_in(kOpenMpi), {"Open MPI", 1, 3, 1, 2, "", 0, "prterun-head-1@1"});
  check(place_in(kMpich), {"MPICH", 5, 8, 1, 0, "", 0, ""});
  check(place_in(kSlurm), {"SLURM", 6, 8, 2, 0, "node07", 0, "123.0"});
  check(place_in(kIndexedJob), {"an Indexed Job", 1, 3, 0, 0, "job-0.job", 0, ""});
}

TEST_CASE("launch_environment: the variable that says how many there are") {
  for (const auto& [variables, name] : {std::pair(kTutti, "TUTTI_WORLD_SIZE"),
                                        {kTorchrun, "WORLD_SIZE"},
                                        {kOpenMpi, "OMPI_COMM_WORLD_SIZE"},
                                        {kMpich, "PMI_SIZE"},
                                        {kSlurm, "SLURM_STEP_NUM_TASKS"},
                                        {kIndexedJob, "WORLD_SIZE"}})
    CHECK(place_in(variables).variable == name);
}

TEST_CASE("launch_environment: the first complete one wins") {
  Variables variables = with(kIndexedJob, kSlurm);
  CHECK(place_in(variables).launcher == "SLURM");
  variables = with(variables, kMpich);
  CHECK(place_in(variables).launcher == "MPICH");
  variables = with(variables, kOpenMpi);
  CHECK(place_in(variables).launcher == "Open MPI");
  variables = with(variables, kTorchrun);
  CHECK(place_in(variables).launcher == "torchrun");
  CHECK(place_in(without(variables, "MASTER_PORT")).launcher == "Open MPI");
  variables = with(variables, kTutti);
  CHECK(place_in(variables).launcher == "TUTTI_*");
}

TEST_CASE("launch_environment: a script of sbatch is alone, whatever its job has") {
  CHECK(place_in(without(kSlurm, "SLURM_STEP_NUM_TASKS")).alone());
}

TEST_CASE("launch_environment: where rank 0 waits is said beside those who do not") {
  check(place_in(with(kMpich, {{"TUTTI_RENDEZVOUS", "[fe80::1]:9"}})), {"MPICH", 5, 8, 1, 0, "fe80::1", 9, ""});
  check(place_in(with(kSlurm, {{"MASTER_ADDR", "other"}, {"MASTER_PORT", "77"}})),
        {"SLURM", 6, 8, 2, 0, "other", 77, "123.0"});
}

TEST_CASE("launch_environment: half of a job is an error, as others would wait") {
  for (const auto& [name, value] : kTutti) {
    const Variables variables = without(kTutti, name);
    CHECK_THROWS_WITH_AS((void)place_in(variables), doctest::Contains((name + " is not set").c_str()), Error);
  }
  const Variables variables{{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  CHECK_THROWS_WITH_AS((void)place_in(variables), doctest::Contains("MASTER_ADDR is not set"), Error);
  CHECK_THROWS_WITH_AS((void)place_in(with(variables, {{"MASTER_ADDR", "head"}})),
                       doctest::Contains("MASTER_PORT is not set"), Error);
  CHECK(place_in(with(variables, {{"WORLD_SIZE", "1"}})).alone());
  const auto refused = [](const Variables& half, const char* text) {
    CHECK_THROWS_WITH_AS((void)place_in(half), doctest::Contains(text), Error);
  };
  refused({{"RANK", "0"}}, "WORLD_SIZE is not set, though RANK is");
  refused({{"RANK", "1"}, {"MASTER_ADDR", "head"}, {"MASTER_PORT", "1"}}, "WORLD_SIZE is not set, though RANK is");
  refused({{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "head"}}, "RANK is not set, though WORLD_SIZE is");
  refused(without(kIndexedJob, "MASTER_ADDR"), "MASTER_ADDR is not set, though WORLD_SIZE is");
}

TEST_CASE("launch_environment: a number that PMIx gives is an error where nothing says how many there are") {
  const Variables prun{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "prterun-head-1@1"}};
  const auto refused = [](const Variables& variables) {
    for (const char* name :
         {"PMIX_RANK is set", "TUTTI_RANK", "TUTTI_WORLD_SIZE", "TUTTI_RENDEZVOUS", "mpirun or srun", "WORLD_SIZE=1"})
      CHECK_THROWS_WITH_AS((void)place_in(variables), doctest::Contains(name), Error);
  };
  refused(prun);
  refused(with(prun, {{"TUTTI_RENDEZVOUS", "head:4000"}, {"MASTER_ADDR", "head"}}));
  refused(with(prun, without(kSlurm, "SLURM_STEP_NUM_TASKS")));  // in a script of sbatch
  refused(with(prun, without(kOpenMpi, "OMPI_COMM_WORLD_SIZE")));
  for (const Variables& launcher : {kTutti, kTorchrun, kOpenMpi, kMpich, kSlurm, kIndexedJob})
    CHECK(place_in(with(launcher, prun)).launcher == place_in(launcher).launcher);
  CHECK(place_in(with(prun, {{"WORLD_SIZE", "1"}})).alone());
  CHECK(place_in({{"PMIX_RANK", ""}}).alone());
  // As Open MPI 4 sets them in a program that calls MPI_Init without mpirun.
  CHECK(place_in({{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "2083782657"}, {"OMPI_MCA_ess", "singleton"}}).alone());
}

TEST_CASE("launch_environment: values that cannot be meant are named") {
  const auto refused = [](const Variables& variables, const std::string& text) {
    CHECK_THROWS_WITH_AS((void)place_in(variables), doctest::Contains(text.c_str()), Error);
  };
  refused(with(kTutti, {{"TUTTI_RANK", "4"}}), "TUTTI_RANK is \"4\": it must be a number from 0 to 3");
  refused(with(kTutti, {{"TUTTI_RANK", "1x"}}), "TUTTI_RANK is \"1x\"");
  refused(with(kTutti, {{"TUTTI_WORLD_SIZE", "0"}}), "TUTTI_WORLD_SIZE is \"0\": it must be a number from 1 to ");
  refused(with(kTutti, {{"TUTTI_LOCAL_WORLD_SIZE", "5"}}), "TUTTI_LOCAL_WORLD_SIZE is \"5\"");
  refused(with(kTutti, {{"TUTTI_LOCAL_WORLD_SIZE", "2"}, {"TUTTI_LOCAL_RANK", "2"}}), "TUTTI_LOCAL_RANK is \"2\"");
  for (const char* address : {"head", "head:", ":40", "head:0", "head:65536", "head:4x", "fe80::1:40", "[]:40"})
    refused(with(kTutti, {{"TUTTI_RENDEZVOUS", address}}), std::string("TUTTI_RENDEZVOUS is \"") + address + "\"");
  refused(with(kTorchrun, {{"MASTER_PORT", "99999"}}), "MASTER_PORT is \"99999\"");
  refused(with(kSlurm, {{"SLURM_STEP_NODELIST", "node[7"}}), "\"node[7\" is no list of hosts");
}

TEST_CASE("launch_environment: a job of one host needs no address where its launcher tells a name") {
  const auto all_here = with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", kOpenMpi.at("OMPI_COMM_WORLD_SIZE")}});
  const LaunchPlace open_mpi = place_in(all_here);
  CHECK(open_mpi.address == "127.0.0.1");
  CHECK(open_mpi.port == 28'763);
  CHECK(place_in(with(all_here, {{"PMIX_NAMESPACE", "another job"}})).port != open_mpi.port);
  CHECK(place_in(with(all_here, {{"TUTTI_RENDEZVOUS", "other:77"}})).port == 77);
  const LaunchPlace half_told = place_in(with(all_here, {{"MASTER_PORT", "77"}}));
  CHECK(half_told.address.empty());
  CHECK(place_in(without(all_here, "PMIX_NAMESPACE")).address.empty());
  const LaunchPlace slurm = place_in(with(kSlurm, {{"SLURM_STEP_NUM_NODES", "1"}}));
  CHECK(slurm.address == "127.0.0.1");
  CHECK(slurm.port == 20'387);
  CHECK(place_in(with(kSlurm, {{"SLURM_STEP_NUM_NODES", "2"}})).port == 0);
  CHECK(place_in(with(kSlurm, {{"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_HET_SIZE", "2"}})).port == 0);
  CHECK(place_in(without(with(kSlurm, {{"SLURM_STEP_NUM_NODES", "1"}}), "SLURM_JOB_ID")).port == 0);
  // Ports of neighbours differ.
  std::set<int> ports;
  for (int step = 0; step < 20; ++step)
    ports.insert(place_in(with(kSlurm, {{"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_ID", std::to_string(step)}})).port);
  CHECK(ports.size() == 20);
}

TEST_CASE("launch_environment: the first host of SLURM's lists") {
  CHECK(first_host("login") == "login");
  CHECK(first_host("a.example,b") == "a.example");
  CHECK(first_host("node[07-11,20],login2") == "node07");
  CHECK(first_host("node[3,5-6]") == "node3");
  CHECK(first_host("rack[1-2]-node[03,07]x,other") == "rack1-node03x");
  for (const char* nodes : {"", ",a", "node[", "node[]", "node[a-b]", "node[1", "node]", "a b", "node[1;2]"})
    CHECK_THROWS_WITH_AS((void)first_host(nodes), doctest::Contains("is no list of hosts"), Error);
}

TEST_SUITE_END();
