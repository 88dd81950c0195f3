// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/checkpoints/checkpoint_folder.h>

#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/train/checkpoints/checkpointed_run.h>
#include <tutti/train/checkpoints/tensor_file.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#ifdef __linux__
#include <sys/resource.h>
#endif

using namespace tutti;
using namespace tutti::testing;

namespace {

namespace fs = std::filesystem;

std::vector<std::int64_t> steps_of(const CheckpointFolder& folder) {
  std::vector<std::int64_t> steps;
  for (const std::string& path : folder.paths()) steps.push_back(std::stoll(path.substr(path.rfind('-') + 1)));
  return steps;
}

/// A part whose text a test chooses.
struct Stubborn {
  std::string text = "x";
};
PartState part_state(const Stubborn& part) { return {{}, part.text}; }
Install prepare_part(Stubborn& part, const PartState& state) {
  return [&part, text = state.text] { part.text = text; };
}

}  // namespace

TEST_CASE("checkpoint folder: interrupted after a save and resumed, a run ends as it would have") {
  const TemporaryFolder folder;
  CheckpointedRun whole;
  whole.run(30);
  {
    CheckpointFolder checkpoints(folder.file("run"), {.every_steps = 4});
    CheckpointedRun run;
    CHECK(!checkpoints.load_newest(run.parts));
    run.run(15, [&](CheckpointMoment moment) { checkpoints.save_if_due(moment, run.parts, run.progress); });
  }
  CheckpointFolder checkpoints(folder.file("run"));
  CheckpointedRun resumed(2);
  const auto loaded = checkpoints.load_newest(resumed.parts);
  REQUIRE(loaded);
  CHECK(loaded->progress == CheckpointProgress{12, 1, 0});
  CHECK(loaded->damaged.empty());
  CHECK(loaded->unused_parts.empty());
  resumed.resume(*loaded);
  resumed.run(30);
  CHECK((resumed.result() == whole.result()));
}

TEST_CASE("checkpoint folder: saves when it is asked to, once for the same progress") {
  const TemporaryFolder folder;
  CheckpointParts parts;
  Generator random(1);
  parts.add("random", random);
  CheckpointFolder checkpoints(folder.file("run"),
                               {.every_steps = 4, .every_epochs = 2, .every_windows = 3, .max_to_keep = 0});
  const auto saves = [&](CheckpointMoment moment, const CheckpointProgress& progress) {
    return checkpoints.save_if_due(moment, parts, progress);
  };
  CHECK(!saves(CheckpointMoment::step, {0, 0, 0}));
  CHECK(!saves(CheckpointMoment::step, {3, 0, 0}));
  CHECK(saves(CheckpointMoment::step, {4, 0, 0}));
  CHECK(!saves(CheckpointMoment::step, {4, 0, 0}));
  CHECK(!saves(CheckpointMoment::epoch, {5, 1, 0}));
  CHECK(saves(CheckpointMoment::epoch, {8, 2, 0}));
  CHECK(!saves(CheckpointMoment::window, {9, 2, 1}));
  CHECK(saves(CheckpointMoment::window, {9, 2, 3}));
  CHECK(!saves(CheckpointMoment::end, {9, 2, 3}));
  CHECK(saves(CheckpointMoment::end, {10, 2, 3}));
  checkpoints.wait();
  CHECK(steps_of(checkpoints) == std::vector<std::int64_t>{4, 8, 9, 10});
  checkpoints.load(checkpoints.paths().at(2), parts);
  CHECK(!saves(CheckpointMoment::end, {9, 2, 3}));
  CHECK(saves(CheckpointMoment::end, {10, 2, 3}));  // it is another run's 10 that is there
  checkpoints.wait();
  CHECK(steps_of(checkpoints) == std::vector<std::int64_t>{4, 8, 9, 10, 10});
  CheckpointFolder another(folder.file("another"));
  another.load(checkpoints.paths().back(), parts);
  CHECK(another.save_if_due(CheckpointMoment::end, parts, {10, 2, 3}));  // this folder has none
  CheckpointFolder never(folder.file("never"), {.at_end = false});
  CHECK(!never.save_if_due(CheckpointMoment::end, parts, {10, 2, 3}));
  CHECK(!fs::exists(folder.file("never")));
  CHECK_THROWS_AS(CheckpointFolder("x", {.max_to_keep = -1}), Error);
}

TEST_CASE("checkpoint folder: keeps the newest by the order of writing") {
  const TemporaryFolder folder;
  CheckpointParts parts;
  Generator random(1);
  parts.add("random", random);
  CheckpointFolder checkpoints(folder.file("run"), {.max_to_keep = 2});
  for (const std::int64_t step : {10, 20, 30}) checkpoints.save(parts, {step, 0, 0});
  checkpoints.wait();
  CHECK(steps_of(checkpoints) == std::vector<std::int64_t>{20, 30});
  checkpoints.load(checkpoints.paths().front(), parts);
  checkpoints.save(parts, {25, 0, 0});  // a run that began again at 20
  checkpoints.wait();
  CHECK(steps_of(checkpoints) == std::vector<std::int64_t>{30, 25});
  CHECK(checkpoints.load_newest(parts)->progress.step == 25);
  checkpoints.save(parts, {30, 0, 0});  // beside the other of that step, which is the older one
  checkpoints.wait();
  CHECK(steps_of(checkpoints) == std::vector<std::int64_t>{25, 30});
}

TEST_CASE("checkpoint folder: several writers share the arrays out, any number reads them") {
  const TemporaryFolder folder;
  CheckpointedRun run;
  run.run(3);
  for (const std::size_t writers : {1, 3, 8, 100}) {
    CAPTURE(writers);
    CheckpointFolder checkpoints(folder.file(std::to_string(writers)),
                                 {.save_concurrency = writers,
                                  .background = writers != 3,
                                  .copies = writers == 8 ? CheckpointCopies::on_host : CheckpointCopies::on_device});
    checkpoints.save(run.parts, run.progress);
    checkpoints.wait();
    const std::string path = checkpoints.paths().at(0);
    const auto files = std::distance(fs::directory_iterator(path), fs::directory_iterator());
    CHECK(files == 1 + static_cast<std::ptrdiff_t>(std::min<std::size_t>(writers, 17)));
    CheckpointedRun other(2);
    checkpoints.load_newest(other.parts);
    CHECK((other.result() == run.result()));
  }
}

TEST_CASE("checkpoint folder: periods below 0 are refused by name") {
  CHECK_THROWS_WITH_AS(CheckpointFolder("unused", {.every_epochs = -1}), "[checkpoint] every_epochs is -1: below 0",
                       Error);
}

TEST_CASE("checkpoint folder: filters of saving and loading") {
  const TemporaryFolder folder;
  CheckpointedRun run;
  run.run(3);
  CheckpointFolder saving(folder.file("run"), {.save_filter = {.exclude = {"average", "model/output.*"}}});
  saving.save(run.parts, run.progress);
  saving.wait();
  CheckpointedRun other(2);
  const auto kept = other.model.output.weight.to_vector<float>();
  CheckpointFolder strict(folder.file("run"));
  CHECK_THROWS_WITH_AS(strict.load_newest(other.parts), doctest::Contains("has no part \"average\""), DataError);
  CheckpointFolder loading(folder.file("run"), {.load_filter = {.exclude = {"average"}}});
  loading.load_newest(other.parts);
  CHECK(other.model.output.weight.to_vector<float>() == kept);
  CHECK(other.model.hidden.weight.to_vector<float>() == run.model.hidden.weight.to_vector<float>());
}

TEST_CASE("checkpoint folder: with any byte changed or cut off, or a file gone, the one before is loaded") {
  const TemporaryFolder folder;
  Linear model = [] {
    Generator random(1);
    return Linear(2, 3, random, {.device = test_device()});
  }();
  CheckpointParts parts;
  parts.add("model", model);
  std::vector<std::string> reports;
  CheckpointFolder checkpoints(
      folder.file("run"), {.save_concurrency = 2, .report = [&](const std::string& text) { reports.push_back(text); }});
  checkpoints.save(parts, {1, 0, 0});
  const auto older = model.weight.to_vector<float>();
  model.weight.set_array(Array::full({3, 2}, 7, DType::f32, test_device()));
  checkpoints.save(parts, {2, 0, 0});
  checkpoints.wait();
  const std::string newest = checkpoints.paths().back();
  const auto check_older = [&] {
    reports.clear();
    const auto loaded = checkpoints.load_newest(parts);
    CHECK(loaded->progress.step == 1);
    CHECK(loaded->damaged.size() == 1);
    CHECK(reports.size() == 1);
    CHECK(model.weight.to_vector<float>() == older);
  };
  for (const char* name : {"manifest.json", "tensors-0.safetensors", "tensors-1.safetensors"}) {
    CAPTURE(name);
    const std::string file = newest + "/" + name;
    const std::string bytes = read_file(file);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      CAPTURE(i);
      put_byte(file, i, static_cast<char>(bytes[i] ^ (1 << (i % 8))));
      CHECK_THROWS_AS(read_checkpoint_folder(newest), DataError);
      if (i % 100 == 0) check_older();
      put_byte(file, i, bytes[i]);
    }
    for (std::size_t length = bytes.size(); length-- > 0;) {
      CAPTURE(length);
      fs::resize_file(file, length);
      CHECK_THROWS_AS(read_checkpoint_folder(newest), DataError);
      if (length % 100 == 0) check_older();
    }
    write_file(file, bytes + "x");
    check_older();
    fs::remove(file);
    check_older();
    write_file(file, bytes);
  }
  CHECK(checkpoints.load_newest(parts)->progress.step == 2);
  fs::copy_file(newest + "/tensors-0.safetensors", checkpoints.paths().front() + "/tensors-0.safetensors",
                fs::copy_options::overwrite_existing);
  CHECK_THROWS_WITH_AS(checkpoints.load(checkpoints.paths().front(), parts),
                       doctest::Contains("is of another checkpoint"), DataError);
}

TEST_CASE("checkpoint folder: damage is an error where the options say so, and offers the older one") {
  const TemporaryFolder folder;
  Generator random(1);
  CheckpointParts parts;
  parts.add("random", random);
  CheckpointFolder checkpoints(folder.file("run"), {.damaged = CheckpointFolderOptions::Damaged::fail});
  for (const std::int64_t step : {1, 2, 3}) checkpoints.save(parts, {step, 0, 0});
  checkpoints.wait();
  const auto paths = checkpoints.paths();
  fs::remove(paths[2] + "/manifest.json");
  const std::string offer = "the newest whole checkpoint is " + paths[1];
  CHECK_THROWS_WITH_AS(checkpoints.load_newest(parts), doctest::Contains(offer.c_str()), DataError);
  CHECK(checkpoints.load(paths[1], parts).progress.step == 2);
  for (const std::string& path : paths) fs::remove(path + "/manifest.json");
  CHECK_THROWS_WITH_AS(checkpoints.load_newest(parts), doctest::Contains("no older one"), DataError);
  CheckpointFolder lenient(folder.file("run"), {.report = [](const std::string&) {}});
  CHECK_THROWS_WITH_AS(lenient.load_newest(parts), doctest::Contains("all 3 checkpoints"), DataError);
}

TEST_CASE("checkpoint folder: another model is an error, and all stays as it was") {
  const TemporaryFolder folder;
  CheckpointedRun run;
  CheckpointFolder checkpoints(folder.file("run"));
  checkpoints.save(run.parts, {});
  CheckpointedRun wider(1, 13);
  const std::string before = wider.result();
  CHECK_THROWS_WITH_AS(checkpoints.load_newest(wider.parts), doctest::Contains("does not fit part \"model\""),
                       DataError);
  CHECK((wider.result() == before));
  CHECK(checkpoints.load_newest(run.parts));
}

TEST_CASE("checkpoint folder: leftovers of a killed writer are not loaded, and removed by the next save") {
  const TemporaryFolder folder;
  Generator random(1);
  CheckpointParts parts;
  parts.add("random", random);
  const std::string path = folder.file("run");
  for (const char* name : {"/checkpoint-00000009-step-9.tmp", "/checkpoint-x-step-1", "/mine"})
    fs::create_directories(path + name);
  write_file(path + "/checkpoint-00000009-step-9.tmp/manifest.json", "{");
  CheckpointFolder checkpoints(path);
  CHECK(!checkpoints.load_newest(parts));
  CHECK(fs::exists(path + "/checkpoint-00000009-step-9.tmp"));
  checkpoints.save(parts, {1, 0, 0});
  checkpoints.wait();
  CHECK(!fs::exists(path + "/checkpoint-00000009-step-9.tmp"));
  CHECK(fs::exists(path + "/mine"));
  CHECK(steps_of(checkpoints) == std::vector<std::int64_t>{1});
}

TEST_CASE("checkpoint folder: one that cannot be written is named as it would have been") {
  const TemporaryFolder folder;
  Generator random(1);
  CheckpointParts parts;
  parts.add("random", random);
  write_file(folder.file("file"), "");
  CheckpointFolder checkpoints(folder.file("file") + "/run");
  const std::string expected = "[checkpoint] " + folder.file("file") + "/run cannot be written: Not a directory";
  CHECK_THROWS_WITH_AS(checkpoints.save(parts, {1, 0, 0}), expected.c_str(), DataError);
  CHECK_THROWS_WITH_AS(checkpoints.claim(), expected.c_str(), DataError);
}

TEST_CASE("checkpoint folder: one writer at a time") {
  const TemporaryFolder folder;
  Generator random(1);
  CheckpointParts parts;
  parts.add("random", random);
  CheckpointFolder second(folder.file("run"));
  {
    CheckpointFolder first(folder.file("run"));
    first.save(parts, {1, 0, 0});
    CHECK_THROWS_WITH_AS(second.save(parts, {2, 0, 0}), doctest::Contains("written to by another"), DataError);
    first.wait();
    CHECK(second.load_newest(parts)->progress.step == 1);
  }
  {
    CheckpointFolder claiming(folder.file("run"));
    claiming.claim();
    claiming.claim();
    CHECK_THROWS_WITH_AS(second.claim(), doctest::Contains("written to by another"), DataError);
  }
  second.save(parts, {2, 0, 0});
  second.wait();
  CHECK(steps_of(second) == std::vector<std::int64_t>{1, 2});
}

TEST_CASE("checkpoint folder: an error of the background comes once, at the next save, wait or end") {
  const TemporaryFolder folder;
  Stubborn stubborn{"\xff"};  // cannot be written
  CheckpointParts parts;
  parts.add("stubborn", stubborn);
  std::vector<std::string> reports;
  {
    CheckpointFolder checkpoints(
        folder.file("run"), {.every_steps = 1, .report = [&](const std::string& text) { reports.push_back(text); }});
    CHECK(checkpoints.save_if_due(CheckpointMoment::step, parts, {1, 0, 0}));
    CHECK_THROWS_WITH_AS(checkpoints.wait(), doctest::Contains("cannot be written"), DataError);
    CHECK_NOTHROW(checkpoints.wait());
    CHECK(checkpoints.paths().empty());
    CHECK(checkpoints.save_if_due(CheckpointMoment::step, parts, {1, 0, 0}));  // it is not there yet
    CHECK_THROWS_AS(checkpoints.save(parts, {2, 0, 0}), DataError);
    stubborn.text = "y";
    CHECK(checkpoints.save(parts, {2, 0, 0}));
    checkpoints.wait();
    CHECK(steps_of(checkpoints) == std::vector<std::int64_t>{2});
    stubborn.text = "\xff";
    checkpoints.save(parts, {3, 0, 0});
  }
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].find("cannot be written") != std::string::npos);
  CHECK(std::distance(fs::directory_iterator(folder.file("run")), fs::directory_iterator()) == 2);  // and .lock
}

TEST_CASE("checkpoint folder: what is no folder is refused") {
  const TemporaryFolder folder;
  write_file(folder.file("file"), "");
  CheckpointFolder checkpoints(folder.file("file"));
  const CheckpointParts parts;
  CHECK_THROWS_AS(checkpoints.save(parts, {}), DataError);
  CHECK_THROWS_AS(checkpoints.load_newest(parts), DataError);
  CHECK_THROWS_AS(checkpoints.load(folder.file("none"), parts), DataError);
  CHECK_THROWS_AS(CheckpointFolder(folder.file("run")).save(parts, {.step = -7}), Error);
}

#ifdef __linux__
TEST_CASE("checkpoint folder: its writers give way to the training, unless that waits for them") {
  const auto priority = [](const std::string& thread) { return getpriority(PRIO_PROCESS, std::stoul(thread)); };
  const int own = priority("0");
  const auto lowest = [&] {  // of this process's threads
    int found = own;
    for (const auto& thread : fs::directory_iterator("/proc/self/task"))
      found = std::max(found, priority(thread.path().filename().string()));
    return found;
  };
  for (const bool background : {true, false}) {
    CAPTURE(background);
    const TemporaryFolder folder;
    CheckpointedRun run;
    bool gave_way = false;
    // A look may come after they have ended.
    for (int i = 0; i < 100 && !gave_way; ++i) {
      CheckpointFolder checkpoints(folder.file("run"), {.max_to_keep = 1, .background = background});
      std::atomic<bool> looked{false};
      std::thread looking([&] {
        while (!looked) gave_way = gave_way || lowest() > own;
      });
      checkpoints.save(run.parts, {i, 0, 0});
      checkpoints.wait();
      looked = true;
      looking.join();
      CHECK(priority("0") == own);
    }
    CHECK(gave_way == (background && own < 19));  // there is nothing below that
  }
}
#endif

TEST_CASE("checkpoint folder: while one is being written, the next waits or is skipped") {
  const TemporaryFolder folder;
  Generator random(1);
  CheckpointParts parts;
  parts.add("random", random);
  parts.add("bulk",
            CheckpointParts::Part{[] {
                                    return PartState{{{"zeros", Array::zeros({1 << 18}, DType::f32, cpu())}}, {}};
                                  },
                                  [](const PartState&) -> Install { return [] {}; }});
  CheckpointFolder skipping(folder.file("skipping"), {.max_to_keep = 0, .busy = CheckpointFolderOptions::Busy::skip});
  std::int64_t saved = 0;
  for (std::int64_t step = 1; step <= 3; ++step) saved += skipping.save(parts, {step, 0, 0}) ? 1 : 0;

  CHECK(saved < 3);
  CHECK(skipping.save_if_due(CheckpointMoment::end, parts, {4, 0, 0}));  // is not skipped
  ++saved;
  skipping.wait();
  CHECK(static_cast<std::int64_t>(skipping.paths().size()) == saved);
  CheckpointFolder waiting(folder.file("waiting"), {.max_to_keep = 0});
  for (std::int64_t step = 1; step <= 3; ++step) CHECK(waiting.save(parts, {step, 0, 0}));
  waiting.wait();
  CHECK(waiting.paths().size() == 3);
}
