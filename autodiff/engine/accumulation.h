// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/backward.h>
#include <tutti/autodiff/engine/backward_record.h>
#include <tutti/autodiff/engine/backward_run.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// Everything about one accumulating backward that concerns leaves and who hears of them. Recorded where the options
/// say so: the calling thread then captures.
class Accumulation {
 public:
  /// `local`: under LocalAccumulation, of that owner.
  Accumulation(const BackwardOptions& options, bool local, const void* local_owner)
      : options_(options), local_(local), local_owner_(local_owner) {}

  void begin(Device, std::span<const BackwardRun::Leaf>);  ///< called before anything is accumulated
  void accumulate(LeafNode&, std::vector<SparseGradient>, double weight, bool unknown_reads);
  void accumulate(LeafNode&, Tensor gradient, double weight, bool unknown_reads);
  /// Indices, ascending, of the gradients behind which a replay tells the observer of all that are final.
  std::vector<std::size_t> segment_ends(std::span<const BackwardRecord::Final>) const;
  /// Takes over, in a replay, a gradient that is in its place.
  void restore(const BackwardRecord::Final&, bool unknown_reads);
  void end();
  void failed() noexcept;

 private:
  void check_attached(const LeafNode&, const Attachment&) const;
  void note_states(std::span<const BackwardRun::Leaf>);
  void note_places();
  void tell(LeafNode&, bool unknown_reads);

  const BackwardOptions& options_;
  Device device_;
  bool local_;
  const void* local_owner_;
  std::string first_name_;
};

}  // namespace tutti
