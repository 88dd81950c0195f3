// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/report/sync_events.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/test_devices.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

using namespace tutti;
using namespace tutti::testing;

namespace {

using Kind = SyncEvent::Kind;

SyncEvent event(std::int64_t generation) {
  return {SyncEvent::Time{}, generation, SyncEvent::kNone, SyncEvent::kNone, Kind::released};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

void step(GradientSync& sync, std::vector<TwoBranches>& replicas) {
  run_devices(replicas.size(), [&](std::size_t d) {
    replicas[d].zero_grad();
    auto step = sync.step(test_device(d));
    step.backward(use(replicas[d].left, 1.0));
  });
}

void fail(GradientSync& sync) {
  errors_of_devices(sync.devices().size(), [&](std::size_t d) {
    auto step = sync.step(test_device(d));
    if (d == 1) throw std::runtime_error("burnt");
    step.synchronize();
  });
}

}  // namespace

TEST_CASE("sync_events: the ring keeps the last events, oldest first") {
  SyncEvents events(3);
  CHECK(events.last().empty());
  const auto generations = [&] {
    std::vector<std::int64_t> result;
    for (const SyncEvent& kept : events.last()) result.push_back(kept.generation);
    return result;
  };
  for (int i = 1; i <= 2; ++i) events.add(event(i));
  CHECK(generations() == std::vector<std::int64_t>{1, 2});
  events.add(event(3));
  CHECK(generations() == std::vector<std::int64_t>{1, 2, 3});
  for (int i = 4; i <= 8; ++i) events.add(event(i));
  CHECK(generations() == std::vector<std::int64_t>{6, 7, 8});
  SyncEvents none(0);
  none.add(event(1));
  CHECK(none.last().empty());
}

TEST_CASE("sync_events: a line has the time since the start, generation, event, device and parameter") {
  const std::vector<Device> devices{test_device(), test_device(1)};
  const std::vector<SyncParameter> parameters{{"left", {2}, DType::f32}, {"right", {2}, DType::f32}};
  const SyncEvent::Time start{std::chrono::seconds(10)};
  const SyncEvent events[] = {{start + std::chrono::milliseconds(1500), 7, 1, 1, Kind::submitted},
                              {start + std::chrono::seconds(2), 7, SyncEvent::kNone, SyncEvent::kNone, Kind::released}};
  CHECK(events_text(events, start, GroupMembers(members_of(devices)), parameters) ==
        as_tested("    1.500000 s  generation 7       submit         cpu:1  \"right\"\n"
                  "    2.000000 s  generation 7       release\n"));
}

TEST_CASE("sync_events: a step leaves its events, also without recorded steps") {
  for (const std::size_t steps : {std::size_t{64}, std::size_t{0}}) {
    GradientSync sync(test_devices(2), {.recorded_steps = steps});
    auto replicas = sync.replicate(TwoBranches{});
    step(sync, replicas);
    for (const Device device : test_devices(2)) synchronize(device);
    const std::string text = sync.recent_events();
    CAPTURE(text);
    CHECK(count(text, "  register") == 2);
    CHECK(count(text, "  submit ") == 2);
    CHECK(count(text, "  launch ") == 1);
    CHECK(count(text, "  finish ") == (steps == 0 ? 0 : 1));
    CHECK(count(text, "  sync") == 2);
    CHECK(count(text, "  release") == 1);
    CHECK(count(text, "  join") == 2);
    CHECK(count(text, "\"left\"") == (steps == 0 ? 3 : 4));
    CHECK(text.find("  submit ") < text.find("  launch "));
    CHECK(text.find("  launch ") < text.find("  release"));
  }
}

TEST_CASE("sync_events: a failure is dumped once, with its error and the failure last; a close is not") {
  std::vector<std::string> dumps;
  std::string error;
  {
    GradientSync sync(test_devices(2), {.dump = [&](const std::string& text) { dumps.push_back(text); }});
    auto replicas = sync.replicate(TwoBranches{});
    step(sync, replicas);
    CHECK(dumps.empty());
    fail(sync);
    REQUIRE(dumps.size() == 1);  // when the devices have their errors, the dump is complete
    const std::string& text = dumps.front();
    CAPTURE(text);
    CHECK(text.rfind(as_tested("[sync] cpu:1 failed in generation 2"), 0) == 0);
    CHECK(count(text, "  release") == 1);
    CHECK(count(text, as_tested("  device failed  cpu:1")) == 1);
    CHECK(text.find("  fail ", text.rfind('\n', text.size() - 2)) != std::string::npos);
    CHECK(text.back() == '\n');
  }
  CHECK(dumps.size() == 1);
}

TEST_CASE("sync_events: 0 keeps none and dumps none; a dump that throws harms nobody") {
  int dumped = 0;
  GradientSync off(test_devices(2), {.recorded_events = 0, .dump = [&](const std::string&) { ++dumped; }});
  auto replicas = off.replicate(TwoBranches{});
  step(off, replicas);
  CHECK(off.recent_events().empty());
  fail(off);
  CHECK(dumped == 0);
  GradientSync throwing(test_devices(2), {.dump = [](const std::string&) { throw std::runtime_error("full"); }});
  auto others = throwing.replicate(TwoBranches{});
  fail(throwing);
  run_devices(2, [&](std::size_t d) { throwing.rejoin(test_device(d), 0); });
  step(throwing, others);
  CHECK(count(throwing.recent_events(), "  rejoin") == 2);
  CHECK(count(throwing.recent_events(), "group      2") == 1);
}

TEST_CASE("sync_events: TUTTI_SYNC_DUMP names the file that failures are appended to") {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("tutti-events-{}.txt", getpid())).string();
  setenv("TUTTI_SYNC_DUMP", path.c_str(), 1);
  for (int i = 0; i < 2; ++i) {
    GradientSync sync(test_devices(2));
    auto replicas = sync.replicate(TwoBranches{});
    fail(sync);
  }
  unsetenv("TUTTI_SYNC_DUMP");
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::remove(path.c_str());
  CHECK(count(text.str(), as_tested("[sync] cpu:1 failed in generation 1")) == 2);
  CHECK(count(text.str(), "  fail ") == 2);
}
