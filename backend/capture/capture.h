// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/calls/device_graph.h>
#include <tutti/backend/capture/captured_draws.h>
#include <tutti/backend/capture/elementwise_chains.h>
#include <tutti/backend/capture/tape.h>
#include <tutti/backend/device.h>
#include <tutti/backend/memory/storage.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tutti {

class CaptureMemory;

/// Captures what one thread asks one device to do: it is done, and kept as a tape that can be run again.
///
/// All memory that the thread takes meanwhile comes from the capture's own pool, which nobody else uses: so that what
/// is at an address during a replay is what was there before, and blocks are shared by what is not alive at the same
/// time. Arrays made meanwhile may outlive the capture (they keep the pool), but replays write to their memory.
///
/// Refused with CaptureError: reading values on the host, taking values from the host (unless HostConstants says that
/// they are always the same), random numbers on the host, work on other devices of the same kind. Not noticed: access
/// by `Array::data`, and whatever does not pass by a backend.
class Capture {
 public:
  explicit Capture(Device);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Device device() const noexcept { return device_; }
  Tape& tape() noexcept { return tape_; }
  const Tape& tape() const noexcept { return tape_; }
  CapturedDraws& draws() noexcept { return draws_; }
  const CapturedDraws& draws() const noexcept { return draws_; }
  Backend& device_backend() const;  ///< backend that the captured calls and replays run on, decorated where it is
  Backend& recording() const noexcept { return *recording_; }  ///< backend that the capturing thread sees
  MemoryPool& pool() noexcept;
  std::size_t memory_bytes() const;   ///< bytes that it holds on its device
  std::size_t live_storages() const;  ///< made in it; work that is still queued holds some

  /// Memory from outside that is in use at its address whenever the tape is run: not kept alive by the capture.
  void trust(const Array& array) { trusted_.push_back(array.storage().get()); }
  /// True for memory from outside that nothing captured has written to: what it holds is the same in every run.
  bool is_constant(const Array&) const;
  /// The operand as the tape keeps it. `written`: what it held before does not matter.
  TapeOperand operand(const Array&, bool written = false);
  void note_written(const Array&);
  /// A number of the program's text, which the capture keeps.
  void note_literal(const Array&, const Scalar&);
  void note_input(const Array& buffer) { writers_[buffer.storage()->data()] = ++writes_; }

  /// Prepares a run of the tape: random numbers go on, writes to memory from outside are counted.
  void begin_replay();
  /// Runs a part of it. Calls that are the same each time become one graph where the device's kind has graphs
  /// (`Backend::make_graph`), which is made when they are run first; elsewhere elementwise calls that follow each other
  /// become chains. Where the backend is decorated, each is made.
  void run(std::size_t begin, std::size_t end);
  void use_graphs(bool use) noexcept { use_graphs_ = use; }  ///< false: runs make no graphs
  std::size_t graphs() const noexcept { return graphs_.size(); }
  std::size_t chained_calls() const noexcept { return chained_calls_; }  ///< made in chains since the last begin_replay

 private:
  static constexpr std::size_t kFewestInGraph = 3;  // launching a graph takes as long as launching two kernels
  DeviceGraph* graph_of(std::size_t begin, std::size_t end);
  void run_chains(std::size_t begin, std::size_t end);

  Device device_;
  Backend& inner_;
  std::shared_ptr<CaptureMemory> memory_;
  // Temporary memory of graphs, a pool of its own: what is free in `memory_` holds values while the tape runs.
  std::shared_ptr<CaptureMemory> scratch_;
  std::unique_ptr<Backend> recording_;
  Tape tape_;
  CapturedDraws draws_;
  bool use_graphs_ = true;
  std::size_t chained_calls_ = 0;
  // Graphs by the part of the tape that each stands for, its begin and end.
  std::map<std::pair<std::size_t, std::size_t>, std::unique_ptr<DeviceGraph>> graphs_;
  // Chains of parts that are no graph, by begin and end; null: the part has none.
  std::map<std::pair<std::size_t, std::size_t>, std::unique_ptr<ElementwiseChains>> chains_;
  std::vector<const Storage*> trusted_;
  std::uint64_t writes_ = 0;                                              // arrays that calls wrote to, and inputs
  std::unordered_map<const std::byte*, std::uint64_t> writers_;           // own memory: which of these was its last
  std::unordered_map<const std::byte*, std::uint64_t> literals_;          // their values' bits
  std::unordered_map<const std::byte*, std::shared_ptr<Storage>> kept_;   // memory from outside that is kept alive
  std::unordered_map<const std::byte*, std::weak_ptr<Storage>> written_;  // memory from outside that is written to
};

/// The capture of the calling thread; null: none, or it is suspended.
Capture* active_capture() noexcept;

/// Captures what its thread does on the capture's device while it lives. Not nested: CaptureError.
class CaptureScope {
 public:
  [[nodiscard]] explicit CaptureScope(Capture&);
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;
};

/// Suspends the capture of its thread while it lives: what is done meanwhile is no part of the tape.
class CaptureSuspension {
 public:
  [[nodiscard]] CaptureSuspension();
  ~CaptureSuspension();
  CaptureSuspension(const CaptureSuspension&) = delete;
  CaptureSuspension& operator=(const CaptureSuspension&) = delete;

 private:
  Capture* suspended_;
};

/// Declares that values copied from the host on its thread while it lives are the same in every run.
class HostConstants {
 public:
  [[nodiscard]] HostConstants();
  ~HostConstants();
  HostConstants(const HostConstants&) = delete;
  HostConstants& operator=(const HostConstants&) = delete;
  static bool declared() noexcept;

 private:
  bool previous_;
};

}  // namespace tutti
