// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/empty_batch.h>

namespace tutti {
namespace {

thread_local int alive = 0;  // they nest

}  // namespace

EmptyBatch::EmptyBatch() noexcept { ++alive; }
EmptyBatch::~EmptyBatch() { --alive; }
bool EmptyBatch::active() noexcept { return alive > 0; }

}  // namespace tutti
