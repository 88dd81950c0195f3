// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/device.h>
#include <tutti/train/hook.h>
#include <tutti/train/training_arguments.h>

#include <functional>

namespace tutti {

class GradientSync;

/// Loads from a model bank again during training, when CheckpointLoadArguments say so: other jobs may have written
/// there since. Each device's trainer has one; they wait for each other, each calls its function, and they wait again.
/// What gradients are accumulated are used first. Register it before a Checkpointer, whose checkpoints then have what
/// was loaded.
class ModelBankLoader final : public Hook {
 public:
  ModelBankLoader(std::function<void()> load, const CheckpointLoadArguments& when, GradientSync& sync, Device device)
      : load_(std::move(load)), when_(when), sync_(sync), device_(device) {}

  void before_train() override { owed_ = false; }
  void after_step(const StepReport&) override;
  void after_window() override;
  void after_epoch() override;

 private:
  void load_if_owed();

  std::function<void()> load_;
  CheckpointLoadArguments when_;
  GradientSync& sync_;
  Device device_;
  bool owed_ = false;  // waits for the update
};

}  // namespace tutti
