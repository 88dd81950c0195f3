// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/block_sums.h>
#include <tutti/distributed/communicator.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti {

/// Throws SyncError naming the devices unless the slices agree and are contiguous and there are as many numbers, if
/// any, DTypeError unless they are floating, or not f32 for a 16-bit wire.
void check_slices(const AllReduceRequest&);

/// A slice of an all-reduce wherever it lies in host memory, this process's or another's.
struct SummedSlice {
  std::byte* data = nullptr;
  std::size_t number = 0;  ///< the device's in the group
  bool contributes = true;
  bool receives = true;  ///< the result is written to it; some slice receives
};

/// An all-reduce in host memory with its slices looked up: a chunk of it costs hardly more than its elements. The
/// arrays are to be kept alive meanwhile. Each element is summed by one thread, in the tree of the slices' devices, so
/// results depend neither on how the work was cut nor on who did it. Thread-safe.
class ElementSums {
 public:
  /// Takes slices that were checked. Throws SyncError unless their numbers ascend.
  explicit ElementSums(const AllReduceRequest&);
  ElementSums(std::span<const SummedSlice>, DType, GradientWire, double denominator, double wire_scale);

  void run(std::int64_t begin, std::int64_t count) const;  ///< elements [begin, begin + count)

 private:
  template <class SliceAt> void set_slices(std::size_t count, SliceAt);
  template <class T> void sum(std::int64_t begin, std::int64_t count) const;
  template <class Wire> void sum_over_wire(std::int64_t begin, std::int64_t count) const;

  bool pair_ = false;          // two slices that both contribute and receive, without a 16-bit wire
  std::byte* first_two_[2]{};  // the pair's gradients
  DType dtype_;
  GradientWire wire_;
  double denominator_;
  double wire_scale_;
  std::vector<std::byte*> inputs_;  // contributing slices; empty for a pair
  SumTree tree_;                    // joins the inputs
  std::vector<std::byte*> outputs_;
};

/// Power of two by which gradients are multiplied before they travel in 16 bits, so that those of a weighted mean,
/// which carry their batches' weights, have the size of their mean: the largest not above contributors / total weight.
double weighted_wire_scale(std::int64_t contributors, double total_weight);

}  // namespace tutti
