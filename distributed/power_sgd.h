// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/gradient_compression.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti {

struct LowRankMatrix;

struct PowerSgdOptions {
  std::int64_t rank = 1;         ///< rank of the factors; at most the shorter side of each matrix
  std::int64_t start_after = 0;  ///< steps at the beginning that travel uncompressed
  /// Matrices travel compressed where that makes them smaller by more than this factor. 0: all of them.
  double minimum_rate = 2.0;
  std::uint64_t seed = 0;  ///< seed of the first factors
};

/// Gradients of low rank: Vogels, Karimireddy and Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for
/// Distributed Optimization" (2019). A gradient [n, ...] is a matrix M of n rows; P = mean of M_i Q travels, is made
/// orthonormal, then Q = mean of M_i^T P, and P Q^T is the result. Q is kept for the next step, its columns 1 long.
/// What a device's gradient has lost is added to its next one: M_i = N g_i / denominator + e_i over all N devices of
/// the group, in however many processes, e_i = M_i - P Q^T, so that the sum of all results and the mean of what is kept
/// equal the sum of the plain means, to f32's precision. Devices that do not require a parameter, have weight 0, or
/// have left go on sending what they kept.
///
/// What is not a matrix, or would not shrink, travels whole. Memory: one f32 copy of every compressed gradient on each
/// device. For f32 parameters on CPU devices. A parameter that was reduced in a step that failed begins anew, with what
/// was kept dropped; so does what is kept of a value that is not finite.
class PowerSgd : public GradientCompression {
 public:
  explicit PowerSgd(const PowerSgdOptions& = {});  ///< throws SyncError for values out of range
  ~PowerSgd() override;

  void prepare(std::span<const SyncParameter>, const GroupMembers&) override;
  std::string shared_settings() const override;
  std::shared_ptr<CompressedReduction> begin(const CompressionRequest&) override;
  void commit() override;
  void roll_back() override;
  /// "power_sgd:steps" (i64 [1]); for each compressed parameter "power_sgd:<name>:factor" (f32 [rank, columns]) and
  /// "power_sgd:<name>:kept:<device's number in the group>" (f32 [rows, columns]), of this process's devices, on cpu:0.
  State state() const override;
  void load_state(const State&) override;

  /// Bytes that one device sends in a step for this parameter, and what it would send uncompressed.
  struct Traffic {
    std::size_t compressed = 0;
    std::size_t plain = 0;
  };
  Traffic traffic(ParameterId) const;

 private:
  struct StateArray {
    std::string name;
    Shape shape;
    std::span<float> values;  // memory where the elements lie; of another process's device: none
  };
  std::unique_ptr<LowRankMatrix> matrix_for(const SyncParameter&, std::size_t id, std::span<const Device>) const;
  void restart(LowRankMatrix&) const;
  std::vector<StateArray> state_arrays() const;  // those of all processes' devices

  const PowerSgdOptions options_;
  std::optional<GroupMembers> members_;                   // none: no group yet
  std::vector<std::size_t> plain_bytes_;                  // bytes uncompressed, by parameter
  std::vector<std::unique_ptr<LowRankMatrix>> matrices_;  // state kept, by parameter; null: travels whole
  std::vector<LowRankMatrix*> uncommitted_;               // reduced in a step that is not committed yet
  std::int64_t steps_ = 0;                                // committed
  std::atomic<int> running_{0};                           // reductions begun and not ended
};

}  // namespace tutti
