// SPDX-License-Identifier: Apache-2.0
// Who watches: deadlines of "never", what `warn` and `dump` may call, who drives a device, and what cannot be had.
#include <tutti/distributed/gradient_sync.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/heard_lines.h>
#include <tutti/tests/no_threads.h>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

struct Pair {
  explicit Pair(SyncOptions options = {})
      : sync(std::make_unique<GradientSync>(test_devices(2), std::move(options))),
        replicas(sync->replicate(TwoBranches{})) {}
  // Touches the replica inside the step only, which one thread at a time can have open.
  void step(std::size_t d) {
    auto step = sync->step(test_device(d));
    replicas[d].zero_grad();
    step.backward(use(replicas[d].left, 1.0));
  }
  std::unique_ptr<GradientSync> sync;
  std::vector<TwoBranches> replicas;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::exception_ptr burnt() { return std::make_exception_ptr(std::runtime_error("burnt")); }
}  // namespace

TEST_CASE("watch: a deadline of never warns nobody and fails nobody") {
  for (const auto& [warn_after, fail_after] :
       {std::pair(milliseconds::max(), milliseconds::max()), std::pair(milliseconds::max(), milliseconds(60'000)),
        std::pair(milliseconds(60'000), milliseconds::max())}) {
    HeardLines warnings;
    Pair pair({.warn_after = warn_after, .fail_after = fail_after, .warn = [&](const std::string& text) {
                 warnings.add(text);
               }});
    run_devices(2, [&](std::size_t d) {
      if (d == 1) std::this_thread::sleep_for(700ms);
      pair.step(d);
    });
    std::thread late([&] {
      std::this_thread::sleep_for(400ms);
      pair.sync->barrier(test_device(1));
    });
    CHECK_NOTHROW(pair.sync->barrier(test_device()));
    late.join();
    CHECK(warnings.text() == "");
  }
}

TEST_CASE("watch: a deadline that cannot be meant is refused by name") {
  for (const milliseconds wrong : {milliseconds(0), milliseconds(-1), milliseconds::min()}) {
    CHECK_THROWS_WITH_AS(GradientSync(test_devices(2), {.warn_after = wrong}), doctest::Contains("warn_after"),
                         SyncError);
    CHECK_THROWS_WITH_AS(GradientSync(test_devices(2), {.fail_after = wrong}), doctest::Contains("fail_after"),
                         SyncError);
  }
}

TEST_CASE("watch: a warning may fail the group, and what would wait in it is an error") {
  HeardLines errors;
  GradientSync* group = nullptr;
  Pair pair({.warn_after = 50ms, .fail_after = 60s, .warn = [&](const std::string&) {
               try {
                 (void)group->step(test_device(1));
               } catch (const SyncError& error) {
                 errors.add(error.what());
               }
               try {
                 group->barrier(test_device(1));
               } catch (const SyncError& error) {
                 errors.add(error.what());
               }
               (void)group->recent_events();
               (void)group->report();
               group->busy(test_device(1), "lost");
               group->fail(test_device(), burnt());  // a device that is waiting
             }});
  group = pair.sync.get();
  std::string error;
  try {
    pair.step(0);
  } catch (const SyncError& failed) {
    error = failed.what();
  }
  CHECK_MESSAGE(contains(error, "burnt"), error);
  CHECK_MESSAGE(contains(error, as_tested("cpu:0")), error);
  CHECK_MESSAGE(contains(errors.text(), "[sync.step] called by SyncOptions::warn or dump"), errors.text());
  CHECK_MESSAGE(contains(errors.text(), "[barrier] called by"), errors.text());
  const GradientSync::Rejoining all[] = {{test_device(), 0}, {test_device(1), 0}};
  pair.sync->rejoin_all(all);
  run_devices(2, [&](std::size_t d) { pair.step(d); });
}

TEST_CASE("watch: a warning may close the group") {
  GradientSync* group = nullptr;
  Pair pair({.warn_after = 50ms, .fail_after = 60s, .warn = [&](const std::string&) { group->close(); }});
  group = pair.sync.get();
  CHECK_THROWS_WITH_AS(pair.step(0), doctest::Contains("closed"), SyncError);
}

TEST_CASE("watch: a warning may end the group's object") {
  std::unique_ptr<GradientSync> group;
  const SyncOptions options{.warn_after = 50ms, .fail_after = 60s, .warn = [&](const std::string&) { group.reset(); }};
  group = std::make_unique<GradientSync>(test_devices(2), options);
  auto step = group->step(test_device());
  step.synchronize_async();
  CHECK_THROWS_WITH_AS(step.join(), doctest::Contains("closed"), SyncError);
}

TEST_CASE("watch: a dump may call fail and close, and what it throws is told") {
  HeardLines warnings;
  HeardLines dumps;
  GradientSync* group = nullptr;
  Pair pair({.fail_after = 60s,
             .warn = [&](const std::string& text) { warnings.add(text); },
             .dump =
                 [&](const std::string& text) {
                   dumps.add(text);
                   group->fail(test_device(), burnt());
                   group->fail(test_device(1), burnt());
                   group->busy(test_device(), "dumping");
                   (void)group->recent_events();
                   group->rejoin(test_device(), 0);
                 }});
  group = pair.sync.get();
  const auto errors = errors_of_devices(2, [&](std::size_t d) {
    if (d == 1) return pair.sync->fail(test_device(1), std::make_exception_ptr(std::runtime_error("no data")));
    pair.step(d);
  });
  CHECK_MESSAGE(contains(errors[0], "no data"), errors[0]);
  CHECK_MESSAGE(contains(dumps.text(), "no data"), dumps.text());
  for (int i = 0; i < 400 && warnings.text().empty(); ++i) std::this_thread::sleep_for(10ms);
  CHECK_MESSAGE(contains(warnings.text(), "[sync.rejoin] called by SyncOptions::warn or dump"), warnings.text());
}

TEST_CASE("watch: a thread that reports a failure, or is refused in a dump, does not drive the device") {
  const auto step_until_failed = [](Pair& pair) -> std::string {
    for (;;) {
      try {
        pair.step(0);
      } catch (const SyncError& failed) {
        return failed.what();
      }
    }
  };
  SUBCASE("before the first step") {
    for (int i = 0; i < 100; ++i) {
      Pair pair({.fail_after = 60s});
      std::string error;
      std::atomic<int> ready{0};
      const auto meet = [&] {
        for (++ready; ready < 2;) std::this_thread::yield();
      };
      std::thread driver([&] {
        meet();
        error = step_until_failed(pair);
      });
      meet();
      pair.sync->fail(test_device(), burnt());
      driver.join();
      REQUIRE_MESSAGE(contains(error, "burnt"), error);
    }
  }
  SUBCASE("in a dump") {
    GradientSync* group = nullptr;
    std::atomic<bool> dumps{false};
    Pair pair({.fail_after = 60s,
               .warn = [](const std::string&) {},
               .dump =
                   [&](const std::string&) {
                     dumps = true;
                     for (int i = 0; i < 2000; ++i) CHECK_THROWS_AS(group->rejoin(test_device(), 0), SyncError);
                   }});
    group = pair.sync.get();
    std::thread failing([&] { pair.sync->fail(test_device(1), burnt()); });  // which runs the dump
    while (!dumps) std::this_thread::yield();
    std::string error;
    for (int i = 0; i < 50 && (error.empty() || contains(error, "burnt")); ++i) error = step_until_failed(pair);
    failing.join();
    CHECK_MESSAGE(contains(error, "burnt"), error);
  }
}

TEST_CASE("watch: two threads that drive one device are both told, and so are the others") {
  Pair pair({.warn_after = 60s, .fail_after = 60s});
  const auto errors = errors_of_devices(3, [&](std::size_t t) {
    const std::size_t d = t == 2 ? 1 : 0;  // threads 0 and 1 drive one device
    try {
      for (int i = 0; i < 100'000; ++i) pair.step(d);
    } catch (const SyncError&) {
      pair.sync->fail(test_device(d), std::current_exception());
      throw;
    }
  });
  for (const std::string& error : errors) {
    CHECK_MESSAGE(contains(error, as_tested("cpu:0")), error);
    CHECK_FALSE(error.empty());
  }
}

TEST_CASE("watch: a second thread in a device that waits fails the wait, naming the device") {
  Pair pair({.fail_after = 60s});
  std::atomic<bool> waits{false};
  std::string operation = "[sync.leave]";
  std::function<void(GradientSync&)> second_use = [](GradientSync& sync) { sync.leave(test_device()); };
  SUBCASE("by leaving") {}
  SUBCASE("by a collective, which the others would take for its own") {
    operation = "[all_reduce]";
    second_use = [&](GradientSync& sync) { (void)sync.all_reduce(test_device(), pair.replicas[0].right); };
  }
  std::string first;
  std::thread waiting([&] {
    try {
      auto step = pair.sync->step(test_device());
      step.backward_async(use(pair.replicas[0].left, 1.0));
      waits = true;
      step.join();
    } catch (const SyncError& error) {
      first = error.what();
    }
  });
  while (!waits) std::this_thread::yield();
  std::this_thread::sleep_for(300ms);
  std::string second;
  try {
    second_use(*pair.sync);
  } catch (const SyncError& error) {
    second = error.what();
  }
  waiting.join();
  CHECK_MESSAGE(contains(second, operation + (" " + std::string(as_tested("cpu:0")))), second);
  CHECK_MESSAGE(contains(first, "two threads"), first);
  CHECK_MESSAGE(contains(first, as_tested("cpu:0")), first);
}

TEST_CASE("watch: any thread may fail a device that another one waits in") {
  Pair pair({.fail_after = 60s});
  std::string error;
  std::thread waiting([&] {
    try {
      pair.step(0);
    } catch (const SyncError& failed) {
      error = failed.what();
    }
  });
  std::this_thread::sleep_for(100ms);
  pair.sync->fail(test_device(), burnt());
  waiting.join();
  CHECK_MESSAGE(contains(error, "burnt"), error);
}

TEST_CASE("watch: any thread may end a device's wait in rejoin, and all may rejoin after it") {
  Pair pair({.fail_after = milliseconds::max()});
  (void)errors_of_devices(2, [&](std::size_t d) {
    if (d == 1) return pair.sync->fail(test_device(1), burnt());
    pair.step(d);
  });
  std::atomic<bool> ended{false};
  std::string error;
  std::thread waiting([&] {
    try {
      pair.sync->rejoin(test_device(), 0);
    } catch (const SyncError& failed) {
      error = failed.what();
    }
    ended = true;
  });
  for (int i = 0; i < 1000 && !ended; ++i) {  // it may not have joined yet
    std::this_thread::sleep_for(10ms);
    pair.sync->fail(test_device(), std::make_exception_ptr(std::runtime_error("the host goes down")));
  }
  waiting.join();
  CHECK_MESSAGE(contains(error, as_tested("[rejoin] cpu:0 failed before a group had formed: ")), error);
  CHECK_MESSAGE(contains(error, "the host goes down"), error);
  run_devices(2, [&](std::size_t d) {
    pair.sync->rejoin(test_device(d), 0);
    pair.step(d);
  });
}

TEST_CASE("watch: no_sync scopes may end in any order") {
  Pair pair({.reduction = GradientReduction::sum});
  auto step0 = pair.sync->step(test_device());
  auto step1 = pair.sync->step(test_device(1));
  auto first = std::unique_ptr<NoSync>(new NoSync(step0.no_sync()));
  backward(use(pair.replicas[0].left, 1.0));
  auto second = std::unique_ptr<NoSync>(new NoSync(step1.no_sync()));
  backward(use(pair.replicas[1].left, 2.0));
  first.reset();
  backward(use(pair.replicas[1].left, 3.0));  // still under the second
  second.reset();
  CHECK_THROWS_AS(backward(use(pair.replicas[1].left, 1.0)), AutodiffError);
  step0.synchronize_async();
  step1.synchronize_async();
  join_all(step0, step1);
  CHECK(gradient_of(pair.replicas[0].left) == Values{6, 6});
}

TEST_CASE("watch: a no_sync scope that ended on another thread fails its step, and leaves nothing behind") {
  Pair pair;
  {
    auto step = pair.sync->step(test_device());
    auto scope = std::unique_ptr<NoSync>(new NoSync(step.no_sync()));
    backward(use(pair.replicas[0].left, 1.0));
    std::thread([&] { scope.reset(); }).join();
    CHECK_THROWS_WITH_AS(step.backward(use(pair.replicas[0].left, 1.0)), doctest::Contains("another thread"),
                         SyncError);
    CHECK_THROWS_WITH_AS(step.synchronize(), doctest::Contains(as_tested("cpu:0")), SyncError);
  }
  const GradientSync::Rejoining all[] = {{test_device(), 0}, {test_device(1), 0}};
  pair.sync->rejoin_all(all);
  run_devices(2, [&](std::size_t d) { pair.step(d); });
  const auto step = pair.sync->step(test_device());
  CHECK_THROWS_AS(backward(use(pair.replicas[0].left, 1.0)), AutodiffError);  // the old scope is over on this thread
}

TEST_CASE("watch: a no_sync scope that outlives its step counts in no other") {
  Pair pair({.reduction = GradientReduction::weighted_mean});
  std::unique_ptr<NoSync> scope;
  {
    auto step = pair.sync->step(test_device(), 4);
    scope.reset(new NoSync(step.no_sync(3)));
    backward(use(pair.replicas[0].left, 1.0));
  }
  const GradientSync::Rejoining all[] = {{test_device(), 0}, {test_device(1), 0}};
  pair.sync->rejoin_all(all);
  auto step0 = pair.sync->step(test_device(), 4);
  auto step1 = pair.sync->step(test_device(1), 4);
  SUBCASE("ended here") { scope = nullptr; }
  SUBCASE("ended on another thread") {
    std::thread([&] { scope = nullptr; }).join();
  }
  step0.backward_async(use(pair.replicas[0].left, 1.0));
  step1.backward_async(use(pair.replicas[1].left, 3.0));
  join_all(step0, step1);
  CHECK(step0.total_weight() == 8);
  CHECK(gradient_of(pair.replicas[1].left) == Values{2, 2});
}

TEST_CASE("watch: events that no memory holds are refused by name") {
  for (const std::size_t many : {std::size_t{1} << 60U, ~std::size_t{0}, std::size_t{1} << 40U})
    CHECK_THROWS_WITH_AS(GradientSync(test_devices(2), {.recorded_events = many}), doctest::Contains("recorded_events"),
                         SyncError);
}

TEST_CASE("watch: a group for which no thread can be had is an error, and leaves nothing behind") {
  {
    const NoThreads none;
    CHECK_THROWS_WITH_AS(GradientSync(test_devices(2)), doctest::Contains("no thread can be started"), SyncError);
  }
  Pair pair;
  run_devices(2, [&](std::size_t d) { pair.step(d); });
}
