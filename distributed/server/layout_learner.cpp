// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/layout_learner.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tutti {

std::shared_ptr<const GradientLayout> LayoutLearner::layout() const {
  const std::lock_guard lock(mutex_);
  return layout_;
}

void LayoutLearner::set(std::shared_ptr<const GradientLayout> layout) {
  const std::lock_guard lock(mutex_);
  layout_ = std::move(layout);
}

void LayoutLearner::guess(std::span<const SyncParameter> parameters) {
  std::vector<ParameterId> order;
  for (auto id = static_cast<std::uint32_t>(parameters.size()); id-- > 0;) order.push_back({id});
  set(std::make_shared<const GradientLayout>(parameters, order));
}

std::optional<std::vector<ParameterId>> LayoutLearner::learn(std::span<const SyncParameter> parameters) {
  constexpr int kPatience = 3;
  if (order_.empty() || policy_ == Policy::fixed) return std::nullopt;
  GradientLayout::sort(order_, parameters);
  const bool agrees = std::ranges::is_sorted(order_, {}, [&](ParameterId id) { return layout_->position_of(id); });
  disagreements_ = agrees ? 0 : disagreements_ + 1;
  const bool guessed = !std::exchange(learned_, true);
  const bool may_follow = policy_ == Policy::follow && disagreements_ >= kPatience;
  if (agrees || !(guessed || may_follow)) return std::nullopt;
  disagreements_ = 0;
  std::vector<bool> seen(parameters.size());
  for (const ParameterId id : order_) seen[id.value] = true;
  for (const GradientLayout::Place& place : layout_->places())
    if (!seen[place.parameter.value]) order_.push_back(place.parameter);
  return std::move(order_);
}

void LayoutLearner::adopt(std::span<const SyncParameter> parameters, std::span<const ParameterId> order) {
  disagreements_ = 0;
  set(std::make_shared<const GradientLayout>(parameters, order));
}

}  // namespace tutti
