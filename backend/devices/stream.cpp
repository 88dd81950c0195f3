// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/stream.h>

#include <tutti/backend/raise.h>

namespace tutti {

void EventState::wait() noexcept {
  try {
    synchronize();
  } catch (...) {  // the stream tells it again
  }
}

bool Event::ready() const {
  if (state_ == nullptr) raise("[event] asked whether an event is ready that was never recorded");
  return state_->ready();
}

void Event::synchronize() const {
  if (state_ == nullptr) raise("[event] waited for an event that was never recorded");
  state_->synchronize();
}

void Event::wait() const {
  if (state_ == nullptr) raise("[event] waited for an event that was never recorded");
  state_->wait();
}

}  // namespace tutti
