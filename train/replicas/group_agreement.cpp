// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/replicas/group_agreement.h>

#include <tutti/autodiff/tensor.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/train/replicas/group_texts.h>

#include <fmt/format.h>

#include <utility>

namespace tutti {

GroupAgreement::GroupAgreement(GradientSync& group)
    : StepAgreement(group.devices()), group_(group), told_(group.devices().size()) {}

// Whether any device says so in the same call.
bool GroupAgreement::say(std::size_t device, bool yes, std::string purpose) {
  throw_if_failed();
  Told& told = told_[device];
  hear(told);
  const std::vector<std::int32_t> words{yes ? 1 : 0, stop_is_requested() ? 1 : 0};
  const Device place = group_.devices()[device];
  told.pending =
      group_.all_reduce(place, Tensor(Array::from(words, {2}, place)), CollectiveOperation::max, std::move(purpose));
  if (yes) return true;
  hear(told);
  return told.any;
}

void GroupAgreement::hear(Told& told) {
  if (!told.pending) return;
  const auto words = std::exchange(told.pending, std::nullopt)->resolve().to_vector<std::int32_t>();
  told.any = words[0] != 0;
  told.stops = told.stops || words[1] != 0;
}

// The first that any process has: each says its own, and all call it at the same place.
std::string GroupAgreement::reason(std::size_t device) {
  const std::string own = requested_reason();
  const auto all = gather_texts(group_, group_.devices()[device],
                                own.empty() ? std::nullopt : std::optional<std::string>(own), "the reason to stop");
  return all.empty() ? "stop was called" : all.front();
}

std::optional<std::string> GroupAgreement::stops_before(std::size_t device, std::int64_t step, bool may_stop) {
  throw_if_failed();
  told_[device].step = step;
  hear(told_[device]);
  if (!may_stop || !told_[device].stops) return std::nullopt;
  return reason(device);
}

bool GroupAgreement::any_data(std::size_t device, bool has_data) {
  return say(device, has_data, fmt::format("step {}", told_[device].step));
}

bool GroupAgreement::any_window(std::size_t device, bool has_window) {
  return say(device, has_window, fmt::format("a window at step {}", told_[device].step));
}

void GroupAgreement::meet(std::size_t device, const char* doing) {
  say(device, false, fmt::format("a device that {}", doing));
}

std::optional<std::string> GroupAgreement::evaluation_stopped(std::size_t device, bool stopped) {
  if (!say(device, stopped, fmt::format("the end of an evaluation before step {}", told_[device].step)))
    return std::nullopt;
  return reason(device);
}

std::optional<std::string> GroupAgreement::late_stop(std::size_t device) {
  say(device, false, "the end of training");
  return told_[device].stops ? reason(device) : "";
}

void GroupAgreement::reset() {
  StepAgreement::reset();
  for (Told& told : told_) told = {.pending = std::nullopt, .step = told.step};
}

}  // namespace tutti
