// SPDX-License-Identifier: Apache-2.0
#include <tutti/optim/optimizers/wolfe_search.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace tutti {
namespace {

constexpr double kArmijo = 1e-4;
constexpr double kCurvature = 0.9;

/// Where the cubic through two points with their slopes is least, within bounds; their middle where it has no minimum.
double cubic_minimum(const LinePoint& a, const LinePoint& b, double lower, double upper) {
  const auto& [left, right] = a.step <= b.step ? std::pair(&a, &b) : std::pair(&b, &a);
  const double d1 = left->slope + right->slope - 3.0 * (left->loss - right->loss) / (left->step - right->step);
  const double square = d1 * d1 - left->slope * right->slope;
  if (!(square >= 0.0)) return (lower + upper) / 2.0;
  const double d2 = std::sqrt(square);
  const double share = (right->slope + d2 - d1) / (right->slope - left->slope + 2.0 * d2);
  if (!std::isfinite(share)) return (lower + upper) / 2.0;
  return std::clamp(right->step - (right->step - left->step) * share, lower, upper);
}

class Search {
 public:
  Search(const std::function<LinePoint(double)>& evaluate, const LinePoint& origin, const WolfeSearch& options)
      : evaluate_(evaluate), origin_(origin), options_(options) {}

  LinePoint run() {
    if (bracket()) zoom();
    return points_[low_];
  }

 private:
  LinePoint at(double step) const {
    LinePoint point = evaluate_(step);
    if (!std::isfinite(point.loss)) point.loss = std::numeric_limits<double>::infinity();
    return point;
  }
  bool decreases_enough(const LinePoint& point) const {
    return point.loss <= origin_.loss + kArmijo * point.step * origin_.slope;
  }
  bool is_flat_enough(const LinePoint& point) const { return std::abs(point.slope) <= -kCurvature * origin_.slope; }
  void take_lower_first() { low_ = points_[0].loss <= points_[1].loss ? 0 : 1; }

  /// Goes on until two points have one between them that is looked for; false if one was met.
  bool bracket() {
    LinePoint previous = origin_;
    LinePoint point = at(options_.first_step);
    for (;; ++evaluations_) {
      const bool too_far = !decreases_enough(point) || (evaluations_ > 1 && point.loss >= previous.loss);
      if (evaluations_ == options_.evaluations) previous = origin_;
      if (evaluations_ < options_.evaluations && !too_far && is_flat_enough(point)) {
        points_[0] = std::move(point);
        return false;
      }
      if (evaluations_ == options_.evaluations || too_far || point.slope >= 0.0) break;
      const double least = point.step + 0.01 * (point.step - previous.step);
      const double step = cubic_minimum(previous, point, least, 10.0 * point.step);
      previous = std::exchange(point, at(step));
    }
    points_ = {std::move(previous), std::move(point)};
    take_lower_first();
    return true;
  }

  /// A step between the two that is not too near to one of them twice.
  double next_step() {
    const auto [least, most] = std::minmax(points_[0].step, points_[1].step);
    const double margin = 0.1 * (most - least);
    const double step = cubic_minimum(points_[0], points_[1], least, most);
    const bool near = std::min(most - step, step - least) < margin;
    const bool moved = near && (was_near_ || step >= most || step <= least);
    was_near_ = near && !moved;
    if (!moved) return step;
    return std::abs(step - most) < std::abs(step - least) ? most - margin : least + margin;
  }

  void zoom() {
    while (evaluations_ < options_.evaluations &&
           std::abs(points_[1].step - points_[0].step) * options_.longest >= options_.tolerance_change) {
      LinePoint point = at(next_step());
      ++evaluations_;
      LinePoint& low = points_[low_];
      LinePoint& high = points_[1 - low_];
      if (!decreases_enough(point) || point.loss >= low.loss) {
        high = std::move(point);
        take_lower_first();
        continue;
      }
      const bool met = is_flat_enough(point);
      if (point.slope * (high.step - low.step) >= 0.0) high = low;
      low = std::move(point);
      if (met) return;
    }
  }

  const std::function<LinePoint(double)>& evaluate_;
  const LinePoint& origin_;
  const WolfeSearch& options_;
  int evaluations_ = 0;  // after the first
  std::array<LinePoint, 2> points_;
  std::size_t low_ = 0;
  bool was_near_ = false;
};

}  // namespace

LinePoint wolfe_search(const std::function<LinePoint(double step)>& evaluate, const LinePoint& origin,
                       const WolfeSearch& options) {
  return Search(evaluate, origin, options).run();
}

}  // namespace tutti
