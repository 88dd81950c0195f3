// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/replicas/step_agreement.h>

#include <tutti/backend/process/deadline.h>
#include <tutti/backend/process/error_text.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <utility>

namespace tutti {

StepAgreement::StepAgreement(std::vector<Device> devices, const SyncOptions& waits)
    : warn_after_(bounded_wait<SyncError>("training, warn_after", waits.warn_after)),
      fail_after_(bounded_wait<SyncError>("training, fail_after", waits.fail_after)),
      warn_(waits.warn) {
  for (const Device device : devices) devices_.push_back({.device = device});
}

void StepAgreement::check_failed() const {
  if (!error_) return;
  if (is_echo(error_)) std::rethrow_exception(error_);  // which names the device
  raise<SyncError>("[training] {} failed: {}", to_string(devices_[failed_].device), text_of(error_));
}

void StepAgreement::throw_if_failed() const {
  const std::lock_guard lock(mutex_);
  check_failed();
}

std::string StepAgreement::requested_reason() const {
  const std::lock_guard lock(mutex_);
  return stop_reason_;
}

std::optional<std::string> StepAgreement::stops_before(std::size_t device, std::int64_t step, bool may_stop) {
  const std::lock_guard lock(mutex_);
  check_failed();
  if (may_stop && stop_at_ && step >= *stop_at_) return stop_reason_;
  devices_[device].begun = step;
  return std::nullopt;
}

void StepAgreement::request_stop(std::string reason) {
  const std::lock_guard lock(mutex_);
  if (stop_at_) return;
  stop_at_ = 1 + std::ranges::max(devices_, {}, &DeviceState::begun).begun;
  stop_reason_ = reason.empty() ? "stop was called" : std::move(reason);
}

bool StepAgreement::any_data(std::size_t device, bool has_data) {
  std::unique_lock lock(mutex_);
  return any(lock, device, has_data, "has no more data");
}

void StepAgreement::meet(std::size_t device, const char* doing) {
  std::unique_lock lock(mutex_);
  any(lock, device, false, doing);
}

bool StepAgreement::stop_is_requested() const {
  const std::lock_guard lock(mutex_);
  return stop_at_.has_value();
}

std::optional<std::string> StepAgreement::evaluation_stopped(std::size_t device, bool stopped) {
  std::unique_lock lock(mutex_);
  if (!any(lock, device, stopped, "waits for the others' part of an evaluation")) return std::nullopt;
  return stop_reason_;
}

// Whether any device says so in the same call.
bool StepAgreement::any(std::unique_lock<std::mutex>& lock, std::size_t device, bool says, const char* situation) {
  check_failed();
  const std::int64_t call = devices_[device].calls++;
  Answers& answers = answers_[call];
  ++answers.said;
  answers.any = answers.any || says;
  changed_.notify_all();
  const auto known = [&] { return error_ || answers.any || answers.said == devices_.size(); };
  const auto first = std::min(warn_after_, fail_after_);
  if (!wait_within(changed_, lock, first, known) && warn_ && first < fail_after_ &&
      !std::exchange(answers.warned, true)) {
    const std::string text = missing(device, call, situation, first);
    lock.unlock();  // whoever hears it may call this object
    warn_(text);
    lock.lock();
  }
  if (!wait_within(changed_, lock, fail_after_ - first, known))
    raise<SyncError>("{}", missing(device, call, situation, fail_after_));  // the fault of those that are silent
  check_failed();
  const bool any = answers.any;
  if (++answers.told == devices_.size()) answers_.erase(call);
  return any;
}

std::string StepAgreement::missing(std::size_t device, std::int64_t call, const char* situation,
                                   std::chrono::milliseconds waited) const {
  std::string silent;
  for (std::size_t d = 0; d < devices_.size(); ++d)
    if (devices_[d].calls <= call)
      silent += fmt::format("{}{}", silent.empty() ? "" : ", ", to_string(devices_[d].device));
  return fmt::format("[training] {} {} and has waited {} ms to hear from {}", to_string(devices_[device].device),
                     situation, waited.count(), silent);
}

bool is_echo(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const SyncError&) {
    return true;
  } catch (...) {
    return false;
  }
}

void StepAgreement::fail(std::size_t device, std::exception_ptr error) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!error_ || (is_echo(error_) && !is_echo(error))) {
      error_ = std::move(error);
      failed_ = device;
    }
  }
  changed_.notify_all();
}

std::exception_ptr StepAgreement::first_error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void StepAgreement::reset() {
  const std::lock_guard lock(mutex_);
  for (DeviceState& each : devices_) each = {.device = each.device};
  answers_.clear();
  stop_at_.reset();
  stop_reason_.clear();
  error_ = nullptr;
}

}  // namespace tutti
