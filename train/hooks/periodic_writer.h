// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/train/hook.h>
#include <tutti/train/reporting/writers/event_storage.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tutti {

/// Lets writers show the trainer's storage every so many training steps, after each evaluation, and when training ends,
/// however it does; where the trainer does not write (Trainer::writes), never. Register it on the main device's
/// trainer, after the hooks whose values it is to show. What it has not written yet is in the trainer's state, so that
/// a resumed run writes what the uninterrupted one does.
class PeriodicWriter final : public Hook {
 public:
  /// Throws Error for a period below 1, and a writer that is null.
  explicit PeriodicWriter(std::vector<std::unique_ptr<EventWriter>>, std::int64_t every = 20);
  template <std::derived_from<EventWriter> Writer>
  explicit PeriodicWriter(std::unique_ptr<Writer> writer, std::int64_t every = 20)
      : PeriodicWriter(alone(std::move(writer)), every) {}

  void before_train() override;
  void after_step(const StepReport&) override;
  void after_evaluation(const Metrics&) override { write(); }
  void after_train() override { write(); }

 private:
  static std::vector<std::unique_ptr<EventWriter>> alone(std::unique_ptr<EventWriter>);
  void write();

  std::vector<std::unique_ptr<EventWriter>> writers_;
  std::int64_t every_;
};

}  // namespace tutti
