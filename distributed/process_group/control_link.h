// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/processes/control_channel.h>
#include <tutti/distributed/processes/process_link.h>
#include <tutti/distributed/processes/said_words.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace tutti {

/// A group's link over the control channel: every rank says to rank 0, which tells all once all have said. Rank 0 also
/// judges: who is lost to it, or died, has ended, for all. To the others rank 0 is lost when it is silent.
class ControlLink final : public ProcessLink {
 public:
  /// Exchanges `mine` with all processes, which gives `first_words`. Throws SyncError naming the ranks that have not
  /// come by the deadline, or are lost.
  ControlLink(std::shared_ptr<ControlChannel> channel, Bytes mine, std::chrono::steady_clock::time_point deadline);
  ~ControlLink() override { close(); }

  /// Bytes that all processes gave first, by rank.
  const std::vector<Bytes>& first_words() const noexcept { return first_words_; }
  /// Throws SyncError if a process is lost or its part has ended. To be called before `open` alone.
  void require_all();
  /// Waits until the parts of all others have ended, for that long at most. For rank 0, where all refuse what they have
  /// heard: it carries what some have not heard yet. To be called before `open` alone.
  void await_ends(std::chrono::milliseconds most);
  void set_members(std::vector<Member> members) { members_ = std::move(members); }
  /// Sets what is called, by any thread, when the part of any process, this one too, ends otherwise than by closing its
  /// group; it may be called again. To be called before `open`.
  void set_on_failure(std::function<void()> call) { on_failure_ = std::move(call); }

  int rank() const noexcept override { return channel_->rank(); }
  const std::vector<Member>& members() const noexcept override { return members_; }
  std::string place_of(int rank) const override;
  void open(Hearing) override;
  void say(Line, Bytes) override;
  void be_silent(Line) override;
  std::vector<int> missing(Line) const override;
  void end(const End&) noexcept override;
  void close() noexcept override;

 private:
  /// State of a line, as this process knows it.
  struct Words {
    SaidWords said;            // rank 0: of all
    int unheard = 0;           // others: how much they have said and not heard yet
    std::vector<int> missing;  // others: ranks that rank 0 has named, while they wait
  };
  struct Complete {
    Line line;
    std::vector<Bytes> by_rank;
  };

  void run();
  void take(const ControlEvent&);
  void take(const ControlMessage&);
  bool take_of_line(const ControlMessage&);
  void hear(Line, std::vector<Bytes>);
  void tell_complete(Line);
  void ask_who_is_missing();
  void tell_who_is_missing(Line, int asker);
  Words& words(Line line) { return words_[static_cast<std::size_t>(line)]; }
  const Words& words(Line line) const { return words_[static_cast<std::size_t>(line)]; }
  void hear_end(const End&);
  [[noreturn]] void give_up(std::string reason);
  bool has_just_paused() const;
  void lose(int rank, const std::string& how, bool proven = false);
  void tell_all(const Bytes&);
  std::string name_of(int rank) const;

  std::shared_ptr<ControlChannel> channel_;
  std::vector<Bytes> first_words_;
  std::vector<Member> members_;
  Hearing hearing_;
  std::function<void()> on_failure_ = [] {};
  std::string given_up_for_;       // why the group was never made; empty: that is not known
  mutable std::mutex mutex_;       // guards what follows: `say` comes from other threads than what is received
  std::vector<Words> words_;       // indexed by line
  std::deque<Complete> complete_;  // words that all have said, on rank 0, in the order in which they are to be told
  bool telling_ = false;           // some thread tells it
  std::atomic<bool> end_told_{false};
  std::atomic<bool> lost_rank_0_{false};  // its silence, or the end of its connection, was noticed
  // Touched by the thread, and by who waits before it runs.
  std::set<int> ended_;
  std::chrono::steady_clock::time_point asked_;  // time when it last asked who is missing
  std::chrono::nanoseconds own_pause_{};
  std::chrono::steady_clock::time_point own_pause_at_;
  std::atomic<bool> closed_{false};
  std::thread thread_;
};

}  // namespace tutti
