// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/operations/composed_calls.h>

#include <utility>

namespace tutti {

namespace {
constinit thread_local bool composes = false;
}

ComposedCalls::ComposedCalls() noexcept : previous_(std::exchange(composes, true)) {}
ComposedCalls::~ComposedCalls() { composes = previous_; }
bool ComposedCalls::active() noexcept { return composes; }

}  // namespace tutti
