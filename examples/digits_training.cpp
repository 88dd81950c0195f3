// SPDX-License-Identifier: Apache-2.0
#include <tutti/examples/digits_training.h>

#include <tutti/autodiff/backward.h>
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/examples/device_threads.h>
#include <tutti/examples/digits_network.h>
#include <tutti/examples/residual_network.h>
#include <tutti/nn/loss.h>
#include <tutti/nn/sequential.h>
#include <tutti/optim/adamw.h>
#include <tutti/optim/schedule.h>
#include <tutti/train/batches.h>
#include <tutti/train/metrics.h>
#include <tutti/train/progress.h>

#include <algorithm>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
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

/// Loss and accuracy of an epoch, over all devices.
class EpochMeter {
 public:
  void add(double loss, std::int64_t correct, std::int64_t examples) {
    const std::lock_guard lock(mutex_);
    loss_.add(loss, static_cast<double>(examples));
    correct_ += correct;
  }
  ProgressStatus status(std::int64_t step) const {
    const std::lock_guard lock(mutex_);
    const double examples = loss_.weight();
    return {.step = step,
            .examples = static_cast<std::int64_t>(examples),
            .loss = loss_.mean(),
            .accuracy = examples > 0 ? static_cast<double>(correct_) / examples : 0.0};
  }

 private:
  mutable std::mutex mutex_;  // every device adds
  RunningAverage loss_;
  std::int64_t correct_ = 0;
};

double accuracy(Sequential& network, const Examples& examples) {
  const NoGrad evaluation;
  network.eval();
  const Tensor logits = network.forward(Tensor(examples.inputs));
  network.train();
  return static_cast<double>(count_correct(logits, Tensor(examples.targets))) / static_cast<double>(examples.size());
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
        devices_(examples::devices_of(options.device, options.devices, options.threads_per_device)),
        data_(split(load_digits(options.data), 0.8, options.seed)),
        batches_(data_.first, {.batch = options.batch, .devices = devices_, .seed = options.seed}),
        metrics_(folder(options.output) + "/metrics.jsonl"),
        sync_(devices_),
        replicas_(sync_.replicate(initial_network(options))),
        schedule_(Schedule::cosine(options.learning_rate, options.epochs * batches_.steps())),
        meters_(static_cast<std::size_t>(options.epochs)) {}

  Result train() {
    const auto start = Clock::now();
    examples::on_every_device(devices_.size(), [this](std::size_t d) { train_device(d); });
    Result result;
    result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    result.steps = options_.epochs * batches_.steps();
    result.images_per_second = static_cast<double>(options_.epochs * batches_.examples()) / result.seconds;
    result.test_accuracy = accuracy(replicas_.front(), data_.second);
    const SyncReport report = sync_.report();
    write_chrome_trace(report, options_.output + "/trace.json");
    result.overlapped_steps = static_cast<double>(std::ranges::count_if(report.steps, &SyncReport::overlapped)) /
                              static_cast<double>(std::max<std::size_t>(1, report.steps.size()));
    result.reduction = measure_reduction();
    metrics_.write({{"test_accuracy", result.test_accuracy},
                    {"seconds", result.seconds},
                    {"reduction_busy_ms", result.reduction.busy},
                    {"reduction_exposed_ms", result.reduction.exposed}});
    return result;
  }

 private:
  void train_device(std::size_t d) {
    AdamW optimizer(replicas_[d].parameters(), options_.learning_rate, {.weight_decay = 0.01});
    for (std::int64_t epoch = 0; epoch < options_.epochs; ++epoch) {
      const auto order = batches_.epoch(epoch);
      EpochMeter& meter = meters_[static_cast<std::size_t>(epoch)];
      std::optional<Progress> progress;
      if (d == 0) {
        const auto label = fmt::format("epoch {}/{}", epoch + 1, options_.epochs);
        progress.emplace(order.steps(), ProgressOptions{.label = label});
      }
      for (std::int64_t i = 0; i < order.steps(); ++i) {
        optimizer.set_learning_rate(schedule_(epoch * order.steps() + i));
        optimizer.zero_grad();
        train_step(d, order.batch(i, d), optimizer, meter);
        if (progress) progress->update(meter.status(i + 1));
      }
      if (progress) progress->finish();
      if (d == 0) validate(epoch);
    }
    sync_.leave(devices_[d]);
  }

  void train_step(std::size_t d, const Batch& batch, Optimizer& optimizer, EpochMeter& meter) {
    auto step = sync_.step(devices_[d], batch.weight());
    if (batch.size > 0) {
      const Tensor logits = replicas_[d].forward(batch.inputs);
      const Tensor loss = cross_entropy(logits, batch.targets);
      const auto value = loss.item<double>();
      if (!std::isfinite(value)) raise<Error>("the loss is {}: try a smaller --learning-rate", value);
      meter.add(value, count_correct(logits, batch.targets), batch.size);  // before the join: then all have
      step.backward(loss);
    } else {
      step.synchronize();
    }
    optimizer.step();
  }

  // On the main device, while the others already work on their next step.
  void validate(std::int64_t epoch) {
    sync_.busy(devices_.front(), "evaluating");
    const double validation = accuracy(replicas_.front(), data_.second);
    sync_.busy(devices_.front(), "");
    const ProgressStatus status = meters_[static_cast<std::size_t>(epoch)].status(0);
    fmt::print(stderr, "epoch {}/{}  validation accuracy {:.2f}%\n", epoch + 1, options_.epochs, 100 * validation);
    metrics_.write({{"epoch", epoch + 1},
                    {"loss", status.loss.value_or(0)},
                    {"accuracy", status.accuracy.value_or(0)},
                    {"validation_accuracy", validation}});
  }

  // The same steps with reductions on and off in turn; nothing is updated. Every device passes the barrier before the
  // switch is thrown, so that no step sees both.
  ReductionCost measure_reduction() {
    constexpr int kPairs = 40;
    GradientSync sync(devices_, {.recorded_steps = 2 * kPairs});
    auto replicas = sync.replicate(replicas_.front());
    std::vector<double> times[2];
    std::barrier round(static_cast<std::ptrdiff_t>(devices_.size()));
    const auto order = batches_.epoch(0);
    examples::on_every_device(devices_.size(), [&](std::size_t d) {
      const Batch batch = order.batch(0, d);
      for (int i = 0; i < 2 * kPairs; ++i) {
        round.arrive_and_wait();
        if (d == 0) sync.set_reductions_enabled(i % 2 == 0);
        round.arrive_and_wait();
        replicas[d].zero_grad();
        const auto start = Clock::now();
        auto step = sync.step(devices_[d], batch.weight());
        step.backward(cross_entropy(replicas[d].forward(batch.inputs), batch.targets));
        synchronize(devices_[d]);  // asynchronous streams: without reductions, nobody has waited for them
        if (d == 0 && i >= 8) times[i % 2].push_back(milliseconds(Clock::now() - start));
      }
    });
    ReductionCost cost;
    std::vector<double> differences;
    for (std::size_t i = 0; i < times[0].size(); ++i) differences.push_back(times[0][i] - times[1][i]);
    cost.exposed = std::max(0.0, median(differences));
    std::ranges::sort(differences);
    const std::size_t quarter = differences.size() / 4;
    const double spread = differences[differences.size() - 1 - quarter] - differences[quarter];
    cost.noise = 1.57 * spread / std::sqrt(static_cast<double>(differences.size()));  // of a median, after Tukey
    std::vector<double> busy;
    std::vector<double> skew;
    const SyncReport report = sync.report();
    for (const auto& step : report.steps) {
      if (step.generation % 2 == 0) continue;  // reductions were off
      double total = 0.0;
      for (const auto& reduction : step.reductions) total += milliseconds(reduction.busy);
      busy.push_back(total);
      skew.push_back(milliseconds(SyncReport::skew(step)));
    }
    cost.busy = median(busy);
    cost.skew = median(skew);
    return cost;
  }

  const Options options_;
  const std::vector<Device> devices_;
  const SplitExamples data_;
  const BatchStream batches_;
  MetricsWriter metrics_;
  GradientSync sync_;
  std::vector<Sequential> replicas_;
  const Schedule schedule_;
  std::vector<EpochMeter> meters_;  // one for each epoch: a fast device may be in the next one already
};

}  // namespace

Result train(const Options& options) { return Run(options).train(); }

}  // namespace digits
