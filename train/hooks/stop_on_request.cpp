// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/hooks/stop_on_request.h>

#include <tutti/train/trainer.h>

#include <utility>

namespace tutti {

StopOnRequest::StopOnRequest(std::stop_token token, std::string reason)
    : token_(std::move(token)), reason_(std::move(reason)) {}

void StopOnRequest::before_train() {
  stopped_ = false;
  listening_.emplace(token_, Ask{this});
}

// Where memory for the reason was lacking: once more.
void StopOnRequest::after_step(const StepReport&) {
  if (token_.stop_requested()) ask();
}

void StopOnRequest::after_train() {
  listening_.reset();
  stopped_ = token_.stop_requested() && trainer().stop_reason() == reason_;
}

// What it throws would end the program, on the thread that requests the stop.
void StopOnRequest::ask() noexcept try { trainer().stop(reason_); } catch (...) {
}

}  // namespace tutti
