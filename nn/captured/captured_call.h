// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/capture/capture.h>
#include <tutti/nn/captured/capture_options.h>
#include <tutti/nn/module.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// Words of errors and reasons, literals: "captured step", "step".
struct CaptureWords {
  std::string_view name;
  std::string_view call;
};

void check_options(const CaptureWords&, const CaptureOptions&);  ///< Error for `check_every` below 0
/// Throws CaptureError: two captures differ, as `parted` says. `replayed`: how often the first was, before the second.
[[noreturn]] void raise_unsteady(const CaptureWords&, std::int64_t replayed, const std::string& parted);

/// One capture of a function of tensors, and what must be as it was for a replay to do the same. Whoever derives from
/// it runs the function within a CaptureScope, between `take_inputs` and `take_outputs`.
class CapturedCall {
 public:
  static void refuse_literals(const CaptureWords&, std::span<const Tensor>);      ///< CaptureError for one among them
  std::vector<Tensor> take_first_outputs() { return std::move(first_outputs_); }  ///< outputs of the captured call

  bool confirmed = false;        ///< it was captured twice, and did the same
  std::int64_t replayed = 0;     ///< times since it was captured or checked
  std::int64_t check_after = 1;  ///< replays until the next check
  std::size_t memory_bytes() const { return capture_.memory_bytes(); }
  std::size_t graphs() const { return capture_.graphs(); }
  std::size_t chained_calls() const { return capture_.chained_calls(); }

 protected:
  /// Members are used at their addresses, and stay where they are.
  CapturedCall(const CaptureWords&, Device, const NamedTensors& members, bool device_graphs);

  /// The inputs as the function is to see them, in the capture's memory.
  std::vector<Tensor> take_inputs(std::span<const Tensor>);
  void take_outputs(const std::vector<Tensor>&);  ///< CaptureError for one on another device
  /// CaptureError for tensors that the call made and that are still there. Waits for the device.
  void refuse_kept_tensors() const;
  void refuse_kept_inputs() const;                          ///< the same for the inputs, after that
  std::string other_inputs(std::span<const Tensor>) const;  ///< why these are others; empty: they are not
  std::string outdated(const NamedTensors& members) const;  ///< why no call can be the same any more; empty: it can
  std::string other_calls(const CapturedCall&) const;       ///< empty: both did, and returned, the same
  void begin_replay(std::span<const Tensor> inputs);
  std::vector<Tensor> outputs() const;  ///< copies of what the last run left

  Capture capture_;

 private:
  /// A parameter or buffer as it was. Its array is kept, which replays that are queued may read.
  struct Member {
    Array array;
    const Node* leaf;
  };
  static Member member_of(const Tensor&);

  CaptureWords words_;
  std::vector<Member> members_;
  std::vector<Array> inputs_;         // inputs in the capture's memory
  std::vector<TapeOperand> outputs_;  // outputs, where the calls left them
  std::vector<Tensor> first_outputs_;
};

}  // namespace tutti
