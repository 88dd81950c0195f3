// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/member.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace tutti {

/// A group's link to its other processes. On each line all say the same number of things; the k-th of all processes is
/// heard once all have said it. Thread-safe, but for `open`.
class ProcessLink {
 public:
  using Bytes = std::vector<std::byte>;
  /// Subject of words; those about one have an order of their own.
  enum class Line : std::uint8_t {
    round,           ///< requirements of a step, and whether it is reduced
    collectives,     ///< users' collectives
    checks,          ///< whether replicas are the same
    round_launches,  ///< requests of rounds that a process could launch: see LaunchOrder
    user_launches,   ///< those of users' collectives
  };
  static constexpr std::size_t kLines = 5;
  /// The end of another process's part: it has failed, is lost, or has closed its group.
  struct End {
    /// A number for `completed`: all devices of all processes had left, which others may hear after this end.
    static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max() - 1;
    int rank = 0;
    std::string text;            ///< the error, which names who is to blame
    std::int64_t completed = 0;  ///< the last generation that it has completed
    bool closed = false;         ///< it has closed its group, after that generation
  };
  /// Functions that the link calls, on any thread, also within `say` and `poll`. What is said on a line is heard in
  /// order.
  struct Hearing {
    /// Words of one that is silent on the line are empty.
    std::function<void(Line, std::vector<Bytes> by_rank)> said;
    std::function<void(const End&)> ended;  ///< called for each process at most once
  };

  virtual ~ProcessLink() = default;

  virtual int rank() const noexcept = 0;                            ///< this process's
  virtual const std::vector<Member>& members() const noexcept = 0;  ///< devices of all processes, by rank

  /// Host and pid of a process: "node7 (pid 4711)". Default: "", not known.
  virtual std::string place_of(int /*rank*/) const { return {}; }

  /// Begins; called once, before anything is said.
  virtual void open(Hearing) = 0;
  virtual void say(Line, Bytes) = 0;  ///< never blocks
  /// Says nothing on the line from now on: the others do not wait for this process there.
  virtual void be_silent(Line) = 0;
  /// Ranks that have not said yet what this process waits to hear on the line.
  virtual std::vector<int> missing(Line) const = 0;
  /// Hears on this thread what is there and no other thread has heard; never blocks. Called by threads that come by, in
  /// calls of the server. Default: nothing, for a link whose own thread hears at once.
  virtual void poll() noexcept {}
  /// Sleeps some milliseconds at most, unless something is there before, and polls; false, at once: nothing is awaited
  /// that this thread could hear.
  virtual bool sleep_to_hear() noexcept { return false; }
  /// Tells the other processes, behind what was said, that this one's part has ended. Nothing may be said any more.
  virtual void end(const End&) noexcept = 0;
  /// Returns when no function of the Hearing runs or will run.
  virtual void close() noexcept = 0;
};

}  // namespace tutti
