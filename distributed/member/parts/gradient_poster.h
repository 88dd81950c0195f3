// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/observer/gradient_observer.h>
#include <tutti/distributed/ledger/expected_buckets.h>
#include <tutti/distributed/member/parts/member_place.h>
#include <tutti/distributed/member/parts/replica.h>
#include <tutti/distributed/member/parts/standing.h>
#include <tutti/distributed/member/parts/step_results.h>
#include <tutti/distributed/member/parts/step_weight.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>

namespace tutti {

/// Turns what autodiff observes in a device's synchronised backward into the server's messages: what the step requires,
/// each gradient as it becomes final, the end. For the thread that drives the device.
class GradientPoster final : public GradientObserver {
 public:
  /// Takes references: the arguments outlive the poster.
  GradientPoster(const MemberPlace&, const Standing&, const StepWeight&, Replica&, StepResults&);

  /// Notes when the step was opened and, where replicas are compared, the buffers, which the forward writes.
  void begin_step();
  void forget() noexcept { required_ = nullptr; }  ///< forgets what the old group required
  /// The synchronised backward of the open step has begun: what the group knows of it cannot change any more.
  bool has_registered() const noexcept { return registered_; }
  /// Takes part without a loss: what is required is what was accumulated.
  void post_without_loss();
  /// A graph of this device holds a collective: gradients of other devices' losses may pass here.
  void note_recorded_collective() noexcept { passes_on_ = true; }

  void on_other_leaves(std::span<const Shape>) override;
  void on_backward_begin(Device, std::span<const ParameterUse>) override;
  void on_gradient_final(Device, ParameterId, GradientRef) override;
  std::uint32_t portion_of(ParameterId id) const override { return buckets_.number_of(id); }
  void on_backward_end(Device) override;
  void on_backward_failed(Device, std::exception_ptr) override;

 private:
  bool check_is_due() const;
  bool gradients_count() const noexcept { return weight_.total() > 0.0 || passes_on_; }
  void register_with(std::span<const ParameterUse>);
  void submit(ParameterId, GradientRef);  ///< checked, and given up where gradients are scattered
  void send(ParameterId, GradientRef);
  void refuse_non_finite(ParameterId, const GradientRef&);
  void give_up(ParameterId, GradientRef);

  const MemberPlace place_;
  const Standing& standing_;
  const StepWeight& weight_;
  Replica& replica_;
  StepResults& results_;
  std::shared_ptr<const RequiredSet> required_;
  std::shared_ptr<const GradientArena> arena_;  // registered for the step
  bool registered_ = false;
  std::chrono::steady_clock::time_point opened_;  // the step
  ExpectedBuckets buckets_;                       // buckets of this step
  ReplicaDigest buffers_before_;  // digest of the buffers as the step opened, where replicas are compared
  bool passes_on_ = false;
  std::size_t told_leaves_ = 0;  // leaves of no group in the backward that had the most
};

}  // namespace tutti
