// SPDX-License-Identifier: Apache-2.0
// Trainings on several hosts: network namespaces stand for them, connected by a bridge in one more.
#include <tutti/tests/distributed/processes/training_rank.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

bool succeeds(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }
void run_command(const std::string& command) {
  if (!succeeds(command)) throw std::runtime_error(command + " failed");
}

// Whether this process may make network namespaces: root with `ip`, mostly.
bool makes_namespaces() {
  static const bool makes = [] {
    const std::string name = "tutti-probe-" + std::to_string(getpid());
    if (!succeeds("ip netns add " + name)) return false;
    const bool connects = succeeds("ip -n " + name + " link add name bridge0 type bridge") &&
                          succeeds("ip -n " + name + " link add name end0 type veth peer name end1");
    succeeds("ip netns del " + name);
    return connects;
  }();
  return makes;
}

/// Namespaces on one network, gone with this.
class Hosts {
 public:
  explicit Hosts(std::size_t count) {
    try {
      add("hub");
      run_command("ip -n " + names_[0] + " link add name bridge0 type bridge");
      run_command("ip -n " + names_[0] + " link set bridge0 up");
      for (std::size_t host = 0; host < count; ++host) {
        const std::string number = std::to_string(host);
        add("host" + number);
        run_command("ip -n " + names_[0] + " link add name p" + number + " type veth peer name eth0 netns " +
                    name(host));
        run_command("ip -n " + names_[0] + " link set p" + number + " master bridge0 up");
        run_command("ip -n " + name(host) + " link set lo up");
        run_command("ip -n " + name(host) + " addr add " + address(host) + "/24 dev eth0");
        run_command("ip -n " + name(host) + " addr add " + address_ipv6(host) + "/64 dev eth0 nodad");
        run_command("ip -n " + name(host) + " link set eth0 up");
      }
    } catch (...) {
      remove();
      throw;
    }
  }
  ~Hosts() { remove(); }
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  const std::string& name(std::size_t host) const { return names_[host + 1]; }
  static std::string address(std::size_t host) { return "10.213.7." + std::to_string(host + 1); }
  static std::string address_ipv6(std::size_t host) { return "fd00:213::" + std::to_string(host + 1); }
  void cut(std::size_t host) const {
    run_command("ip -n " + names_[0] + " link set p" + std::to_string(host) + " down");
  }

  /// One rank on each host, with that many devices.
  std::vector<std::unique_ptr<TrainingRank>> start(const std::vector<std::size_t>& devices, int steps,
                                                   const std::string& engine, const std::string& rank_0,
                                                   int silence = 20'000) const {
    std::vector<std::unique_ptr<TrainingRank>> job;
    std::size_t first = 0;
    for (std::size_t rank = 0; rank < devices.size(); ++rank) {
      job.push_back(std::make_unique<TrainingRank>(RankStart{.rank = rank,
                                                             .ranks = devices.size(),
                                                             .port = 29'517,
                                                             .devices = devices[rank],
                                                             .steps = steps,
                                                             .engine = engine,
                                                             .first = first,
                                                             .address = rank_0,
                                                             .inside = {"ip", "netns", "exec", name(rank)},
                                                             .local_ranks = 1,
                                                             .silence = silence}));
      first += devices[rank];
    }
    return job;
  }

 private:
  void add(const std::string& what) {
    names_.push_back("tutti-" + std::to_string(getpid()) + "-" + what);
    run_command("ip netns add " + names_.back());
  }
  void remove() {
    for (const std::string& each : names_) succeeds("ip netns del " + each);
  }

  std::vector<std::string> names_;  // the hub's first
};

// Addresses at which a process's network namespace listens, as /proc has them.
std::vector<std::string> listening(pid_t pid) {
  std::vector<std::string> addresses;
  for (const char* file : {"/net/tcp", "/net/tcp6"}) {
    std::ifstream lines("/proc/" + std::to_string(pid) + file);
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::string number;
      std::string local;
      std::string remote;
      std::string state;
      std::istringstream(line) >> number >> local >> remote >> state;
      if (state == "0A") addresses.push_back(local.substr(0, local.find(':')));
    }
  }
  return addresses;
}

}  // namespace

TEST_CASE("hosts: two and three hosts train to the bits of one process, also over IPv6" *
          doctest::skip(!makes_namespaces())) {
  const std::string expected = digest_alone(40);
  const Hosts hosts(3);
  for (const std::string& address : {Hosts::address(0), "[" + Hosts::address_ipv6(0) + "]"})
    for (const char* engine : {"automatic", "plain"})
      for (const std::vector<std::size_t>& devices : {std::vector<std::size_t>{2, 2}, {1, 3}, {2, 1, 1}}) {
        CAPTURE(address);
        CAPTURE(engine);
        auto job = hosts.start(devices, 40, engine, address);
        for (const auto& rank : job) {
          CHECK(rank->line({"engine", "error"}) == "engine network");  // abstract sockets end at a namespace
          CHECK(rank->line({"digest", "error"}) == expected);
        }
      }
}

TEST_CASE("hosts: nobody listens at a wildcard address" * doctest::skip(!makes_namespaces())) {
  const Hosts hosts(2);
  auto job = hosts.start({1, 1}, 1'000'000, "automatic", Hosts::address(0));
  for (const auto& rank : job) {
    rank->await_steps();
    const auto addresses = listening(rank->pid());
    CHECK(!addresses.empty());
    for (const std::string& address : addresses) CHECK(address.find_first_not_of('0') != std::string::npos);
  }
}

TEST_CASE("hosts: a killed process and a host that is cut off are named" * doctest::skip(!makes_namespaces())) {
  const Hosts hosts(3);
  for (const bool cut : {false, true}) {
    auto job = hosts.start({1, 1, 1}, 1'000'000, "automatic", Hosts::address(0), 2000);
    for (const auto& rank : job) rank->await_steps();
    if (cut)
      hosts.cut(1);
    else
      job[1]->signal(SIGKILL);
    for (const std::size_t rank : {0, 2}) {
      const std::string error = job[rank]->line({"error"});
      CHECK_MESSAGE(error.find("rank 1 on ") != std::string::npos, error);
    }
    if (!cut) continue;
    const std::string error = job[1]->line({"error"});
    CHECK_MESSAGE(error.find("rank 0 on ") != std::string::npos, error);
  }
}

TEST_SUITE_END();
