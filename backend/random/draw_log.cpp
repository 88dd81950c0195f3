// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/random/draw_log.h>

#include <tutti/backend/raise.h>

#include <utility>

namespace tutti {

namespace {

constinit thread_local DrawScope* innermost = nullptr;

}  // namespace

DrawScope::DrawScope(DrawLog* recorded, const DrawLog* replayed)
    : recorded_(recorded), replayed_(replayed), outer_(std::exchange(innermost, this)) {}

DrawScope::~DrawScope() { innermost = outer_; }

std::uint64_t DrawScope::repeat(std::uint64_t seed, std::uint64_t stream) {
  if (next_ == replayed_->draws.size() || replayed_->draws[next_].seed != seed ||
      replayed_->draws[next_].stream != stream)
    raise("[random] a computation that is repeated draws other random numbers: draw {} of {}", next_ + 1,
          replayed_->draws.size());
  return replayed_->draws[next_++].counter;
}

std::uint64_t DrawScope::take(std::uint64_t seed, std::uint64_t stream, std::uint64_t& counter, std::uint64_t count) {
  DrawScope* replay = innermost;
  while (replay != nullptr && replay->replayed_ == nullptr) replay = replay->outer_;
  const std::uint64_t first =
      replay != nullptr ? replay->repeat(seed, stream) : std::exchange(counter, counter + count);
  for (DrawScope* scope = innermost; scope != replay; scope = scope->outer_)
    scope->recorded_->draws.push_back({seed, stream, first});
  return first;
}

}  // namespace tutti
