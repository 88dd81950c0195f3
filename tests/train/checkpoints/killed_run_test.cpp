// SPDX-License-Identifier: Apache-2.0
// A training run that is killed as by kill -9, wherever it is, and begun again, ends bitwise where one that was left
// alone ends. The run is this program once more, with one test case.
#include <tutti/train/checkpoints/checkpoint_folder.h>

#include <tutti/examples/stepping_process.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/train/checkpoints/checkpointed_run.h>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr const char* kFolderVariable = "TUTTI_TEST_RUN_FOLDER";
constexpr std::int64_t kSteps = 44;

/// The run in a process of its own.
stepping::SteppingProcess start_run(const std::string& folder) {
  setenv(kFolderVariable, folder.c_str(), 1);
  const std::unique_ptr<const char, int (*)(const char*)> inherited(kFolderVariable, &unsetenv);
  return stepping::SteppingProcess({"--test-case=killed run: the run*"});
}

bool has_unfinished(const std::string& folder) {
  if (!std::filesystem::exists(folder)) return false;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().string().ends_with(kUnfinishedSuffix)) return true;
  return false;
}

}  // namespace

// Also what the processes run.
TEST_CASE("killed run: the run, left alone") {
  const TemporaryFolder own;
  const char* const folder = std::getenv(kFolderVariable);
  const bool told = folder != nullptr;
  CheckpointedRun run;
  CheckpointFolder checkpoints(
      told ? folder : own.file("run"),
      {.every_steps = told ? 2 : 11, .every_epochs = 1, .max_to_keep = 3, .save_concurrency = 2});
  if (const auto loaded = checkpoints.load_newest(run.parts)) {
    REQUIRE(loaded->damaged.empty());
    run.resume(*loaded);
  }
  run.run(kSteps, [&](CheckpointMoment moment) {
    checkpoints.save_if_due(moment, run.parts, run.progress);
    if (told && moment == CheckpointMoment::step) stepping::tell_step();
  });
  checkpoints.save_if_due(CheckpointMoment::end, run.parts, run.progress);
  checkpoints.wait();
  CheckpointedRun whole;
  whole.run(kSteps);
  CHECK((run.result() == whole.result()));
}

TEST_CASE("killed run: killed at twenty random points, it ends as if it had not been") {
  CheckpointedRun whole;
  whole.run(kSteps);
  const std::string expected = whole.result();
  Generator random(7);
  std::int64_t kills = 0;
  std::int64_t unfinished = 0;
  for (int chain = 0; kills < 20; ++chain) {
    CAPTURE(chain);
    REQUIRE(chain < 20);
    const TemporaryFolder folder;
    const std::string path = folder.file("run");
    for (int i = 0; i < 10; ++i) {
      auto process = start_run(path);
      for (std::uint64_t left = random.below(8); left > 0; --left)
        if (!process.wait_for_step()) break;
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(4000)));
      if (!process.kill_now()) break;
      ++kills;
      unfinished += has_unfinished(path) ? 1 : 0;
    }
    CHECK(start_run(path).ends_well());
    CheckpointedRun end(2);
    CheckpointFolder checkpoints(path);
    const auto loaded = checkpoints.load_newest(end.parts);
    REQUIRE(loaded);
    CHECK(loaded->progress.step == kSteps);
    CHECK(loaded->damaged.empty());
    CHECK((end.result() == expected));
  }
  CHECK(unfinished > 0);  // killed while it was writing a checkpoint
}
