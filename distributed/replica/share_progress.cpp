// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/replica/share_progress.h>

#include <tutti/backend/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tutti {

void ShareProgress::keep(bool kept) {
  const std::lock_guard lock(mutex_);
  kept_ = kept;
}

bool ShareProgress::kept() const {
  const std::lock_guard lock(mutex_);
  return kept_;
}

void ShareProgress::begin(std::int64_t step, std::size_t gathers, const std::function<void()>& check) {
  const std::lock_guard lock(mutex_);
  check();
  step_ = step;
  awaited_ = gathers;
  gathers_.clear();
}

void ShareProgress::posted(std::shared_ptr<const CollectiveWaiter> gather) {
  const std::lock_guard lock(mutex_);
  gathers_.push_back(std::move(gather));
}

void ShareProgress::load(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  must_load_ = false;
  step_ = step;
  awaited_ = 0;
  gathers_.clear();
}

void ShareProgress::require_load() {
  const std::lock_guard lock(mutex_);
  must_load_ = true;
}

bool ShareProgress::whole() const {
  const std::lock_guard lock(mutex_);
  return complete();
}

bool ShareProgress::torn() const {
  const std::lock_guard lock(mutex_);
  return must_load_ || gathers_.size() != awaited_ || std::ranges::any_of(gathers_, [](const auto& gather) {
           if (!gather->done()) return false;
           return gather->error() != nullptr || (gather->result()->task->finished() && gather->result()->task->error());
         });
}

bool ShareProgress::settle() {
  const std::lock_guard lock(mutex_);
  if (!complete()) return false;
  awaited_ = 0;
  gathers_.clear();
  return true;
}

// A device that posts a part has updated it.
bool ShareProgress::complete() const {
  return !must_load_ && gathers_.size() == awaited_ && std::ranges::all_of(gathers_, [](const auto& gather) {
    if (!gather->done() || gather->error()) return false;
    const CollectiveTask& task = *gather->result()->task;
    return !task.finished() || !task.error();
  });
}

std::string ShareProgress::torn_text(std::string_view member) const {
  const std::lock_guard lock(mutex_);
  return fmt::format(
      "the parameters of {} are between steps {} and {}: shares were updated, others never came. Load one checkpoint's "
      "parameters and optimizer state on every device",
      member, step_ - 1, step_);
}

}  // namespace tutti
