// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/compression/low_rank.h>
#include <tutti/distributed/gradient_compression.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// State that PowerSgd keeps of one parameter that it compresses. Device memory is written on any thread, outside of
/// streams.
struct LowRankMatrix {
  std::string name;
  std::uint64_t random_stream = 0;
  low_rank::Size size;
  std::vector<float> factor;  ///< [rank, columns]: where the next step begins; one for all devices, so equal on all
  std::vector<Array> kept;    ///< losses of each device's gradients, f32 [rows, columns], of this process's devices
  std::vector<Array> left;    ///< scratch of each of them, f32 [rank, rows]
  std::vector<Array> right;   ///< scratch of each of them, f32 [rank, columns]
};

/// One bucket's way through PowerSgd.
class PowerSgdReduction : public CompressedReduction {
 public:
  /// A gradient of the bucket; without a matrix it travels whole.
  struct Part {
    LowRankMatrix* matrix = nullptr;
    std::int64_t offset = 0;  ///< elements before it in the bucket
    std::int64_t size = 0;
  };

  /// `running` counts reductions that have not ended; it and the group outlive this.
  PowerSgdReduction(const CompressionRequest&, const GroupMembers&, std::vector<Part>, std::atomic<int>& running);
  ~PowerSgdReduction() override;
  PowerSgdReduction(const PowerSgdReduction&) = delete;
  PowerSgdReduction& operator=(const PowerSgdReduction&) = delete;

  const std::vector<Device>& devices() const override { return group_.devices(); }
  std::size_t rounds() const override { return 2; }
  void encode(std::size_t round, std::size_t member) override;
  std::vector<AllReduceRequest> factors(std::size_t round) override;
  void decode(std::size_t member) override;

 private:
  void encode_left(const Part&, std::size_t member);
  void encode_right(const Part&, std::size_t member);
  void decode_matrix(const Part&, std::size_t member);
  bool receives(std::size_t member) const { return members_[member].gradient.defined(); }
  float* gradient(const Part&, std::size_t member) const;
  AllReduceRequest factor_request(const LowRankMatrix&, const std::vector<Array>& by_member) const;
  AllReduceRequest whole_request(const Part&) const;

  const GroupMembers& group_;
  std::vector<CompressionRequest::Member> members_;
  std::vector<Part> parts_;
  double denominator_;
  GradientWire wire_;
  double wire_scale_;
  std::atomic<int>& running_;
};

}  // namespace tutti
