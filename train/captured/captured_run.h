// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/engine/backward_record.h>
#include <tutti/backend/capture/capture.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/train/captured_step.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// One step to be taken.
struct StepCall {
  std::span<const Tensor> batch;
  Step* step = nullptr;                   ///< null: not synchronised
  double weight = 1.0;                    ///< factor of the loss's gradient
  double scale = 1.0;                     ///< further gradient factor, which parameters of a group do not divide out
  const NamedTensors* members = nullptr;  ///< parameters and buffers of the model
};

/// One capture of a step, and what must be as it was for a replay to do the same.
class CapturedRun {
 public:
  /// Takes the step, captured. Throws CaptureError where it cannot be replayed.
  CapturedRun(const StepCall&, const CapturedStep::Function&, bool device_graphs);

  std::vector<Tensor> take_first_outputs() { return std::move(first_outputs_); }  ///< outputs of the captured step

  std::string misfit(const StepCall&) const;               ///< why this call is another one; empty: it is the same
  std::string outdated(const StepCall&) const;             ///< why no call can be the same any more; empty: it can
  std::string difference(const CapturedRun& other) const;  ///< empty: both did the same
  std::vector<Tensor> replay(const StepCall&);

  bool confirmed = false;        ///< it was captured twice, and did the same
  std::int64_t replayed = 0;     ///< times since it was captured or checked
  std::int64_t check_after = 1;  ///< replays until the next check
  std::size_t memory_bytes() const { return capture_.memory_bytes(); }
  std::size_t graphs() const { return capture_.graphs(); }

 private:
  /// A parameter or buffer as it was.
  struct Member {
    const std::byte* data;
    const Node* leaf;
  };
  static Member member_of(const Tensor&);
  void trust(const NamedTensors&);
  void record(const StepCall&, const CapturedStep::Function&);
  void refuse_kept_tensors() const;
  std::vector<Tensor> copies() const;

  Capture capture_;
  std::vector<Member> members_;
  std::vector<Array> inputs_;   // inputs in the capture's memory
  std::vector<Array> outputs_;  // outputs in the capture's memory
  std::vector<Tensor> first_outputs_;
  BackwardRecord backward_;
  double scale_;
  bool synchronised_;
};

}  // namespace tutti
