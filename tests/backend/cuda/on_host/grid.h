// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs the threads of CUDA kernels on the host: a block's are fibers that take turns, so that they can wait for each
// other. What a device would leave undefined is a Fault.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <stdexcept>
#include <string>

namespace tutti::on_host {

/// What a kernel may not do, and the threads that did it.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Results may not depend on any of this.
struct Schedule {
  enum class Order : std::uint8_t { forward, backward, shuffled };
  Order order = Order::forward;  ///< in which blocks run, and the threads of a block that need not wait
  unsigned seed = 0;
  unsigned most_blocks = ~0U;  ///< fewer than asked for, and threads loop
};
inline Schedule schedule;

/// Of the thread that runs.
struct Registers {
  dim3 grid;
  dim3 block;
  dim3 block_index;
  dim3 thread_index;
};
inline Registers registers;

/// A kernel and what it is called with.
struct Kernel {
  void (*run)(const void* arguments);
  const void* arguments;
};

/// Runs `kernel` for each thread. Throws Fault; what else runs in the grid is then abandoned.
void run_grid(dim3 blocks, dim3 threads, const Kernel& kernel);

inline constexpr unsigned kWarp = 32;

/// What the threads of a warp do together.
struct WarpCall {
  enum class Kind : std::uint8_t { synchronize, ballot, shuffle };
  Kind kind;
  std::uint32_t mask;    ///< lanes that take part
  std::uint64_t value;   ///< ballot: 0 or 1
  std::uint32_t source;  ///< shuffle: lane whose value is wanted
  std::source_location where;
};

// For the thread that runs. They return when all who take part have called.
void wait_for_block(const std::source_location& where);
std::uint64_t call_warp(const WarpCall&);

/// When the thread that runs does what it does. A phase is what lies between two barriers.
struct Moment {
  std::uint32_t block = 0;  ///< numbered through all launches, from 1
  std::uint32_t phase = 0;  ///< of the block; numbered likewise
  std::uint32_t warp_phase = 0;
  std::uint16_t thread = 0;
};

/// The thread that runs.
struct Running {
  const Moment* now = nullptr;  ///< null outside of grids
  const std::byte* stack = nullptr;
  const std::byte* stack_end = nullptr;
};
inline Running running;

bool is_ordered_before_now(const Moment&) noexcept;  ///< by the end of a grid or by barriers
/// Ends the grid with a Fault, in the midst of code that cannot throw. `message` says what the thread did.
[[noreturn]] void end_thread(const std::string& message);

}  // namespace tutti::on_host
