// SPDX-License-Identifier: Apache-2.0
// What each of TrainingArguments' fields does.
#include <tutti/train/recommender_trainer.h>

#include <tutti/backend/error.h>
#include <tutti/exchange/safetensors.h>
#include <tutti/tests/exchange/temporary_folder.h>
#include <tutti/tests/train/recommender/click_training.h>
#include <tutti/train/hooks/callback.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::nullopt_t kNever = std::nullopt;

/// Nothing is saved but what a test asks for.
TrainingArguments silent(const TemporaryFolder& folder) {
  return {.output_dir = folder.file("run"), .save_steps = kNever, .save_every_n_windows = kNever, .save_end = false};
}

/// The steps of the checkpoints that a run with these arguments leaves: 9 steps an epoch, 3 in each hour.
std::vector<std::int64_t> saved_steps(const TrainingArguments& arguments, const ClickRun::Plan& plan = {}) {
  ClickRun run(arguments, plan);
  run.trainer.train();
  std::vector<std::int64_t> steps;
  for (const std::string& path : run.trainer.checkpoints().paths())
    steps.push_back(std::stoll(path.substr(path.rfind('-') + 1)));
  std::filesystem::remove_all(arguments.saver().output_dir);
  return steps;
}

std::int64_t steps_of(TrainingArguments arguments, const ClickRun::Plan& plan = {}) {
  ClickRun run(std::move(arguments), plan);
  run.trainer.train();
  return run.steps();
}

/// Names of all arrays of the newest checkpoint.
std::set<std::string> arrays_of_newest(ClickRun& run) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(run.trainer.checkpoints().paths().back()))
    if (entry.path().extension() == ".safetensors")
      for (const auto& [name, array] : read_safetensors(entry.path().string()).arrays) names.insert(name);
  return names;
}

/// A model for the bank: what a run of so many epochs has learnt.
std::string bank(const TemporaryFolder& folder, std::int64_t epochs, std::vector<double>& contents) {
  TrainingArguments arguments = silent(folder);
  arguments.output_dir = folder.file("bank" + std::to_string(epochs));
  arguments.train_epoch = epochs;
  arguments.save_end = true;
  ClickRun run(arguments);
  run.trainer.train();
  contents = run.contents();
  return run.trainer.checkpoints().paths().back();
}

ModelBankSource source_at(const std::string& path, bool dynamic = false) {
  return {.path = path, .rename = {{"model/", ""}}, .dynamic = dynamic};
}

}  // namespace

TEST_SUITE_BEGIN("cpu");  // groups of devices: each kind has an engine of its own

TEST_CASE("RecommenderTrainer: train_epoch, train_steps and window_iter say how long it trains") {
  const TemporaryFolder folder;
  const TrainingArguments all = silent(folder);
  CHECK(steps_of(all) == 9);  // three hours of three batches, one hour is skipped
  auto with = [&](auto change) {
    TrainingArguments arguments = all;
    change(arguments);
    return arguments;
  };
  CHECK(steps_of(with([](auto& a) { a.train_epoch = 3; })) == 27);
  CHECK(steps_of(with([](auto& a) { a.train_steps = 2; })) == 6);  // of each window
  CHECK(steps_of(with([](auto& a) { a.window_iter = 2; })) == 6);  // a skipped one does not count
  CHECK(steps_of(with([](auto& a) { a.window_iter = 5; })) == 9);
  CHECK(steps_of(all, {.windowed = false}) == 3);
  CHECK(steps_of(with([](auto& a) { a.train_steps = 2, a.train_epoch = 2; }), {.windowed = false}) == 4);
}

TEST_CASE("RecommenderTrainer: gradient_accumulation_steps, of both optimizers; each window's rest is an update too") {
  const TemporaryFolder folder;
  TrainingArguments arguments = silent(folder);
  arguments.gradient_accumulation_steps = 2;
  ClickRun run(arguments);
  run.trainer.train();
  CHECK(run.steps() == 9);
  CHECK(run.trainer.learner().optimizer(0).steps() == 6);
  CHECK(run.trainer.learner().sparse_optimizers().front()->steps() == 6);
  CHECK(run.trainer.learner().model().items.table()->updates() == 6);

  // As one step of batches twice as large.
  TrainingArguments one = silent(folder);
  one.output_dir = folder.file("one");
  one.train_steps = 1;
  ClickRun large(one, {.batch = 8});
  large.trainer.train();
  arguments.train_steps = 2;
  arguments.output_dir = folder.file("two");
  ClickRun small(arguments, {.batch = 4});
  small.trainer.train();
  REQUIRE(large.contents().size() == small.contents().size());
  for (std::size_t i = 0; i < large.contents().size(); ++i)
    CHECK(small.contents()[i] == doctest::Approx(large.contents()[i]).epsilon(1e-4));
}

TEST_CASE("RecommenderTrainer: log_steps, and the log lies in output_dir") {
  const TemporaryFolder folder;
  TrainingArguments arguments = silent(folder);
  arguments.log_steps = 4;
  steps_of(arguments);
  std::ifstream log(folder.file("run/metrics.jsonl"));
  std::vector<std::int64_t> iterations;
  for (std::string line; std::getline(log, line);)
    if (const auto json = nlohmann::json::parse(line); json.contains("total_loss"))
      iterations.push_back(json.at("iteration"));
  CHECK(iterations == std::vector<std::int64_t>{3, 7, 8});  // of 9, and what is left at the end
}

TEST_CASE("RecommenderTrainer: evaluates after each window or epoch, eval_steps long") {
  const TemporaryFolder folder;
  TrainingArguments arguments = silent(folder);
  arguments.train_epoch = 2;
  for (const bool windowed : {true, false}) {
    CAPTURE(windowed);
    for (const std::optional<std::int64_t> steps : {std::optional<std::int64_t>(), std::optional<std::int64_t>(1)}) {
      arguments.eval_steps = steps;
      ClickRun run(arguments, {.windowed = windowed});
      std::vector<std::int64_t> at;
      run.trainer.learner().main().register_hook(std::make_shared<CallbackHook>(
          Callbacks{.after_evaluation = [&](Trainer& t, const Metrics&) { at.push_back(t.iteration()); }}));
      int batches = 0;
      struct Counting : Hook {
        explicit Counting(int& count) : count_(count) {}
        void after_step(const StepReport& report) override { count_ += report.training ? 0 : 1; }
        int& count_;
      };
      run.trainer.learner().main().register_hook(std::make_shared<Counting>(batches));
      run.trainer.train_and_evaluate();
      CHECK(at == (windowed ? std::vector<std::int64_t>{3, 6, 9, 12, 15, 18} : std::vector<std::int64_t>{3, 6}));
      CHECK(batches == static_cast<int>(at.size()) * (steps ? 1 : 3));
      const auto before = run.contents();
      CHECK(run.trainer.evaluate().contains("loss"));
      CHECK((run.contents() == before));
    }
  }
}

TEST_CASE("RecommenderTrainer: save_steps, windows, epochs, at the end; max_to_keep") {
  using Steps = std::vector<std::int64_t>;
  const TemporaryFolder folder;
  const TrainingArguments none = silent(folder);
  auto with = [&](auto change) {
    TrainingArguments arguments = none;
    arguments.train_epoch = 2;
    change(arguments);
    return arguments;
  };
  CHECK(saved_steps(none).empty());
  CHECK(saved_steps(with([](auto& a) { a.save_steps = 4; })) == Steps{4, 8, 12, 16});
  CHECK(saved_steps(with([](auto& a) { a.save_steps = 4, a.max_to_keep = 2; })) == Steps{12, 16});
  CHECK(saved_steps(with([](auto& a) { a.save_every_n_windows = 2; })) == Steps{6, 15});  // of each epoch
  CHECK(saved_steps(with([](auto& a) { a.save_every_n_epochs = 1; })) == Steps{9, 18});
  CHECK(saved_steps(with([](auto& a) { a.save_end = true; })) == Steps{18});
  CHECK(saved_steps(with([](auto& a) {
          a.ckpt_save_arg = CheckpointSaveArguments{5, kNever, kNever, false};
        })) == Steps{5, 10, 15});
  // Without windows in the data an epoch is none.
  CHECK(saved_steps(with([](auto& a) { a.save_every_n_windows = 1; }), {.windowed = false}).empty());
  CHECK(saved_steps({.output_dir = folder.file("run")}).size() == 4);  // the defaults: each window, and the end
}

TEST_CASE("RecommenderTrainer: what it cannot begin with leaves nothing half done") {
  const TemporaryFolder folder;
  TrainingArguments arguments = silent(folder);
  arguments.save_end = true;
  std::filesystem::create_directories(arguments.output_dir + "/metrics.jsonl");
  ClickRun run(arguments);
  CHECK_THROWS_AS(run.trainer.train(), Error);
  std::filesystem::remove(arguments.output_dir + "/metrics.jsonl");
  run.trainer.train();
  CHECK(run.trainer.checkpoints().paths().size() == 1);
  CHECK(std::filesystem::is_regular_file(arguments.output_dir + "/metrics.jsonl"));
  arguments.window_iter = 2;
  CHECK_THROWS_WITH_AS((ClickRun(arguments, {.windowed = false})), doctest::Contains("window_iter is 2"), Error);
}

TEST_CASE("RecommenderTrainer: save_concurrency_per_rank files, saver_option in place of the single fields") {
  const TemporaryFolder folder;
  TrainingArguments arguments = silent(folder);
  arguments.save_end = true;
  const auto files = [&] {
    ClickRun run(arguments);
    run.trainer.train();
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(run.trainer.checkpoints().paths().back()))
      count += entry.path().extension() == ".safetensors";
    return count;
  };
  arguments.save_concurrency_per_rank = 3;
  CHECK(files() == 3);
  arguments.saver_option = SaverOptions{.output_dir = folder.file("elsewhere"), .save_concurrency_per_rank = 1};
  CHECK(files() == 1);
  CHECK(std::filesystem::exists(folder.file("elsewhere")));
}

TEST_CASE("RecommenderTrainer: params_not_save and save_filter_fn; what is not kept comes from the model bank") {
  const TemporaryFolder folder;
  std::vector<double> older;
  TrainingArguments arguments = silent(folder);
  arguments.model_bank = {source_at(bank(folder, 1, older))};
  arguments.save_every_n_epochs = 1;
  arguments.params_not_save = {"users.*"};
  arguments.save_filter_fn = [](const std::string& name) { return name != "output.bias"; };
  std::vector<float> kept;
  {
    ClickRun run(arguments);
    run.trainer.train();
    const auto names = arrays_of_newest(run);
    CHECK(names.contains("model/items.rows"));
    CHECK(names.contains("model/output.weight"));
    CHECK_FALSE(names.contains("model/output.bias"));
    CHECK(std::ranges::none_of(names, [](const std::string& name) { return name.starts_with("model/users"); }));
    kept = run.trainer.learner().model().output.weight.to_vector<float>();
  }
  Ranker bank_model;
  load_model_bank(bank_model, arguments.model_bank);
  {
    TrainingArguments keeps_all = arguments;  // from now on: the checkpoint has it not all the same
    keeps_all.params_not_save = {};
    keeps_all.save_filter_fn = {};
    ClickRun run(keeps_all);
    REQUIRE(run.trainer.restore());
    CHECK(run.trainer.learner().model().output.bias.to_vector<float>() == bank_model.output.bias.to_vector<float>());
    CHECK(run.trainer.learner().model().output.weight.to_vector<float>() == kept);
  }
  arguments.train_epoch = 2;
  ClickRun again(arguments);
  REQUIRE(again.trainer.restore());
  Ranker& restored = again.trainer.learner().model();
  CHECK(restored.users.table()->updates() == bank_model.users.table()->updates());
  CHECK(restored.items.table()->updates() == 2 * bank_model.items.table()->updates());
  CHECK(restored.output.bias.to_vector<float>() == bank_model.output.bias.to_vector<float>());
  CHECK(restored.output.weight.to_vector<float>() == kept);
  again.trainer.train();
  CHECK(again.steps() == 18);
  arguments.params_not_save = {"itmes.*"};
  CHECK_THROWS_WITH_AS(ClickRun{arguments}, doctest::Contains("\"itmes.*\", which names nothing"), Error);
}

TEST_CASE("RecommenderTrainer: the model bank is where a model begins, not one that goes on") {
  const TemporaryFolder folder;
  std::vector<double> older;
  TrainingArguments arguments = silent(folder);
  arguments.model_bank = {source_at(bank(folder, 1, older))};
  arguments.save_end = true;
  int loads = 0;
  const RecommenderOptions options{.load_hooks = {{.after = [&](const ModelBankSource&, const ModelBankReport& report) {
                                     ++loads;
                                     CHECK(report.loaded.size() == 4);
                                   }}}};
  ClickRun run(arguments, {.devices = 2, .options = options});
  CHECK_FALSE(run.trainer.restore());
  for (std::size_t d = 0; d < 2; ++d) CHECK((run.contents(d) == older));
  CHECK(loads == 1);  // once for both devices
  run.trainer.train();
  CHECK_THROWS_WITH_AS(run.trainer.restore(), doctest::Contains("already"), Error);
  std::filesystem::remove_all(arguments.model_bank.front().path);
  ClickRun on(arguments, {.devices = 2, .options = options});
  CHECK(on.trainer.restore());
  CHECK((on.contents() == run.contents()));
  CHECK(loads == 1);
}

TEST_CASE("RecommenderTrainer: dynamic sources are loaded again after steps, windows and epochs, on all devices") {
  const TemporaryFolder folder;
  std::vector<double> first;
  const ModelBankSource dynamic = source_at(bank(folder, 1, first), true);
  auto loads_at = [&](const CheckpointLoadArguments& when, bool windowed = true) {
    TrainingArguments arguments = silent(folder);
    arguments.train_epoch = 2;
    arguments.model_bank = {dynamic};
    arguments.ckpt_load_arg = when;
    std::vector<std::int64_t> at;
    ClickRun* running = nullptr;
    const RecommenderOptions options{.load_hooks = {{.after = [&](const ModelBankSource&, const ModelBankReport&) {
                                       at.push_back(running->steps());
                                       for (std::size_t d = 0; d < 2; ++d) CHECK((running->contents(d) == first));
                                     }}}};
    ClickRun run(arguments, {.devices = 2, .windowed = windowed, .options = options});
    running = &run;
    run.trainer.train();
    CHECK((run.contents(0) == run.contents(1)));
    return at;
  };
  using Steps = std::vector<std::int64_t>;
  CHECK(loads_at({7, kNever, kNever}) == Steps{0, 7, 14});
  CHECK(loads_at({kNever, 2, kNever}) == Steps{0, 6, 15});
  CHECK(loads_at({kNever, kNever, 1}) == Steps{0, 9, 18});
  CHECK(loads_at({}) == Steps{0, 3, 6, 9, 12, 15, 18});
  CHECK(loads_at({}, false) == Steps{0});
}

TEST_CASE("RecommenderTrainer: mixed_precision") {
  const TemporaryFolder folder;
  for (const MixedPrecision precision : {MixedPrecision::none, MixedPrecision::bf16, MixedPrecision::fp16}) {
    TrainingArguments arguments = silent(folder);
    arguments.mixed_precision = precision;
    std::set<DType> dtypes;
    ClickRun run(arguments, {.seen = [&](const Tensor& logits) { dtypes.insert(logits.dtype()); }});
    run.trainer.train();
    CAPTURE(to_string(precision));
    const DType expected = precision == MixedPrecision::none   ? DType::f32
                           : precision == MixedPrecision::bf16 ? DType::bf16
                                                               : DType::f16;
    CHECK(dtypes == std::set<DType>{expected});
    CHECK(run.trainer.learner().optimizer(0).steps() > 0);
    CHECK((run.trainer.learner().main().options().scaler != nullptr) == (precision == MixedPrecision::fp16));
  }
}

TEST_CASE("RecommenderTrainer: devices with different windows go through them together, and use all of their data") {
  const TemporaryFolder folder;
  TrainingArguments arguments = silent(folder);
  arguments.train_epoch = 2;
  std::atomic<std::int64_t> examples = 0;
  ClickRun run(
      arguments,
      {.devices = 2, .seen = [&](const Tensor& logits) { examples += logits.length(0); }, .data = uneven_hours});
  std::vector<std::int64_t> windows;
  run.trainer.learner().trainer(1).register_hook(std::make_shared<CallbackHook>(
      Callbacks{.after_step = [&](Trainer& t, const StepReport&) { windows.push_back(t.window()); }}));
  run.trainer.train();
  CHECK(examples == 2 * (3 * 10 + 3));
  CHECK(std::ranges::count(windows, 1) == 2 * 4);  // of hour 2: 4 batches of 3 clicks
  CHECK(run.steps() == 2 * 3 * 4);
  CHECK(run.trainer.learner().trainer(1).iteration() == run.steps());
  CHECK((run.contents(0) == run.contents(1)));
}

TEST_CASE("RecommenderTrainer: a stop ends all devices before the same step, and it goes on from there") {
  const TemporaryFolder folder;
  TrainingArguments arguments = silent(folder);
  arguments.train_epoch = 2;
  ClickRun whole(arguments, {.devices = 2});
  whole.trainer.train();
  arguments.output_dir = folder.file("stopped");
  ClickRun run(arguments, {.devices = 2});
  run.trainer.learner().trainer(1).register_hook(
      std::make_shared<CallbackHook>(Callbacks{.after_step = [&](Trainer&, const StepReport& report) {
        if (report.global_step % 5 == 0) run.trainer.stop("enough for now");
      }}));
  run.trainer.train();
  CHECK(run.trainer.learner().main().stop_reason() == "enough for now");
  CHECK(run.steps() == run.trainer.learner().trainer(1).iteration());
  CHECK(run.steps() < 18);
  for (int i = 0; i < 4 && run.steps() < 18; ++i) run.trainer.train();
  CHECK(run.steps() == 18);
  CHECK((run.contents() == whole.contents()));
}

TEST_CASE("RecommenderTrainer: arguments out of range are refused before anything is made") {
  CHECK_THROWS_WITH_AS(ClickRun({.log_steps = 0}), doctest::Contains("log_steps is 0"), Error);
  CHECK_THROWS_WITH_AS(ClickRun({.mixed_precision = MixedPrecision::fp16},
                                {.options = {.learner = {.sync = {.overlap = Overlap::double_buffered}}}}),
                       doctest::Contains("the scale is another by then"), Error);
}

// GCC 12 destroyed the default devices twice, which the allocator or AddressSanitizer ends.
TEST_CASE("RecommenderOptions: an initializer that throws leaves nothing destroyed twice") {
  const auto made = [] { return RecommenderOptions{.dense_schedule = Schedule::constant(-1.0)}; };
  CHECK_THROWS_WITH_AS(made(), doctest::Contains("learning rate"), Error);
}

TEST_SUITE_END();
