// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tutti {

struct CaptureOptions {
  std::size_t most_captures = 8;  ///< kept at a time, one for each sort of batch; the one not used for longest goes
  /// Most replays between two checks, for which the call is captured once more to see that it still does the same:
  /// after 1 replay, then after 2 more, 4 more and so on, twice as many each time, at most so many; 0: never.
  std::int64_t check_every = 1000;
  /// Makes each segment of a replay one graph on devices that have graphs (CUDA), but for random numbers, linear
  /// algebra and Fourier transforms. false: replays launch every kernel.
  bool device_graphs = true;
};

struct CaptureReport {
  std::int64_t eager = 0;     ///< calls run as they are
  std::int64_t captured = 0;  ///< calls run captured
  std::int64_t replayed = 0;
  std::size_t memory = 0;  ///< bytes that captures hold, without parameters and gradients
  std::size_t graphs = 0;  ///< graphs of the device that replays launch (CaptureOptions::device_graphs)
  /// Calls of elementwise operations that the last replay of each capture made in chains: a CPU device goes through
  /// memory once for all of a chain.
  std::size_t chained = 0;
  std::string reason;  ///< why the last call that was not replayed was not
};

}  // namespace tutti
