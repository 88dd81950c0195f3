// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/error.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/distributed/sync_server.h>
#include <tutti/train/data/data_stream.h>
#include <tutti/train/eager_trainer.h>
#include <tutti/train/replicas/division_check.h>
#include <tutti/train/replicas/group_results.h>
#include <tutti/train/replicas/run_check.h>
#include <tutti/train/replicas/step_agreement.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace tutti {

/// Error where the stream is one device's share of data that were divided among more than `readers` devices, or fewer:
/// what the others would read is missed. One that has its data to itself may be read by any number. `remedy`: what to
/// do.
template <class Item>
void check_shares(const char* what, const DataStream<Item>& data, std::size_t readers,
                  const char* remedy = "BatchOptions::devices are the learner's, and its world that of the group") {
  if (data.devices() > 1 && data.devices() != readers)
    raise_message("[learner] the " + std::string(what) + " are divided among " + std::to_string(data.devices()) +
                  " devices, and " + std::to_string(readers) + " would read them: " + remedy);
}

/// Place of a device in a learner: its index among the devices of this process, and those of all processes.
struct LearnerPlace {
  std::size_t index = 0;
  WorldShare world;

  std::size_t number() const noexcept { return world.first + index; }  ///< number over all processes
};

/// The trainer of one device of a learner. Steps are taken together: one whose data are out takes part without examples
/// until all are out, and all stop before the same step.
template <class Item, template <class> class TrainerOf = EagerTrainer> class LearnerTrainer : public TrainerOf<Item> {
  using Base = TrainerOf<Item>;

 public:
  LearnerTrainer(Module& replica, Optimizer& optimizer, DataStream<Item>& data, typename Base::LossFunction losses,
                 EagerOptions options, StepAgreement& agreement, LearnerPlace place,
                 std::shared_ptr<EmptyItem<Item>> empty_item)
      : Base(replica, optimizer, data, std::move(losses), std::move(options)),
        data_(data),
        agreement_(agreement),
        place_(place) {
    this->share_empty_item(std::move(empty_item));
  }

  /// Settings beside its own that the other processes need alike, compared whenever training begins.
  void add_settings(const RunSettings& more) { more_settings_.insert(more_settings_.end(), more.begin(), more.end()); }
  void stop(std::string reason) override { agreement_.request_stop(std::move(reason)); }
  bool writes() const override { return place_.world.first == 0; }
  std::optional<std::string> late_stop() const override { return late_stop_; }

 protected:
  std::string where() const override { return " on " + name(); }
  // All devices hear before the first step what hooks ask for in before_train.
  void begin_training() override {
    late_stop_.reset();
    agreement_.meet(place_.index, "is to begin");
    compare_settings();
    compare_shares("training data", &data_);
  }
  // Tells the others' hooks of an evaluation that only the first process has made, as its own have heard of it.
  void evaluation_ended(const std::optional<Metrics>& means) override {
    if (several_processes() && !this->options().evaluate_together) {
      const Metrics first = first_of_devices(*this->options().sync, this->options().device, means);
      if (place_.index == 0 && place_.number() > 0) this->take_evaluation(first);
    }
    agreement_.meet(place_.index, "waits for what hooks make of an evaluation");
  }
  void training_ended() override {
    if (!several_processes()) return;
    if (this->stop_reason().empty())
      late_stop_ = agreement_.late_stop(place_.index);
    else
      late_stop_ = "";
  }
  std::exception_ptr after_training(std::exception_ptr own) override {
    if (!several_processes()) return own;
    return error_of_any(*this->options().sync, this->options().device, name(), std::move(own));
  }
  std::optional<std::string> stops_before_step() override {
    return agreement_.stops_before(place_.index, this->iteration(), this->between_updates());
  }
  // A device that has no such window takes part in it without examples.
  NextWindow next_window() override {
    const NextWindow own = Base::next_window();
    if (own == NextWindow::ready) check_shares("training data", data_, place_.world.devices);
    compare_shares("training data", own == NextWindow::ready ? &data_ : nullptr);
    if (agreement_.any_window(place_.index, own == NextWindow::ready)) return NextWindow::ready;
    return agreement_.any_window(place_.index, own == NextWindow::skip) ? NextWindow::skip : NextWindow::end;
  }
  bool next_data() override { return agreement_.any_data(place_.index, Base::next_data()); }
  bool stop_is_requested() override { return agreement_.stop_is_requested(); }
  std::optional<std::string> evaluation_stopped(bool here) override {
    auto reason = agreement_.evaluation_stopped(place_.index, here);
    if (reason) set_activity("");
    return reason;
  }
  bool evaluates() const override { return place_.number() == 0 || this->options().evaluate_together; }
  void start_evaluation() override {
    set_activity("evaluating");
    Base::start_evaluation();
    if (this->options().evaluate_together) compare_shares("evaluation data", this->evaluation_data());
  }
  Metrics evaluated(Metrics means, const Metrics& weights) override {
    set_activity("");
    return Base::evaluated(std::move(means), weights);
  }
  bool logs(const std::exception_ptr& error) const override { return !is_echo(error); }
  void failed(std::exception_ptr error) override {
    late_stop_.reset();
    agreement_.fail(place_.index, error);
    Base::failed(std::move(error));
  }

 private:
  bool several_processes() const noexcept { return place_.world.processes > 1; }
  std::string name() const { return this->options().sync->server().members().name(place_.index); }
  void compare_settings() {
    if (!several_processes()) return;
    RunSettings settings = settings_of_run(*this);
    settings.insert(settings.end(), more_settings_.begin(), more_settings_.end());
    check_run(*this->options().sync, this->options().device, name(), settings);
  }
  // Null: this device has none now.
  void compare_shares(const char* what, const DataStream<Item>* data) {
    if (!several_processes()) return;
    std::optional<ReadShare> own;
    if (data != nullptr) own = {name(), data->devices(), data->division(), data->position()};
    check_division(*this->options().sync, this->options().device, what, own);
  }
  void set_activity(const char* activity) { this->options().sync->busy(this->options().device, activity); }

  const DataStream<Item>& data_;
  StepAgreement& agreement_;
  LearnerPlace place_;
  RunSettings more_settings_;
  std::optional<std::string> late_stop_;
};

}  // namespace tutti
