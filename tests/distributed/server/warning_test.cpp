// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/log.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/tests/distributed/device_threads.h>
#include <tutti/tests/distributed/two_branches.h>
#include <tutti/tests/heard_lines.h>

#include <doctest/doctest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

TEST_CASE("warnings: without SyncOptions::warn the log sink hears them, and what it throws harms nobody") {
  HeardLines heard;
  set_log_sink([&](LogLevel level, std::string_view text) {
    heard.add((level == LogLevel::warning ? "warning: " : "other: ") + std::string(text));
    throw std::runtime_error("the host's log is full");
  });
  {
    GradientSync sync(test_devices(2), {.warn_after = 50ms, .fail_after = 60s});
    const auto replicas = sync.replicate(TwoBranches{});
    run_devices(2, [&](std::size_t d) {
      for (int i = 0; d == 1 && i < 1000 && heard.text().empty(); ++i) std::this_thread::sleep_for(10ms);
      auto step = sync.step(test_device(d));
      step.backward(use(replicas[d].left, 1.0));
    });
  }
  set_log_sink({});
  CHECK(heard.text().find("warning: [") == 0);
  CHECK(heard.text().find("other: ") == std::string::npos);
}
