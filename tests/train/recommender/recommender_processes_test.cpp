// SPDX-License-Identifier: Apache-2.0
// RecommenderTrainers of several processes, which here are threads of one: together they train as one does with all
// their devices, to the bit.
#include <tutti/backend/error.h>
#include <tutti/tests/distributed/processes/process_threads.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/train/recommender/click_training.h>
#include <tutti/train/hooks/callback.h>

#include <fmt/format.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::size_t kDevices = 4;
const std::vector<std::vector<std::uint32_t>> kSplits{{2, 2}, {1, 1, 1, 1}, {1, 3}};

TrainingArguments arguments_in(const std::string& folder) {
  return {.output_dir = folder, .log_steps = 1, .train_epoch = 2, .save_steps = 2};
}

/// What each device ends with.
using Ends = std::vector<std::vector<double>>;
using Work = std::function<void(std::size_t rank, ClickRun&)>;

void train(std::size_t, ClickRun& run) { run.trainer.train_and_evaluate(); }

Ends alone(const TrainingArguments& arguments, ClickRun::Plan plan, const Work& work = train) {
  plan.devices = kDevices;
  ClickRun run(arguments, plan);
  work(0, run);
  Ends ends;
  for (std::size_t d = 0; d < kDevices; ++d) ends.push_back(run.contents(d));
  return ends;
}

std::size_t lines_of(const std::string& file) {
  const std::string text = read_file(file);
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

// Hours of a device's own, more or fewer than the next one's.
std::unique_ptr<DataStream<Batch>> own_hours(std::size_t number, Device device) {
  return std::make_unique<WindowStream<Batch>>(2 + number % 2, [=](std::int64_t hour) {
    const Examples clicks = clicks_of(hour + 10 * static_cast<std::int64_t>(number), number == 2 ? 2 : 6);
    return BatchStream(clicks, {.batch = 2, .devices = {device}, .world = {.devices = 1}, .seed = 5}).stream();
  });
}

/// Returns what each process threw.
std::vector<std::string> split_up(const std::vector<std::uint32_t>& split, bool connects,
                                  const std::function<TrainingArguments(std::size_t rank)>& arguments,
                                  ClickRun::Plan plan, Ends& ends, const Work& work = train) {
  plan.devices = kDevices;
  ends.assign(kDevices, {});
  ProcessThreads group(split, connects);
  return group.run({}, [&](std::size_t rank, GradientSync& sync) {
    ClickRun::Plan own = plan;
    own.group = &sync;
    if (plan.data)
      own.data = [&](std::size_t place) { return own_hours(sync.world().first + place, sync.devices()[place]); };
    ClickRun run(arguments(rank), own);
    work(rank, run);
    for (std::size_t d = 0; d < split[rank]; ++d) ends[group.first_of(rank) + d] = run.contents(d);
  });
}
Ends split_up(const std::vector<std::uint32_t>& split, bool connects, const TrainingArguments& arguments,
              const ClickRun::Plan& plan, const Work& work = train) {
  Ends ends;
  const auto errors = split_up(
      split, connects, [&](std::size_t) { return arguments; }, plan, ends, work);
  for (const std::string& error : errors) CHECK(error == "");
  return ends;
}

}  // namespace

TEST_SUITE_BEGIN("cpu");

TEST_CASE("recommender, several processes: tables and layers of one process, in any split, and one log") {
  const TemporaryFolder folder;
  for (const bool uneven : {false, true}) {
    ClickRun::Plan plan{.batch = 8};
    if (uneven) plan.data = [](std::size_t number) { return own_hours(number, test_device(number)); };
    const std::string name = uneven ? "uneven" : "even";
    const Ends expected = alone(arguments_in(folder.file(name)), plan);
    REQUIRE(expected[0].size() > 40);
    const auto lines = lines_of(folder.file(name) + "/metrics.jsonl");
    REQUIRE(lines > 6);
    for (const bool connects : {false, true})
      for (const auto& split : kSplits) {
        CAPTURE(connects);
        CAPTURE(split);
        const std::string run = folder.file(fmt::format("{}-{}-{}", name, connects, split.size() + split[0]));
        CHECK((split_up(split, connects, arguments_in(run), plan) == expected));
        CHECK(lines_of(run + "/metrics.jsonl") == lines);
      }
  }
}

TEST_CASE("recommender, several processes: what some began others go on with") {
  const TemporaryFolder folder;
  const ClickRun::Plan plan{.batch = 8};
  const Ends expected = alone(arguments_in(folder.file("whole")), plan);
  for (const auto& split : kSplits) {
    const std::string run = folder.file("run" + std::to_string(split.size() + split[0]));
    TrainingArguments first = arguments_in(run);
    first.train_epoch = 1;
    split_up(split, false, first, plan);
    for (const auto& next : kSplits) {
      CAPTURE(split);
      CAPTURE(next);
      std::filesystem::remove_all(folder.file("copy"));
      std::filesystem::copy(run, folder.file("copy"), std::filesystem::copy_options::recursive);
      CHECK((split_up(next, false, arguments_in(folder.file("copy")), plan) == expected));
    }
    CHECK((alone(arguments_in(run), plan) == expected));
  }
}

TEST_CASE(
    "recommender, several processes: all go on from the first one's disk, also where checkpoints lack something") {
  const TemporaryFolder folder;
  const ClickRun::Plan plan{.batch = 8};
  for (const bool whole : {true, false}) {
    CAPTURE(whole);
    const std::string name = whole ? "whole" : "lacking";
    const auto arguments = [&](const std::string& run, std::int64_t epochs) {
      TrainingArguments own = arguments_in(folder.file(name + run));
      own.train_epoch = epochs;
      if (!whole) own.params_not_save = {"output.bias"};
      return own;
    };
    split_up({2, 2}, false, arguments("", 1), plan);
    std::filesystem::copy(folder.file(name), folder.file(name + "alone"), std::filesystem::copy_options::recursive);
    const Ends expected = alone(arguments("alone", 2), plan);
    Ends ends;
    const auto errors = split_up(
        {1, 3}, false, [&](std::size_t rank) { return arguments(rank == 0 ? "" : "elsewhere", 2); }, plan, ends);
    for (const std::string& error : errors) CHECK(error == "");
    CHECK((ends == expected));
    CHECK(!std::filesystem::exists(folder.file(name + "elsewhere")));
  }
}

TEST_CASE("recommender, several processes: a model bank is loaded by all, or by none where they read other values") {
  const TemporaryFolder folder;
  const ClickRun::Plan plan{.batch = 8};
  for (const char* bank : {"bank0", "bank1"}) {
    TrainingArguments made = arguments_in(folder.file(bank));
    made.train_epoch = bank[4] == '0' ? 1 : 2;
    (void)alone(made, plan);
  }
  const auto newest = [&](const std::string& bank) {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(folder.file(bank)))
      if (entry.is_directory()) found = std::max(found, entry.path().string());
    return found;
  };
  const auto with_bank = [&](const std::string& name, const std::string& bank, bool dynamic) {
    TrainingArguments arguments = arguments_in(folder.file(name));
    arguments.model_bank = {{.path = newest(bank), .rename = {{"model/", ""}}, .dynamic = dynamic}};
    if (dynamic) arguments.load_update_steps = 4;
    return arguments;
  };
  for (const bool dynamic : {false, true}) {
    const std::string name = dynamic ? "dynamic" : "once";
    const Ends expected = alone(with_bank(name, "bank0", dynamic), plan);
    for (const auto& split : kSplits)
      CHECK((split_up(split, false, with_bank(name + std::to_string(split.size() + split[0]), "bank0", dynamic),
                      plan) == expected));
  }
  // The disk of one process has another bank, or none; from the start, or before the bank is loaded again.
  for (const bool missing : {false, true})
    for (const bool later : {false, true}) {
      CAPTURE(missing);
      CAPTURE(later);
      const std::string own = folder.file("own");
      const auto replace = [&] {
        std::filesystem::remove_all(own);
        if (!missing) std::filesystem::copy(newest("bank1"), own);
      };
      std::filesystem::remove_all(own);
      std::filesystem::copy(newest("bank0"), own);
      if (!later) replace();
      Ends ends;
      const auto errors = split_up(
          {2, 2}, false,
          [&](std::size_t rank) {
            TrainingArguments arguments = with_bank(fmt::format("differs-{}-{}", missing, later), "bank0", later);
            if (rank == 1) arguments.model_bank[0].path = own;
            return arguments;
          },
          plan, ends,
          [&](std::size_t rank, ClickRun& run) {
            if (rank == 1 && later)
              run.trainer.learner().main().register_hook(
                  std::make_shared<CallbackHook>(Callbacks{.after_step = [&](Trainer&, const StepReport& report) {
                    if (report.global_step == 3) replace();
                  }}));
            train(rank, run);
          });
      for (const std::string& error : errors) {
        CAPTURE(error);
        CHECK(error.find("all processes need the same sources") != std::string::npos);
        CHECK(error.find(missing ? "rank 1 failed: " : "rank 1 has read") != std::string::npos);
      }
    }
}

TEST_CASE("recommender, several processes: of a bank that is loaded again all choose the same") {
  const TemporaryFolder folder;
  const ClickRun::Plan plan{.batch = 8};
  TrainingArguments arguments = arguments_in(folder.file("run"));
  arguments.train_epoch = 1;
  (void)alone(arguments, plan);
  const std::string bank = ClickRun(arguments, plan).trainer.checkpoints().paths().back();
  arguments.train_epoch = 2;
  arguments.load_update_steps = 2;
  Ends ends;
  const auto errors = split_up(
      {1, 3}, false,
      [&](std::size_t rank) {
        TrainingArguments own = arguments;
        own.model_bank = {{.path = bank, .rename = {{"model/", ""}}, .dynamic = true}};
        if (rank == 1) own.model_bank[0].exclude = {"output.*"};
        return own;
      },
      plan, ends);
  for (const std::string& error : errors) CHECK(error.find("all processes need the same sources") != std::string::npos);
}

TEST_CASE("recommender, several processes: what one cannot do before it trains is told to the others") {
  const TemporaryFolder folder;
  const ClickRun::Plan plan{.batch = 8};
  const TrainingArguments made = arguments_in(folder.file("bank"));
  (void)alone(made, plan);
  const std::string bank = ClickRun(made, plan).trainer.checkpoints().paths().back();
  ProcessThreads group({2, 2});
  const auto errors = group.run({}, [&](std::size_t rank, GradientSync& sync) {
    ClickRun::Plan own = plan;
    own.devices = kDevices;
    own.group = &sync;
    if (rank == 1)
      own.options.load_hooks = {
          {.after = [](const ModelBankSource&, const ModelBankReport&) { throw std::runtime_error("hook burnt"); }}};
    TrainingArguments arguments = arguments_in(folder.file("run"));
    arguments.model_bank = {{.path = bank, .rename = {{"model/", ""}}}};
    ClickRun run(arguments, own);
    try {
      run.trainer.train();
    } catch (const std::exception& error) {  // while the group lives
      throw std::runtime_error(error.what());
    }
  });
  CAPTURE(errors[0]);
  CHECK(errors[1].find("hook burnt") != std::string::npos);
  CHECK(errors[0].find("rank 1 cpu:2 failed") != std::string::npos);
  CHECK(errors[0].find("hook burnt") != std::string::npos);
}

TEST_SUITE_END();
