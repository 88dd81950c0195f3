// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/engines/nccl/rank_processes.h>

#include <doctest/doctest.h>

using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

ProcessCommand shell(const std::string& script) { return {{"/bin/sh", "-c", script}, {{"TUTTI_SAID", "7"}}}; }

}  // namespace

TEST_CASE("processes: each ending is told apart") {
  const auto endings = run_processes(
      {shell("exit 0"), shell("exit 3"), shell("kill -9 $$"), shell("exit $TUTTI_SAID"), {{"/nonexistent/program"}}},
      20s);
  CHECK(endings[0].empty());
  CHECK(endings[1] == "ended with status 3");
  CHECK(endings[2] == "was killed by signal 9");
  CHECK(endings[3] == "ended with status 7");
  CHECK(endings[4].find("did not start") == 0);
}

TEST_CASE("processes: one that hangs is killed at the deadline") {
  const auto endings = run_processes({shell("exec sleep 100"), shell("exit 0")}, 200ms);
  CHECK(endings == std::vector<std::string>{"had not ended after 0.2 s", ""});
}

TEST_CASE("processes: when one fails, those that wait for it end soon") {
  const auto endings = run_processes({shell("exec sleep 100"), shell("exit 5")}, 60s, 50ms);
  CHECK(endings == std::vector<std::string>{"was killed: another failed", "ended with status 5"});
}
