// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/communicator.h>
#include <tutti/distributed/engines/local/local_communicator.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace tutti::testing {

/// An engine made of another one, as an engine between processes is: each half of the devices sums by itself,
/// undivided, then the two sums are added and divided, and the result is spread. It knows its inner engine and that
/// one's tasks by their public functions alone, so that any engine may be inside, this one too.
class TwoHalves final : public Communicator {
 public:
  /// The first half is the larger one, of an odd number. Where the halves are nodes of the devices' tree of sums, sums
  /// of f32 and f64 are to the bit what they are in one piece; 16 bits are rounded once more.
  TwoHalves(std::span<const Device>, std::unique_ptr<Communicator> inner);

  std::shared_ptr<CollectiveTask> all_reduce(AllReduceRequest) override;
  std::shared_ptr<CollectiveTask> reduce_sparse(SparseReduction) override;
  std::shared_ptr<CollectiveTask> compressed_all_reduce(std::shared_ptr<CompressedReduction>, std::vector<Event> ready,
                                                        std::vector<Device> helping) override;
  std::shared_ptr<CollectiveTask> collective(CollectiveRequest) override;
  void regroup(std::span<const Member>) override;
  Crew& crew() override { return inner_->crew(); }

  int regroupings() const noexcept { return regroupings_; }

 private:
  std::vector<Member> first_half_;
  std::unique_ptr<Communicator> inner_;
  int regroupings_ = 0;
};

/// Engines for CPU devices: the local one, two halves made of it, and two halves whose inner engine is two halves.
inline std::unique_ptr<Communicator> plain(std::span<const Device>) { return std::make_unique<LocalCommunicator>(); }
inline std::unique_ptr<Communicator> halves(std::span<const Device> devices) {
  return std::make_unique<TwoHalves>(devices, plain(devices));
}
inline std::unique_ptr<Communicator> halves_of_halves(std::span<const Device> devices) {
  return std::make_unique<TwoHalves>(devices, halves(devices.subspan(0, (devices.size() + 1) / 2)));
}

}  // namespace tutti::testing
