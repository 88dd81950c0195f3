// SPDX-License-Identifier: Apache-2.0
// Trainings on several hosts: network namespaces stand for them, connected by a bridge in one more.
#include <tutti/tests/distributed/processes/training_rank.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

bool succeeds(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }
void run_command(const std::string& command) {
  if (!succeeds(command)) throw std::runtime_error(command + " failed");
}

// As slow, and with as short a queue, that packets wait and are lost in trainings as small as these.
constexpr const char* kThrottle = " root tbf rate 5mbit burst 4kb latency 50ms";

/// What this process may do to network namespaces: all as root with `ip`, `tc` and `iptables`, mostly.
struct Means {
  bool makes = false;  // namespaces, and connects them
  bool throttles = false;
  bool filters = false;
};

const Means& means() {
  static const Means found = [] {
    Means means;
    const std::string name = "tutti-probe-" + std::to_string(getpid());
    if (!succeeds("ip netns add " + name)) return means;
    means.makes = succeeds("ip -n " + name + " link add name bridge0 type bridge") &&
                  succeeds("ip -n " + name + " link add name end0 type veth peer name end1");
    means.throttles = means.makes && succeeds("tc -n " + name + " qdisc add dev end0" + kThrottle);
    means.filters = means.makes && succeeds("ip netns exec " + name + " iptables -A INPUT -i end0 -j DROP");
    succeeds("ip netns del " + name);
    return means;
  }();
  return found;
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
  /// "INPUT -i": nothing comes to it any more. "OUTPUT -o": nothing leaves it.
  void cut_one_way(std::size_t host, const std::string& way) const {
    run_command("ip netns exec " + name(host) + " iptables -A " + way + " eth0 -j DROP");
  }
  /// Slows its link down, both ways.
  void throttle(std::size_t host) const {
    run_command("tc -n " + name(host) + " qdisc add dev eth0" + kThrottle);
    run_command("tc -n " + names_[0] + " qdisc add dev p" + std::to_string(host) + kThrottle);
  }

  /// How often packets have waited to be sent to a host whose link is slow.
  int throttled(std::size_t host) const {
    const std::string command = "tc -n " + names_[0] + " -s qdisc show dev p" + std::to_string(host);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(popen(command.c_str(), "r"), pclose);
    std::string text(4096, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), output.get()));
    const std::string name = "overlimits ";
    const std::size_t place = text.find(name);
    REQUIRE_MESSAGE(place != std::string::npos, text);
    return std::stoi(text.substr(place + name.size()));
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

constexpr int kSilence = 2000;
constexpr auto kPromised = std::chrono::milliseconds(kSilence) + 500ms;
constexpr auto kSlack = 3500ms;  // for a busy machine

// Where an error has "rank 1 on ", or as "rank 1 has gone; rank 1 is on" by whose line has ended before anybody judged.
std::size_t place_in(const std::string& error, std::string text) {
  const std::size_t place = error.find(text);
  if (!text.ends_with(" on ")) return place;
  return std::min(place, error.find(text.insert(text.size() - 3, "is ")));
}

/// Checks that both others name rank 1 of three, cut off since then, that it says `by_rank_1`, and that the last of
/// these errors comes in time.
void check_cut(const std::vector<std::unique_ptr<TrainingRank>>& job, std::chrono::steady_clock::time_point cut,
               const std::string& by_rank_1) {
  std::string errors;
  for (std::size_t rank = 0; rank < job.size(); ++rank) {
    const std::string error = job[rank]->line({"failed", "error"});
    errors += "\n  " + error;
    CHECK_MESSAGE(place_in(error, rank == 1 ? by_rank_1 : "rank 1 on ") != std::string::npos, "rank ", rank, ": ",
                  error);
    // Whom the one that is cut off misses nobody else blames.
    const std::size_t other = place_in(error, rank == 2 ? "rank 0 on " : "rank 2 on ");
    if (rank != 1) CHECK_MESSAGE(place_in(error, "rank 1 on ") < other, "rank ", rank, ": ", error);
  }
  using std::chrono::milliseconds;
  const auto took = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - cut);
  CHECK_MESSAGE(took <= kPromised + kSlack, "the last error came ", took.count(), " ms after the cut, not within ",
                kPromised.count(), " ms and ", kSlack.count(), " ms of slack:", errors);
}

}  // namespace

TEST_CASE("hosts: two and three hosts train to the bits of one process, also over IPv6" *
          doctest::skip(!means().makes)) {
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

TEST_CASE("hosts: nobody listens at a wildcard address" * doctest::skip(!means().makes)) {
  const Hosts hosts(2);
  auto job = hosts.start({1, 1}, 1'000'000, "automatic", Hosts::address(0));
  for (const auto& rank : job) {
    rank->await_steps();
    const auto addresses = listening(rank->pid());
    CHECK(!addresses.empty());
    for (const std::string& address : addresses) CHECK(address.find_first_not_of('0') != std::string::npos);
  }
}

TEST_CASE("hosts: a killed process and a host that is cut off are named" * doctest::skip(!means().makes)) {
  const Hosts hosts(3);
  for (const bool cut : {false, true}) {
    auto job = hosts.start({1, 1, 1}, 1'000'000, "automatic", Hosts::address(0), kSilence);
    for (const auto& rank : job) rank->await_steps();
    const auto since = std::chrono::steady_clock::now();
    if (cut) {
      hosts.cut(1);
      check_cut(job, since, "rank 0 on ");
      continue;
    }
    job[1]->signal(SIGKILL);
    for (const std::size_t rank : {0, 2}) {
      const std::string error = job[rank]->line({"error"});
      CHECK_MESSAGE(place_in(error, "rank 1 on ") != std::string::npos, error);
    }
  }
}

TEST_CASE("hosts: a host that is cut off in one direction is named" * doctest::skip(!means().filters)) {
  for (const auto& [way, by_rank_1] :
       {std::pair("INPUT -i", "rank 0 on "), std::pair("OUTPUT -o", "has said nothing for ")}) {
    CAPTURE(way);
    const Hosts hosts(3);
    auto job = hosts.start({1, 1, 1}, 1'000'000, "automatic", Hosts::address(0), kSilence);
    for (const auto& rank : job) rank->await_steps();
    const auto since = std::chrono::steady_clock::now();
    hosts.cut_one_way(1, way);
    check_cut(job, since, by_rank_1);
  }
}

TEST_CASE("hosts: over a slow link two hosts train to the bits of one process" * doctest::skip(!means().throttles)) {
  const std::string expected = digest_alone(60, 8);
  const Hosts hosts(2);
  hosts.throttle(1);
  auto job = hosts.start({4, 4}, 60, "automatic", Hosts::address(0));
  for (const auto& rank : job) CHECK(rank->line({"digest", "error"}) == expected);
  CHECK(hosts.throttled(1) > 0);
}

TEST_SUITE_END();
