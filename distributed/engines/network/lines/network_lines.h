// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/network/lines/doorbell.h>
#include <tutti/distributed/engines/network/lines/network_peer.h>
#include <tutti/distributed/engines/network/lines/send_order.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace tutti {

/// The lines from this process to all others of its group, and the thread that serves them: it receives, and sends what
/// did not go at once. Requests are opened, and then give and take pieces; who waits for others sleeps here, or serves
/// the lines in the thread's place, which spares both a change of threads. Any failure ends it for good, on all
/// processes that can be told. Thread-safe.
class NetworkLines {
 public:
  struct Settings {
    std::vector<int> ranks;  ///< numbers of all processes, ascending
    int rank = 0;            ///< this one
    std::uint64_t epoch = 0;
    std::size_t piece_bytes = 0;
    std::size_t window_pieces = 0;  ///< number of pieces that may wait to be used, from each process in each sequence
    std::chrono::milliseconds patience{};
    std::chrono::milliseconds grace{};  ///< time for somebody else to say why a process has ended its part
    bool spins = false;                 ///< true if cores are free while others are waited for
  };

  NetworkLines(GroupLines, Settings);
  ~NetworkLines();  ///< takes leave; what was sent goes out first, for 2 s at most
  NetworkLines(const NetworkLines&) = delete;
  NetworkLines& operator=(const NetworkLines&) = delete;

  std::size_t size() const noexcept { return settings_.ranks.size(); }  ///< number of processes
  std::size_t place() const noexcept { return place_; }                 ///< place of this process
  int rank(std::size_t place) const { return settings_.ranks[place]; }
  std::size_t piece_bytes() const noexcept { return settings_.piece_bytes; }

  // --- one request
  void open(const std::shared_ptr<NetworkExchange>&);  ///< those of a sequence in its order
  /// The slices of the first `ready` pieces lie as they are to go.
  void slices_ready(const NetworkExchange&, std::uint32_t ready);
  void send_results(const std::shared_ptr<NetworkExchange>&, std::uint32_t piece);
  void take_back(NetworkExchange&, std::uint32_t piece);  ///< the blocks of a piece are used
  void close(const NetworkExchange&) noexcept;            ///< nothing of it is on its way any more

  // --- waiting
  using Reached = std::function<bool(std::size_t place)>;
  /// True if that is so for all other processes, or all lines have been let go.
  bool all_reached(const Reached&) const;
  using Progress = std::function<std::uint32_t(std::size_t place)>;
  /// Blocks until that is so, and calls `help` before it sleeps. `serves`: it may serve the lines meanwhile. Aborts,
  /// naming the ranks for which it is not so, when none of them comes on for longer than the patience, or they have
  /// gone. `what`: "come to reduction 7", for the error.
  void wait(const Reached&, const Progress&, bool serves, const std::function<std::string()>& what,
            const std::function<void()>& help) noexcept;

  // --- the end
  /// Fails all requests of all processes, for good, with this reason; the first one counts.
  void abort(std::string_view reason) noexcept;
  void check() const;  ///< throws SyncError with the reason if that has happened
  /// Returns after an abort when no memory of requests is used any more: the thread, which never blocks, lets go first.
  void wait_let_go() noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  // Called by whoever has something to send.
  void put_slices(const SendOrder::Turn&);
  void flush(NetworkPeer&, Lane, std::size_t most);

  // Called by who waits.
  void serve_or_sleep(bool serves, std::uint32_t rings, std::chrono::milliseconds most,
                      const std::function<bool()>& over) noexcept;

  // Called by who serves the lines, one thread at a time.
  void run() noexcept;
  void serve() noexcept;
  void serve_once(std::chrono::milliseconds most) noexcept;
  void poll_lines(std::chrono::milliseconds most);
  void read_paused();
  void receive(std::size_t place, std::size_t lane);
  bool place_frame(std::size_t place, std::size_t lane);
  std::optional<std::span<std::byte>> place_of_results(std::size_t place, const FrameHead&);
  void take_frame(std::size_t place, std::size_t lane);
  bool take_announcement(std::size_t place, std::size_t lane);
  void line_ended(std::size_t place, std::size_t lane, std::string_view how);
  void await_judgement(std::size_t place, std::string reason);
  void judge_broken();
  void end() noexcept;
  void let_go() noexcept;
  void flush_all(std::chrono::milliseconds most) noexcept;
  [[noreturn]] void refuse(std::size_t place, const FrameHead&) const;

  std::shared_ptr<NetworkExchange> find(Sequence, std::uint32_t number) const;
  void wake() noexcept { watch_->wake(); }
  std::string ranks_behind(const Reached&) const;
  bool waits_for_gone(const Reached&) const;
  std::uint64_t come_so_far(const Reached&, const Progress&) const;

  Settings settings_;
  std::size_t place_;
  std::unique_ptr<LineWatch> watch_;
  std::vector<std::unique_ptr<NetworkPeer>> peers_;  // indexed by place; none at this process's own
  std::mutex turn_;                                  // held by who serves the lines
  std::atomic<int> waiting_{0};                      // number of those who serve in the thread's place, or are about to
  std::atomic<std::uint32_t> turns_{0};              // number of their turns so far
  SendOrder order_;
  Doorbell bell_;
  Doorbell parked_;  // wakes the thread while others serve in its place

  mutable std::mutex mutex_;  // guards what follows: launches, the thread, and whoever aborts
  std::map<std::pair<Sequence, std::uint32_t>, std::shared_ptr<NetworkExchange>> open_;
  std::string reason_;

  std::atomic<bool> aborted_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> let_go_{false};  // no memory of requests is used any more
  std::atomic<bool> paused_{false};  // some line is

  std::thread thread_;  // owned and joined here
};

}  // namespace tutti
