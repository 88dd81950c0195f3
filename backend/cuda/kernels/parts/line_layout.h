// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/cuda/kernels/parts/strided_axes.h>

namespace tutti::cuda_kernels {

/// How the threads of a block share out lines: the elements that belong to one result of a reduction, a softmax, ...
/// Each line has `lanes` threads. They are neighbours where a line's elements are (`adjacent`); else it is the lines
/// that lie side by side, and neighbouring threads take neighbouring lines. Both numbers are powers of two.
struct LineLayout {
  static constexpr std::uint32_t kThreads = 256;
  static constexpr std::uint32_t kWarp = 32;

  static constexpr std::int64_t kOnePass = 8192;        // elements, for `of`
  static constexpr std::int64_t kSeveralPasses = 1024;  // the same

  std::uint32_t lines;  // number in a block
  std::uint32_t lanes;  // lines * lanes == kThreads
  bool adjacent;

  TUTTI_HOST_DEVICE std::uint32_t line_of(std::uint32_t thread) const {
    return adjacent ? thread / lanes : thread % lines;
  }
  TUTTI_HOST_DEVICE std::uint32_t lane_of(std::uint32_t thread) const {
    return adjacent ? thread % lanes : thread / lines;
  }
  /// Blocks' worth of work in `count` lines.
  TUTTI_HOST_DEVICE std::int64_t groups(std::int64_t count) const { return divide_up(count, lines); }

  /// The layout for `count` lines of `length` elements. Each of many lines that are shorter than `for_warps` has a
  /// warp: kOnePass for a kernel that reads its lines once. One that passes over them again finds them in a cache only
  /// if they are short, as so many are under way.
  static constexpr LineLayout of(std::int64_t count, std::int64_t length, bool adjacent, std::int64_t for_warps) {
    constexpr auto up_to = [](std::int64_t wanted, std::uint32_t most) {
      std::uint32_t power = 1;
      while (power < most && power < wanted) power *= 2;
      return power;
    };
    constexpr std::int64_t kPerLane = 4;
    if (adjacent) {
      // Joining what a block's threads found costs more than a few thousand elements: only where a warp for each line
      // would leave a large device idle does a line of so few have a block.
      constexpr std::int64_t kManyLines = 8192;
      const std::int64_t worth_a_block = count >= kManyLines ? for_warps : kSeveralPasses;
      const std::uint32_t lanes = length >= worth_a_block ? kThreads : up_to(divide_up(length, kPerLane), kWarp);
      return {kThreads / lanes, lanes, true};
    }
    const std::uint32_t side_by_side = up_to(count, kThreads);
    const std::uint32_t wanted = kThreads / up_to(length, kThreads / kWarp);  // a warp at least
    const std::uint32_t lines = wanted < side_by_side ? wanted : side_by_side;
    return {lines, kThreads / lines, false};
  }
};

}  // namespace tutti::cuda_kernels
