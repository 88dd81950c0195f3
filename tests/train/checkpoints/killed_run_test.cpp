// SPDX-License-Identifier: Apache-2.0
// A training run that is killed as by kill -9, wherever it is, and begun again, ends bitwise where one that was left
// alone ends. The run is this program once more, with one test case.
#include <tutti/train/checkpoints/checkpoint_folder.h>

#include <tutti/examples/stepping_process.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/train/checkpoints/checkpointed_run.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr const char* kFolderVariable = "TUTTI_TEST_RUN_FOLDER";
constexpr std::int64_t kSteps = 44;
// What the process says, beside its steps.
constexpr char kBegun = 'b';  // it has loaded what there was, and trains now
constexpr char kEnded = 'e';  // its last checkpoint is on the disk

/// The run in a process of its own.
stepping::SteppingProcess start_run(const std::string& folder) {
  setenv(kFolderVariable, folder.c_str(), 1);
  const std::unique_ptr<const char, int (*)(const char*)> inherited(kFolderVariable, &unsetenv);
  return stepping::SteppingProcess({"--test-case=killed run: the run*"});
}

using Unfinished = std::map<std::string, std::filesystem::file_time_type>;

/// Checkpoints that were being written. Older ones than the newest whole one were being removed.
Unfinished unfinished_in(const std::string& folder) {
  Unfinished found;
  std::string newest;
  if (!std::filesystem::exists(folder)) return found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kUnfinishedSuffix))
      found.emplace(name, entry.last_write_time());
    else
      newest = std::max(newest, name);
  }
  std::erase_if(found, [&](const auto& each) { return each.first < newest; });
  return found;
}

struct Kill {
  bool in_training = false;  // it had begun, and had not ended
  bool in_writing = false;   // a checkpoint, that was not left by the process before
};

Kill kill_somewhere(const std::string& folder, Generator& random) {
  const Unfinished before = unfinished_in(folder);
  auto process = start_run(folder);
  Kill kill;
  char word = process.wait_for_word();
  kill.in_training = word == kBegun;
  for (std::uint64_t left = random.below(8); left > 0 && word != 0; --left) word = process.wait_for_word();
  std::this_thread::sleep_for(std::chrono::microseconds(random.below(4000)));
  kill.in_training = process.kill_now() && kill.in_training && word != kEnded;
  while ((word = process.wait_for_word()) != 0)
    if (word == kEnded) kill.in_training = false;
  for (const auto& [name, time] : unfinished_in(folder)) {
    const auto old = before.find(name);
    kill.in_writing |= kill.in_training && (old == before.end() || old->second != time);
  }
  return kill;
}

/// What the run comes to from what is in the folder, in this process and without further checkpoints.
std::string result_from(const std::string& folder, bool& from_checkpoint) {
  CheckpointedRun run;
  CheckpointFolder checkpoints(folder);
  const auto loaded = checkpoints.load_newest(run.parts);
  from_checkpoint = loaded.has_value();
  if (loaded) {
    CHECK(loaded->damaged.empty());
    run.resume(*loaded);
  }
  run.run(kSteps);
  return run.result();
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
  if (told) stepping::tell(kBegun);
  run.run(kSteps, [&](CheckpointMoment moment) {
    checkpoints.save_if_due(moment, run.parts, run.progress);
    if (told && moment == CheckpointMoment::step) stepping::tell_step();
  });
  checkpoints.save_if_due(CheckpointMoment::end, run.parts, run.progress);
  checkpoints.wait();
  if (told) stepping::tell(kEnded);
  CheckpointedRun whole;
  whole.run(kSteps);
  CHECK((run.result() == whole.result()));
}

TEST_CASE("killed run: killed at twenty random points, it ends as if it had not been") {
  CheckpointedRun whole;
  whole.run(kSteps);
  const std::string expected = whole.result();
  Generator random(7);
  int kills = 0;
  int resumed = 0;  // of them, from a checkpoint: others had made none
  int in_writing = 0;
  for (int chain = 0; kills < 20 || resumed < 15 || in_writing < 3; ++chain) {
    CAPTURE(chain);
    REQUIRE(chain < 20);
    const TemporaryFolder folder;
    const std::string path = folder.file("run");
    for (int i = 0; i < 10; ++i) {
      const Kill kill = kill_somewhere(path, random);
      if (!kill.in_training) break;  // it has come to its end
      ++kills;
      in_writing += kill.in_writing ? 1 : 0;
      bool from_checkpoint = false;
      CHECK((result_from(path, from_checkpoint) == expected));
      resumed += from_checkpoint ? 1 : 0;
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
  MESSAGE(kills, " kills, ", resumed, " with a checkpoint, ", in_writing, " while one was being written");
}
