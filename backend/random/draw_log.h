// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti {

/// The draws of generators on a thread, kept so that a computation can be run again with the same random numbers: where
/// each draw stood, in order, whichever generator made it.
class DrawLog {
 public:
  struct Draw {
    std::uint64_t seed;
    std::uint64_t stream;
    std::uint64_t counter;
  };

  std::vector<Draw> draws;
};

/// Adds draws on its thread to the log while it lives (`record`), or makes them repeat the log and leave their
/// generators where they are (`replay`). Scopes nest: what is replayed inside is not recorded outside, what is recorded
/// inside is recorded outside too.
class DrawScope {
 public:
  [[nodiscard]] static DrawScope record(DrawLog& log) { return DrawScope(&log, nullptr); }
  [[nodiscard]] static DrawScope replay(const DrawLog& log) { return DrawScope(nullptr, &log); }
  ~DrawScope();
  DrawScope(const DrawScope&) = delete;
  DrawScope& operator=(const DrawScope&) = delete;

 private:
  friend class Generator;
  DrawScope(DrawLog* recorded, const DrawLog* replayed);
  /// The counter of this draw; `counter` is moved on by `count` unless it is a repeated one. Throws Error for a draw
  /// that the log does not have there.
  static std::uint64_t take(std::uint64_t seed, std::uint64_t stream, std::uint64_t& counter, std::uint64_t count);
  std::uint64_t repeat(std::uint64_t seed, std::uint64_t stream);

  DrawLog* recorded_;
  const DrawLog* replayed_;
  std::size_t next_ = 0;
  DrawScope* outer_;
};

}  // namespace tutti
