// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/error.h>
#include <tutti/command/launch/launch_error.h>
#include <tutti/command/launch/launch_plan.h>
#include <tutti/distributed/processes/launch_environment.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::launch;

namespace {

const JobIdentity kJob{.rendezvous = "10.0.0.1:29400", .secret_file = "/run/secret", .job = "job7"};

LaunchOptions options_for(int processes, int hosts = 1, int host = 0) {
  return {.processes = processes,
          .hosts = hosts,
          .host = host,
          .rendezvous = hosts > 1 ? "10.0.0.1:29400" : "",
          .secret_file = hosts > 1 ? "job.secret" : "",
          .job = "",
          .program = {"./train"}};
}

// As a program reads it that was started with this environment.
LaunchPlace place_in(const std::vector<std::string>& environment) {
  std::map<std::string, std::string> values;
  for (const std::string& entry : environment) {
    const bool fresh = values.emplace(entry.substr(0, entry.find('=')), entry.substr(entry.find('=') + 1)).second;
    CHECK_MESSAGE(fresh, entry);
  }
  return launch_place([&](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  });
}

void refused(const LaunchOptions& options, const std::string& text) {
  CHECK_THROWS_WITH_AS(check(options), doctest::Contains(text.c_str()), LaunchError);
}

}  // namespace

TEST_CASE("launch_plan: programs read the places that are meant, whatever else is set") {
  const std::vector<std::string> inherited{
      "PATH=/bin",      "RANK=7",          "WORLD_SIZE=9",       "MASTER_ADDR=x",
      "MASTER_PORT=1",  "TUTTI_RANK=3",    "TUTTI_SECRET=outer", "OMPI_COMM_WORLD_RANK=5",
      "SLURM_PROCID=4", "TUTTI_RANKING=on"};
  for (int host = 0; host < 3; ++host) {
    const auto plans = plan_processes(options_for(4, 3, host), kJob);
    REQUIRE(plans.size() == 4);
    for (int local = 0; local < 4; ++local) {
      const auto environment = merged_environment(inherited, plans[local].variables);
      const LaunchPlace place = place_in(environment);
      CHECK(place.launcher == "TUTTI_*");
      CHECK(place.rank == host * 4 + local);
      CHECK(place.rank == plans[local].rank);
      CHECK(place.size == 12);
      CHECK(place.local_rank == local);
      CHECK(place.local_size == 4);
      CHECK(place.address == "10.0.0.1");
      CHECK(place.port == 29400);
      CHECK(place.job == "job7");
      for (const char* kept :
           {"PATH=/bin", "RANK=7", "SLURM_PROCID=4", "TUTTI_RANKING=on", "TUTTI_SECRET_FILE=/run/secret"})
        CHECK_MESSAGE(std::ranges::find(environment, kept) != environment.end(), kept);
      CHECK(std::ranges::find(environment, "TUTTI_SECRET=outer") == environment.end());
    }
  }
}

TEST_CASE("launch_plan: prefixes are as wide as the job's last") {
  CHECK(plan_processes(options_for(1), kJob)[0].prefix == "[0] ");
  CHECK(plan_processes(options_for(10), kJob)[9].prefix == "[9] ");
  CHECK(plan_processes(options_for(11), kJob)[9].prefix == "[ 9] ");
  CHECK(plan_processes(options_for(11), kJob)[10].prefix == "[10] ");
  CHECK(plan_processes(options_for(2, 60, 1), kJob)[1].prefix == "[  3] ");
  LaunchOptions plain = options_for(2);
  plain.prefix = false;
  CHECK(plan_processes(plain, kJob)[1].prefix.empty());
}

TEST_CASE("launch_plan: files of output have the numbers of the whole job") {
  CHECK(plan_processes(options_for(2), kJob)[1].log.empty());
  LaunchOptions kept = options_for(2, 60, 5);
  kept.logs = "logs";
  CHECK(plan_processes(kept, kJob)[1].log == "logs/rank-11.log");
}

TEST_CASE("launch_plan: options that cannot be meant are named") {
  check(options_for(1));
  check(options_for(kMostProcessesOfHost));
  check(options_for(4, 2, 1));
  refused(options_for(0), "-n is 0: it must be from 1 to 4096");
  refused(options_for(kMostProcessesOfHost + 1), "-n is 4097");
  refused(options_for(1, 0), "--hosts is 0: it must be from 1 to 1048576");
  refused(options_for(4096, 257), "--hosts is 257: it must be from 1 to 256");
  refused(options_for(4, 2, 2), "--host is 2: it must be from 0 to 1");
  refused(options_for(4, 2, -1), "--host is -1: it must be from 0 to 1");

  LaunchOptions options = options_for(4, 2);
  options.rendezvous.clear();
  refused(options, "--hosts 2 needs --rendezvous");
  options = options_for(4, 2);
  options.secret_file.clear();
  refused(options, "--hosts 2 needs --secret-file");
  options = options_for(1);
  options.program = {""};
  refused(options, "there is no program");
  for (const double grace : {-1.0, 1e7, std::numeric_limits<double>::quiet_NaN()}) {
    options = options_for(1);
    options.grace_seconds = grace;
    refused(options, "--grace is ");
  }
}

TEST_CASE("launch_plan: a rendezvous is one exactly if programs can read it") {
  for (const char* text :
       {"head:1", "10.0.0.1:29400", "[fe80::1]:9", "head:65535", "", "head", "head:", ":40", "head:0", "head:65536",
        "head:4x", "head:-4", "fe80::1:40", "[]:40", "[a]b:40", "head:+4", "head: 4"}) {
    bool read = true;
    try {
      (void)place_in({"TUTTI_RANK=0", "TUTTI_WORLD_SIZE=2", std::string("TUTTI_RENDEZVOUS=") + text});
    } catch (const Error&) {
      read = false;
    }
    CHECK_MESSAGE(is_rendezvous(text) == read, text);
  }
  LaunchOptions options = options_for(1);
  options.rendezvous = "head";
  refused(options, "--rendezvous is \"head\": it must be \"host:port\"");
}

TEST_SUITE_END();
