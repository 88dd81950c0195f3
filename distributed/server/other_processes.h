// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/collectives/collective_plan.h>
#include <tutti/distributed/collectives/collective_task.h>
#include <tutti/distributed/processes/collective_words.h>
#include <tutti/distributed/processes/process_link.h>
#include <tutti/distributed/processes/round_agreement.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace tutti {

/// The server's conversation with the other processes of its group: the ledger's questions become words on the link,
/// what is heard becomes the answers. Touched while messages are processed, but for the link itself.
class OtherProcesses {
 public:
  using Ended = ProcessLink::End;
  struct Committed {};
  struct ModelDiffers {
    std::string text;  ///< names the process, and says in what
    bool all_left = false;
  };
  /// Meaning of what was heard; none: more is to be said, and was.
  using Answer = std::variant<std::monostate, std::shared_ptr<const Agreement>, Committed, ModelDiffers>;

  explicit OtherProcesses(std::unique_ptr<ProcessLink>);
  ~OtherProcesses();
  OtherProcesses(const OtherProcesses&) = delete;
  OtherProcesses& operator=(const OtherProcesses&) = delete;

  /// Ends what runs for it: nothing is heard any more, and no `done` is called.
  void close() noexcept;
  void open(ProcessLink::Hearing hearing) { link_->open(std::move(hearing)); }
  /// Takes the number of the model's parameters, and digests of what must be the same in all processes and of the
  /// values that training begins with, or 0; before the first question.
  void describe(std::size_t parameters, std::uint64_t description, std::uint64_t values);
  bool is_described() const noexcept { return rounds_.has_value(); }
  /// Calls of the link that any thread may make.
  void poll() noexcept { link_->poll(); }
  bool sleep_to_hear() noexcept { return link_->sleep_to_hear(); }
  /// Proposes, on rank 0, an order of the layout's gradients with the next question; the agreement brings it to all.
  void propose(std::vector<ParameterId> order) { rounds_->propose(std::move(order)); }
  void ask(const Agree&);
  /// Asks all to have come as far, where nothing was launched.
  void ask_commit(std::int64_t generation);
  /// Calls `done` once all tasks are finished, with the first error of any, on a thread that finishes one of them; not
  /// after `close`.
  void after(std::span<const std::shared_ptr<CollectiveTask>>, std::function<void(std::exception_ptr)> done);
  /// Does this process's share of a reduction unless a device's thread does it within 2 ms, on a thread of its own for
  /// each sequence: others wait for it, and devices here may wait for something else. `at_once`: they have left.
  void finish(std::shared_ptr<CollectiveTask>, Sequence, bool at_once);
  /// Notes a task of no round's reductions, which other processes have a share of.
  void note_open(std::shared_ptr<CollectiveTask>);
  /// Calls `abort`, on a thread of its own, if some noted task is not finished 100 ms from now: other processes may
  /// have done their shares before they ended.
  void end_open(std::function<void()> abort);
  const std::vector<std::shared_ptr<CollectiveTask>>& noted() const noexcept { return open_; }
  /// The text, and behind it where those of the other processes are that it names by rank alone: "; rank 1 is on node7
  /// (pid 4711)".
  std::string with_places(std::string text) const;
  /// Ranks that have not said what this process waits to hear.
  std::vector<int> missing(ProcessLink::Line line) const { return link_->missing(line); }
  /// Tells of a collective that all devices here have posted.
  void tell(const PostedCollective& posted) { link_->say(ProcessLink::Line::collectives, words_of(posted)); }
  void say_of_replicas(Bytes words) { link_->say(ProcessLink::Line::checks, std::move(words)); }
  /// Takes no part in comparisons of replicas from now on; called again it does nothing.
  void compare_no_more();
  bool compares() const noexcept { return compares_; }
  /// Throws SyncError for what does not fit, naming the rank.
  Answer hear(std::span<const Bytes> by_rank);

  void note(Ended);  ///< another process's part has ended
  /// The end of another process that has not completed that generation; one that has failed before one that has closed
  /// its group. Null: there is none.
  const Ended* ended_before(std::int64_t generation) const;
  /// The end of another process, one that has failed before one that has closed its group. Null: there is none.
  const Ended* ended() const { return ended_before(std::numeric_limits<std::int64_t>::max()); }
  /// Tells them that this process's part has ended, once.
  void end(std::string text, std::int64_t completed, bool closed) noexcept;

 private:
  enum class Awaited : std::uint8_t { nothing, words, sets, commit };
  struct Commit {
    std::int64_t generation = 0;
    std::uint64_t mark = 0;
  };
  void hear_commit(std::span<const Bytes> by_rank) const;

  class Gate;
  class Runner;

  std::unique_ptr<ProcessLink> link_;
  std::shared_ptr<Gate> gate_;  // closed for tasks that outlive this object
  std::unique_ptr<Runner>
      runners_[2];  // indexed by sequence, made when they are needed: none waits for what the other is to do
  std::optional<RoundAgreement> rounds_;
  Agree asked_;
  Awaited awaited_ = Awaited::nothing;
  std::vector<Ended> others_ended_;                    // one for each process at most
  std::thread aborting_;                               // runs once a failure has left tasks open
  std::vector<std::shared_ptr<CollectiveTask>> open_;  // noted ones; those that are finished go with the next
  bool ended_ = false;                                 // this process's part
  bool compares_ = true;
};

}  // namespace tutti
