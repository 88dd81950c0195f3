// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/hooks/model_bank_loader.h>

#include <tutti/distributed/gradient_sync.h>
#include <tutti/train/trainer.h>

#include <optional>
#include <utility>

namespace tutti {
namespace {

bool is_due(std::int64_t count, const std::optional<std::int64_t>& every) { return every && count % *every == 0; }

}  // namespace

void ModelBankLoader::load_if_owed() {
  if (!owed_ || !trainer().between_updates()) return;
  owed_ = false;
  trainer().settle();
  sync_.barrier(device_);
  load_();
  sync_.barrier(device_);
}

void ModelBankLoader::after_step(const StepReport& report) {
  if (!report.training) return;
  owed_ = owed_ || is_due(report.global_step, when_.load_update_steps);
  load_if_owed();
}

void ModelBankLoader::after_window() {
  if (trainer().evaluating()) return;
  owed_ = owed_ || (trainer().out_of_data() && is_due(trainer().window(), when_.load_update_windows));
  load_if_owed();
}

void ModelBankLoader::after_epoch() {
  owed_ = owed_ || (trainer().out_of_data() && is_due(trainer().epoch() + 1, when_.load_update_epochs));
  load_if_owed();
}

}  // namespace tutti
