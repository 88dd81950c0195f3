// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/member/parts/step_weight.h>

#include <tutti/backend/raise.h>

namespace tutti {

void StepWeight::begin_step() noexcept {
  weight_ = 0.0;
  flaw_ = nullptr;
}

void StepWeight::close_scope(double weight, const char* flaw, bool counts) noexcept {
  if (counts) flaw != nullptr ? void(flaw_ = flaw) : void(weight_ += weight);
  --scopes_;  // last: a backward on another thread that sees none sees what they left
}

void StepWeight::require_sound(std::int64_t generation) const {
  if (scopes_ > 0)  // its weight is not counted yet, and the gradient would be reduced without it
    raise<SyncError>("[sync] a no_sync scope of {} is still alive: end it before step {} is synchronised", name_,
                     generation);
  if (const char* flaw = flaw_)  // the weight of what was accumulated would not be right for all parameters
    raise<SyncError>("[sync] {} on {}: its step {} cannot be synchronised", flaw, name_, generation);
}

}  // namespace tutti
