// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/local/local_crew.h>
#include <tutti/distributed/engines/local/staged_task.h>
#include <tutti/distributed/engines/network/lines/network_lines.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// Parts of the engine that its tasks share: the lines to other processes, and this one's threads.
struct NetworkFlight {
  NetworkLines lines;
  LocalCrew crew;
};

/// A collective between hosts. What its stages do, and what each waits for, its kind says; its frames are the lines'
/// affair. A failure of any stage ends the group (NetworkLines::abort). Whoever waits at a gate helps with other tasks
/// meanwhile, or processes that wait for different ones would wait for ever.
class NetworkTask : public StagedTask {
 public:
  /// A stage of a task.
  struct Stage {
    enum class Kind : std::uint8_t {
      fill,     ///< waits for nobody; then the slices of the pieces up to this one may go
      look_up,  ///< waits for all others' slices of the piece, and until the own ones have gone if results take their
                ///< place
      combine,  ///< waits for all others' slices of the piece; then its results may go
      spread,   ///< waits for all others' results of the piece, if there are any
      rest,     ///< waits until nothing of the task is on its way
    };
    static constexpr std::uint32_t kLast = ~std::uint32_t{0};  ///< the last piece, whichever that is for a process
    Kind kind;
    std::uint32_t piece;
    std::int64_t chunks;
  };

  void open();  ///< tells the lines; called before anybody works on it

 protected:
  NetworkTask(std::shared_ptr<NetworkFlight>, std::shared_ptr<NetworkExchange>, std::vector<Stage>,
              std::vector<Event> inputs, std::span<const Device>);

  virtual void run_stage(const Stage&, std::int64_t chunk) = 0;
  void drop_chunks() noexcept override;

  NetworkExchange& exchange() const noexcept { return *exchange_; }
  std::size_t place() const { return flight_->lines.place(); }  ///< valid in chunks: while one runs nothing is dropped
  int rank() const { return flight_->lines.rank(place()); }
  std::size_t processes() const { return flight_->lines.size(); }

 private:
  void run_chunk(std::size_t stage, std::int64_t chunk) final;
  bool gate_open(std::size_t stage) const final;
  void wait_for_gate(std::size_t stage) noexcept final;
  void stage_ended(std::size_t stage, const std::exception_ptr&) noexcept final;
  bool reached(const Stage&, std::size_t place) const;
  std::shared_ptr<NetworkFlight> flight() const;

  std::shared_ptr<NetworkExchange> exchange_;
  std::vector<Stage> stages_;
  mutable std::mutex mutex_;               // guards the pointer: reports keep finished tasks, and ask them
  std::shared_ptr<NetworkFlight> flight_;  // null: finished
};

}  // namespace tutti
