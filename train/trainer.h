// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/data/windowed.h>
#include <tutti/train/hook.h>
#include <tutti/train/reporting/writers/event_storage.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti {

struct PartState;

inline constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// Limits of training: counts over the whole run, resumed parts included. Without limits it ends by `stop` alone.
struct TrainingLimits {
  std::int64_t steps = kUnlimited;
  std::int64_t epochs = kUnlimited;
  /// Most steps of a window, which is over then as if it had no more data. An epoch without windows is one.
  std::int64_t steps_per_window = kUnlimited;
  std::int64_t windows_per_epoch = kUnlimited;  ///< skipped ones do not count
};

/// Plan of the evaluations of a training run: when, and for how long. Within an accumulation an evaluation waits for
/// the update, whose parameters it is of.
struct EvaluationPlan {
  std::int64_t every_steps = 0;    ///< 0: never
  std::int64_t every_epochs = 0;   ///< 0: never
  std::int64_t every_windows = 0;  ///< windows, counted in each epoch; 0: never
  std::int64_t steps = kUnlimited;
};

/// The loop around training steps, with hooks, on one device. What a step is, and where its data come from, derived
/// classes say: EagerTrainer for a model, an optimizer and a stream.
///
///   before_train
///     before_epoch  before_window  [ before_step  after_data  after_step ]...  after_window  out_of_data  after_epoch
///   end  after_train
///
/// Used by one thread at a time, but for `stop`.
class Trainer {
 public:
  Trainer() = default;
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  virtual ~Trainer();

  /// Null is ignored. Error for a hook that belongs to a trainer already, and from within the loop. Gives it the state
  /// that a hook of its name had, if one was loaded before.
  void register_hook(std::shared_ptr<Hook>);
  void register_hooks(std::vector<std::shared_ptr<Hook>>);

  /// Goes on from where the trainer stands; there is nothing to do at a limit, which counts as completed. If something
  /// throws, the error is logged, with the hook that it came from if it did, every after_train runs, and the first
  /// error is thrown on; what they throw is logged. Data that were taken since the last update are lost then: load a
  /// checkpoint to use them again.
  void train(const TrainingLimits&);
  void train_and_evaluate(const TrainingLimits&, const EvaluationPlan&);
  /// Means over at most so many steps of the evaluation data, by weight; they are put into the storage too, as
  /// "evaluation/name". In evaluation mode and without gradients; the mode before comes back whatever happens. May be
  /// called by hooks during training. Runs to its end, also if a stop is asked for.
  Metrics evaluate(std::int64_t steps = kUnlimited);
  /// Takes the means of an evaluation that another process has made, as if it had been made here: into the storage, and
  /// to the hooks' before_evaluation and after_evaluation.
  void take_evaluation(const Metrics& means);
  /// Training ends after the step that is running; with several devices, at the next step that none has begun. An
  /// evaluation of an EvaluationPlan ends before its next step, on all devices: it gives no means and no
  /// after_evaluation, and is made again when training goes on by a plan. Any thread.
  virtual void stop(std::string reason);

  std::int64_t iteration() const noexcept { return place_.iteration; }   ///< training steps done
  std::int64_t start_iteration() const noexcept { return start_; }       ///< steps done when this call of train began
  std::int64_t max_iteration() const noexcept { return limits_.steps; }  ///< limit of steps in this call of train
  const TrainingLimits& limits() const noexcept { return limits_; }      ///< limits of this call of train
  const EvaluationPlan& plan() const noexcept { return plan_; }          ///< its evaluations
  std::int64_t epoch() const noexcept { return place_.epoch; }           ///< the one that is running, from 0
  std::int64_t window() const noexcept { return place_.window; }  ///< number in the epoch, from 0, without skipped ones
  std::int64_t epoch_steps() const noexcept { return place_.epoch_steps; }  ///< training steps done in the epoch
  /// True in after_window and after_epoch if the end of the window's or epoch's data was seen, or of the steps or
  /// windows that the limits allow in it; else training ended in it. TrainingLimits::steps may end it with the last
  /// data, whose end is seen, and what is due then done, when training goes on.
  bool out_of_data() const noexcept { return out_of_data_; }
  virtual bool has_evaluation_data() const { return true; }  ///< `evaluate` and plans need them
  /// True if hooks write files and logs for this trainer: of several processes, those of the first alone.
  virtual bool writes() const { return true; }
  bool evaluating() const noexcept { return evaluating_; }
  bool running() const noexcept { return running_; }
  /// True if the last call of train came to an end, not to an error.
  bool completed() const noexcept { return completed_; }
  /// Reason why training ended; empty: by its limits.
  const std::string& stop_reason() const noexcept { return stop_reason_; }
  /// Reason of a stop that any of several processes was asked for too late to end the last call of train, the same on
  /// all; empty: there was none. Nothing in one process, and after an error.
  virtual std::optional<std::string> late_stop() const { return std::nullopt; }
  double data_time() const noexcept { return data_time_; }  ///< seconds waited for this step's data
  EventStorage& storage() noexcept { return storage_; }

  /// Nothing is accumulated that no update has used: a checkpoint made now, where it is settled too, misses nothing.
  virtual bool between_updates() const { return true; }
  /// Uses what is on its way, so that a checkpoint made now misses nothing; with several devices all call it.
  virtual void settle() {}
  virtual bool settled() const { return true; }  ///< nothing is on its way
  /// State of the loop, as text for a checkpoint, the storage's events and what hooks keep included. Of an epoch whose
  /// data are out, in after_epoch and evaluations there: the state behind it, so that no hook is called again.
  std::string state() const;
  /// Goes on there: the data are expected to be where they were then. Hooks get what those of their name had, in order
  /// of registration where several have one name; of which there is nothing, keep what they have. DataError for another
  /// text; nothing is changed then.
  void load_state(const std::string& text) { prepare_load(text)(); }
  /// `load_state` in two parts: all that can fail, and a function that does the rest, to be called once.
  std::function<void()> prepare_load(const std::string&);

  /// Takes lines about errors; by default they go to the log sink (backend/log.h).
  void set_log(std::function<void(std::string_view)> log) { log_ = std::move(log); }

 protected:
  // --- what a derived class provides
  virtual void start_epoch(std::int64_t epoch) = 0;  ///< not called for an epoch that is resumed in its middle
  virtual NextWindow next_window();                  ///< default: an epoch is one
  virtual bool next_data() = 0;                      ///< false: the window has no more
  virtual Metrics run_step() = 0;                    ///< takes a step with the data that came last
  virtual void begin_training() {}                   ///< called after before_train of all hooks
  virtual void finish_updates() {}                   ///< uses what is accumulated: a window or the steps have ended
  virtual void finish_training() {}                  ///< the last step of this call of train is done
  virtual void training_ended() {}                   ///< called after `end` of all hooks
  /// Called after after_train of all hooks where training came to its end, with the first error of these; returns what
  /// train throws: of several processes, the error of any.
  virtual std::exception_ptr after_training(std::exception_ptr own) { return own; }
  virtual void failed(std::exception_ptr) {}  ///< training ends by this error: to tell other devices
  /// False for the error of another device, which logs it: it is only thrown on here.
  virtual bool logs(const std::exception_ptr&) const { return true; }
  /// Device in lines about errors: " on cpu:1", where there are several.
  virtual std::string where() const { return {}; }
  /// Asked before each training step: the reason to stop, if the devices agreed to.
  virtual std::optional<std::string> stops_before_step() { return {}; }
  /// Asked before each step of an evaluation by plan: it is to end.
  virtual bool stop_is_requested();
  /// Asked after an evaluation by plan, also on devices that it does not concern: the reason, if it was stopped on any.
  virtual std::optional<std::string> evaluation_stopped(bool here);
  /// Called after a whole evaluation by plan, hooks too; also on devices that it does not concern, which have no means.
  virtual void evaluation_ended(const std::optional<Metrics>& /*means*/) {}
  virtual void set_training(bool) = 0;
  virtual void start_evaluation();                 ///< default: Error, there are no evaluation data
  virtual bool next_evaluation_data();             ///< false: no more
  virtual Metrics run_evaluation_step();           ///< takes a step under Inference
  virtual bool evaluates() const { return true; }  ///< true if a plan to evaluate concerns this device
  /// Combines the means of several devices; `weights` are those of the examples behind each of this one's means, by
  /// name.
  virtual Metrics evaluated(Metrics means, const Metrics& /*weights*/) { return means; }
  virtual double data_weight() { return 1; }  ///< weight of the data that came last

 private:
  using HookStates = std::vector<std::pair<std::string, std::string>>;  // states by state_name
  struct Place {
    std::int64_t iteration = 0;
    std::int64_t epoch = 0;
    std::int64_t window = 0;
    std::int64_t window_steps = 0;  // steps made in the window
    std::int64_t epoch_steps = 0;   // steps made in the epoch
  };

  void run(const TrainingLimits&, const EvaluationPlan&);
  void run_epochs();
  void run_epoch();
  bool evaluation_due_after_epoch() const;
  void run_window();
  void end_window();
  bool fetch(bool (Trainer::*next)());
  bool done();
  std::optional<std::string> take_stop();
  void evaluate_if_due();
  std::optional<Metrics> run_evaluation(std::int64_t steps, bool by_plan);
  std::optional<Metrics> evaluation_steps(std::int64_t steps, bool by_plan);
  template <class Work> void in_evaluation(Work);
  void report_evaluation(const Metrics& means);
  bool ends_early(bool here);
  void after_train(std::exception_ptr first);
  void log(std::string_view line) const noexcept;
  std::function<void()> prepare_hooks(HookStates);
  template <class... Parameters, class... Arguments>
  void call(void (Hook::*point)(Parameters...), Arguments&&... arguments);
  std::string name_of(std::size_t hook) const;

  struct HookFailure {
    std::exception_ptr error;
    std::string hook;
  };

  std::vector<std::shared_ptr<Hook>> hooks_;
  HookFailure hook_failure_;  // the last in this call of train
  HookStates loaded_states_;  // states of hooks that are not registered yet
  EventStorage storage_;
  Place place_;
  TrainingLimits limits_;
  EvaluationPlan plan_;
  std::int64_t start_ = 0;
  bool in_epoch_ = false;    // the epoch has begun; kept in the state
  bool epoch_ends_ = false;  // its last hooks are called: a state is that behind it
  bool in_window_ = false;   // the window has begun; kept in the state
  bool out_of_data_ = false;
  bool evaluation_due_ = false;  // kept in the state: a hook after the step may save it
  bool running_ = false;
  bool evaluating_ = false;
  bool completed_ = false;
  double data_time_ = 0;
  std::string stop_reason_;
  std::mutex stop_mutex_;  // anyone may ask to stop
  std::optional<std::string> stop_request_;
  std::function<void(std::string_view)> log_;
};

/// A trainer's state as a part of a checkpoint: CheckpointParts::add(name, trainer).
PartState part_state(const Trainer&);
std::function<void()> prepare_part(Trainer&, const PartState&);

}  // namespace tutti
