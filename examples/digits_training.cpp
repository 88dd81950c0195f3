// SPDX-License-Identifier: Apache-2.0
#include <tutti/examples/digits_training.h>

#include <tutti/autodiff/backward.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/process_group.h>
#include <tutti/distributed/sync_summary.h>
#include <tutti/examples/digits_network.h>
#include <tutti/examples/given_options.h>
#include <tutti/examples/recorded_run.h>
#include <tutti/examples/residual_network.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/adamw.h>
#include <tutti/train/data/batches.h>
#include <tutti/train/device_threads.h>
#include <tutti/train/hooks/callback.h>
#include <tutti/train/hooks/learning_rate.h>
#include <tutti/train/hooks/progress_bar.h>
#include <tutti/train/hooks/run_statistics_hook.h>
#include <tutti/train/hooks/stop_on_interrupt.h>
#include <tutti/train/learner.h>
#include <tutti/train/reporting/metrics.h>

#include <algorithm>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

namespace digits {

using namespace tutti;

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

/// Cross entropy and accuracy of a batch.
Losses losses(Sequential& network, const Batch& batch) {
  const Tensor logits = network(batch.inputs);
  return {{"loss", cross_entropy(logits, batch.targets)},
          {"accuracy", mean((argmax(logits, -1) == batch.targets).cast(DType::f32))}};
}

// Made if need be; what is written at the end can be written there.
std::string folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) raise<DataError>("cannot make the folder {}: {}", path, error.message());
  const std::string trace = path + "/trace.json";
  if (!std::ofstream(trace, std::ios::app)) raise<DataError>("cannot write {}: {}", trace, std::strerror(errno));
  return path;
}

Sequential initial_network(const Options& options) {
  if (options.epochs < 1) raise<Error>("--epochs {}: at least one epoch is needed", options.epochs);
  Generator random(options.seed);
  Sequential network;
  if (options.network == "lenet")
    network.append("lenet", Network(random));
  else if (options.network == "resnet")
    network.append("resnet", ResidualNetwork(random));
  else
    raise<Error>("--network {}: there are lenet and resnet", options.network);
  return network;
}

class Run {
 public:
  explicit Run(const Options& options)
      : options_(options),
        devices_(devices_of(options.device, options.devices, options.threads)),
        data_(split(load_digits(options.data), 0.8, options.seed)),
        sync_(processes_, devices_),
        batches_(data_.first,
                 {.batch = options.batch, .devices = devices_, .world = sync_.world(), .seed = options.seed}),
        held_out_(data_.second,
                  {.batch = share(data_.second.size()), .devices = devices_, .world = sync_.world(), .shuffle = false}),
        learner_(sync_, initial_network(options), parts(),
                 {.step = {.metrics_every = batches_.steps()}, .evaluation = LearnerOptions::Evaluation::all}) {
    if (learner_.writes()) {
      metrics_.emplace(folder(options.output) + "/metrics.jsonl");
      record_ = std::make_unique<RunRecord>(
          options.output + "/run.json",
          RunDescription{.program = "digits",
                         .options = options.given,
                         .environment = examples::surroundings(devices_text(devices_), processes_.size())});
    }
    const Schedule schedule = Schedule::cosine(options.learning_rate, options.epochs * batches_.steps());
    for (std::size_t d = 0; d < devices_.size(); ++d)
      learner_.trainer(d).register_hook(std::make_shared<LearningRateSchedule>(learner_.optimizer(d), schedule));
    learner_.main().register_hooks(
        {interrupt_,
         std::make_shared<RunStatisticsHook>(
             RunStatisticsOptions{.every_steps = batches_.steps(), .devices = devices_, .sync = &sync_}),
         std::make_shared<ProgressBar>(
             ProgressBarOptions{.steps = batches_.steps(), .progress = {.output = stderr, .unit = "images"}}),
         std::make_shared<CallbackHook>(Callbacks{
             .after_step = [](Trainer&, const StepReport& report) { require_finite(report.metrics); },
             .after_evaluation = [this](Trainer& trainer, const Metrics& means) { report(trainer, means); }})});
  }

  /// As `train`, and the run's record says how it ended.
  Result recorded_train() {
    return examples::recorded(
        record_, [this] { return train(); }, [this] { return learner_.model().named_parameters(); });
  }

 private:
  using Learner = DataParallelLearner<Sequential, Batch>;

  Result train() {
    Result result;
    result.devices = devices_text(devices_);
    result.processes = processes_.size();
    result.first_process = learner_.writes();
    if (result.first_process)
      fmt::print(stderr, "training on {}{}\n", result.devices,
                 processes_.alone() ? "" : fmt::format(", in each of {} processes", processes_.size()));
    const auto start = Clock::now();
    learner_.train_and_evaluate({.epochs = options_.epochs}, {.every_epochs = 1});
    if (interrupt_->interrupted()) {
      result.interrupted = fmt::format(
          "interrupted after step {} of {}: {}/metrics.jsonl has the {} epochs before; the network is not kept, and "
          "the same command begins anew",
          learner_.main().iteration(), options_.epochs * batches_.steps(), options_.output, reported_epochs_);
      return result;
    }
    result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    result.steps = learner_.main().iteration();
    result.images_per_second = static_cast<double>(options_.epochs * batches_.examples()) / result.seconds;
    result.test_accuracy = learner_.main().storage().latest("evaluation/accuracy")->value;
    write_chrome_trace(sync_, options_.output + "/trace.json");
    if (!result.first_process) return result;
    result.reduction = cost_of(sync_.report());
    if (processes_.alone()) measure_exposed(result.reduction);
    const ReductionCost& cost = result.reduction;
    if (cost.exposed)
      metrics_->write({{"test_accuracy", result.test_accuracy},
                       {"seconds", result.seconds},
                       {"reduction_busy_ms", cost.busy},
                       {"reduction_hidden", cost.hidden},
                       {"reduction_exposed_ms", *cost.exposed},
                       {"reduction_exposed_noise_ms", cost.noise}});
    else
      metrics_->write({{"test_accuracy", result.test_accuracy},
                       {"seconds", result.seconds},
                       {"reduction_busy_ms", cost.busy},
                       {"reduction_hidden", cost.hidden}});
    return result;
  }

  Learner::Parts parts() {
    return {.optimizer =
                [this](Sequential& replica) {
                  return std::make_unique<AdamW>(replica.parameters(), options_.learning_rate,
                                                 AdamWOptions{.weight_decay = 0.01});
                },
            .data = [this](std::size_t d) { return batches_.stream(d); },
            .losses = losses,
            .evaluation_data = [this](std::size_t d) { return held_out_.stream(d); }};
  }

  /// Examples for each device of a step that takes as many of them as it can.
  std::int64_t share(std::int64_t examples) const {
    return std::max<std::int64_t>(1, examples / static_cast<std::int64_t>(sync_.world().devices));
  }

  static void require_finite(const Metrics& metrics) {
    const auto loss = metrics.find("loss");
    if (loss != metrics.end() && !std::isfinite(loss->second))
      raise<Error>("the loss is {}: try a smaller --learning-rate", loss->second);
  }

  // Of the epoch that has ended.
  void report(Trainer& trainer, const Metrics& means) {
    ++reported_epochs_;
    if (!metrics_) return;
    const auto latest = [&](const char* name) { return trainer.storage().latest(name)->value; };
    metrics_->write({{"epoch", trainer.epoch()},
                     {"loss", latest("loss")},
                     {"accuracy", latest("accuracy")},
                     {"validation_loss", means.at("loss")},
                     {"validation_accuracy", means.at("accuracy")},
                     {"learning_rate", learner_.optimizer(0).learning_rate()},
                     {"images_per_second", latest("throughput")},
                     {"peak_memory_bytes", latest("memory")},
                     {"step_seconds", latest("sync/step_time")},
                     {"reduction_hidden", latest("sync/hidden")},
                     {"skew_seconds", latest("sync/skew")}});
  }

  static ReductionCost cost_of(const SyncReport& report) {
    std::vector<double> busy;
    for (const auto& step : report.steps) {
      if (!step.reductions_enabled) continue;
      double total = 0.0;
      for (const auto& reduction : step.reductions) total += milliseconds(reduction.busy);
      busy.push_back(total);
    }
    const SyncSummary summary = summarize(report);
    return {.busy = median(busy), .hidden = summary.hidden, .skew = milliseconds(summary.skew)};
  }

  // The same steps with reductions on and off in turn; nothing is updated. Every device passes the barrier before the
  // switch is thrown, so that no step sees both.
  void measure_exposed(ReductionCost& cost) {
    constexpr int kPairs = 40;
    GradientSync sync(devices_, {.recorded_steps = 0});
    auto replicas = sync.replicate(learner_.model());
    std::vector<double> times[2];
    std::barrier round(static_cast<std::ptrdiff_t>(devices_.size()));
    const auto order = batches_.epoch(0);
    on_every_device(sync, [&](std::size_t d) {
      const Batch batch = order.batch(0, d);
      for (int i = 0; i < 2 * kPairs; ++i) {
        round.arrive_and_wait();
        if (d == 0) sync.set_reductions_enabled(i % 2 == 0);
        round.arrive_and_wait();
        replicas[d].zero_grad();
        const auto start = Clock::now();
        auto step = sync.step(devices_[d], batch.weight());
        step.backward(cross_entropy(replicas[d](batch.inputs), batch.targets));
        synchronize(devices_[d]);  // asynchronous streams: without reductions, nobody has waited for them
        if (d == 0 && i >= 8) times[i % 2].push_back(milliseconds(Clock::now() - start));
      }
    });
    std::vector<double> differences;
    for (std::size_t i = 0; i < times[0].size(); ++i) differences.push_back(times[0][i] - times[1][i]);
    cost.exposed = median(differences);
    std::ranges::sort(differences);
    const std::size_t quarter = differences.size() / 4;
    const double spread = differences[differences.size() - 1 - quarter] - differences[quarter];
    cost.noise = 1.82 * spread / std::sqrt(static_cast<double>(differences.size()));  // see SyncSummary::exposed_noise
  }

  const Options options_;
  const std::vector<Device> devices_;
  const SplitExamples data_;
  std::unique_ptr<RunRecord> record_;  // the first process's
  ProcessGroup processes_ = ProcessGroup::from_environment();
  GradientSync sync_;
  const BatchStream batches_;
  const BatchStream held_out_;
  std::optional<MetricsWriter> metrics_;  // the first process's
  std::int64_t reported_epochs_ = 0;
  const std::shared_ptr<StopOnInterrupt> interrupt_ = std::make_shared<StopOnInterrupt>(stderr);
  Learner learner_;
};

}  // namespace

Result train(const Options& options) { return Run(options).recorded_train(); }

}  // namespace digits
