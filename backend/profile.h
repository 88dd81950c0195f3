// SPDX-License-Identifier: Apache-2.0
#pragma once

// Profiles: which kernels the time of a step goes to, and how near each is to what the machine can do.
// docs/profiling.md has an example from start to end.

#include <tutti/backend/device.h>
#include <tutti/backend/dtype.h>
#include <tutti/backend/processor_limits.h>
#include <tutti/backend/shape.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tutti {

/// One kernel that ran under a profile, or one copy between the host and a device, or between two of these.
struct ProfiledKernel {
  struct Operand {
    DType dtype = DType::f32;
    Shape shape;
    bool operator==(const Operand&) const = default;
  };
  std::string name;       ///< kernel and, where there are several, which: "matmul", "elementwise add", "reduce sum"
  std::string operation;  ///< operation on tensors that it is part of: "gelu", "cross_entropy"; empty: none
  bool backward = false;  ///< part of that operation's gradient
  Device device;
  std::vector<Operand> operands;      ///< its arrays, in the kernel's order (backend/kernel_list.h)
  std::chrono::nanoseconds begin{0};  ///< time since its run began
  std::chrono::nanoseconds duration{0};
  double bytes_read = 0.0;     ///< distinct elements of what it reads: an array that is broadcast counts once
  double bytes_written = 0.0;  ///< the same of what it writes
  double flops = 0.0;          ///< operations of products and convolutions, two for each multiply-add; 0: not counted
};

/// All that one ProfiledScope has seen.
struct ProfiledRun {
  std::size_t thread = 0;             ///< number of its thread among those of the profile, from 0 on
  std::chrono::nanoseconds begin{0};  ///< time by the steady clock
  std::chrono::nanoseconds duration{0};
  std::vector<ProfiledKernel> kernels = {};  ///< those that ended well, in order
};

/// The kernels that a row of the table adds up.
enum class ProfileRows : std::uint8_t {
  kernels,     ///< kernels of one name
  shapes,      ///< those with operands of the same dtypes and shapes
  operations,  ///< all kernels of one operation on tensors, or of its gradient
};

struct ProfileTableOptions {
  ProfileRows rows = ProfileRows::kernels;
  /// Rates that the machine reaches at most, with as many threads as the kernels have; kernels of CPU devices are shown
  /// beside them, those with operands of bf16 beside that of bf16's products.
  std::optional<ProcessorLimits> limits = {};
};

/// A table of the runs' mean: calls, milliseconds and share of each row, its rates and, with limits, the part of the
/// shortest time that its bytes and operations allow; then the time between kernels, so that it adds up to the whole.
std::string profile_table(const std::vector<ProfiledRun>&, const ProfileTableOptions& = {});

/// Collects what ran in its scopes, which may be on several threads at a time. It outlives them, and is asked when they
/// have ended: else Error.
class Profile {
 public:
  /// One for each scope, in the order in which they ended; until another scope begins.
  const std::vector<ProfiledRun>& runs() const;
  std::string table(const ProfileTableOptions& options = {}) const { return profile_table(runs(), options); }
  /// Writes a trace for Perfetto and chrome://tracing: a track for each thread. DataError naming the path if it cannot
  /// be written.
  void write_trace(const std::string& path) const;

 private:
  friend class ProfiledScope;
  ProfiledRun begin();
  void end(ProfiledRun) noexcept;

  mutable std::mutex mutex_;  // guards what follows
  std::size_t open_ = 0;      // scopes that are on
  std::vector<std::thread::id> threads_;
  std::vector<ProfiledRun> runs_;
};

/// Profiles its thread while it lives: every kernel is waited for on both sides, so that nothing overlaps, and errors
/// of queued work are thrown where it was queued. What other threads do is not seen: each has a scope of its own, of
/// one profile or of several. Not nested: Error. Captures, replays (whose device graphs are run as single kernels
/// meanwhile) and `backward` are seen as all else is. Ends on the thread where it began; an exception that passes it
/// loses the kernel that threw and nothing else. What runs without a scope costs nothing.
class ProfiledScope {
 public:
  [[nodiscard]] explicit ProfiledScope(Profile&);
  ~ProfiledScope();
  ProfiledScope(const ProfiledScope&) = delete;
  ProfiledScope& operator=(const ProfiledScope&) = delete;

 private:
  class Decorator;
  Profile& profile_;
  std::unique_ptr<Decorator> decorator_;
};

}  // namespace tutti
