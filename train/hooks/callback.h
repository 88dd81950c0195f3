// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/hook.h>

#include <functional>
#include <utility>

namespace tutti {

class Trainer;

/// Functions in place of a derived class; those that are not given do nothing.
struct Callbacks {
  std::function<void(Trainer&)> before_train{};
  std::function<void(Trainer&)> before_step{};
  std::function<void(Trainer&, const StepReport&)> after_step{};  ///< called after training steps
  std::function<void(Trainer&)> after_epoch{};
  std::function<void(Trainer&, const Metrics&)> after_evaluation{};
  std::function<void(Trainer&)> end{};
  std::function<void(Trainer&)> after_train{};
};

class CallbackHook final : public Hook {
 public:
  explicit CallbackHook(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  void before_train() override { call(callbacks_.before_train); }
  void before_step() override { call(callbacks_.before_step); }
  void after_step(const StepReport& report) override {
    if (report.training) call(callbacks_.after_step, report);
  }
  void after_epoch() override { call(callbacks_.after_epoch); }
  void after_evaluation(const Metrics& means) override { call(callbacks_.after_evaluation, means); }
  void end() override { call(callbacks_.end); }
  void after_train() override { call(callbacks_.after_train); }

 private:
  template <class F, class... Arguments> void call(const F& function, const Arguments&... arguments) {
    if (function) function(trainer(), arguments...);
  }

  Callbacks callbacks_;
};

}  // namespace tutti
