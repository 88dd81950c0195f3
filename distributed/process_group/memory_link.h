// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/engines/shared_memory/segments/segment_words.h>
#include <tutti/distributed/processes/process_link.h>
#include <tutti/distributed/threads/work_signal.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tutti {

/// A group's link between processes of one host: words about rounds lie in memory that all share, where whoever comes
/// by hears them; all else, and words too long for that, goes over another link. On the line of rounds nothing may be
/// said before all that was said is heard. What this process has said of its replicas before is heard before, too:
/// nobody goes on to a step while a difference may come to light.
class MemoryLink final : public ProcessLink {
 public:
  /// `words`: by rank.
  MemoryLink(std::unique_ptr<ProcessLink> other, std::shared_ptr<SegmentWords> words)
      : other_(std::move(other)), words_(std::move(words)) {}
  ~MemoryLink() override { close(); }

  int rank() const noexcept override { return other_->rank(); }
  const std::vector<Member>& members() const noexcept override { return other_->members(); }
  std::string place_of(int rank) const override { return other_->place_of(rank); }
  void open(Hearing) override;
  void say(Line, Bytes) override;
  void be_silent(Line line) override { other_->be_silent(line); }
  std::vector<int> missing(Line) const override;
  void end(const End& end) noexcept override { other_->end(end); }
  void close() noexcept override;
  void poll() noexcept override;
  bool sleep_to_hear() noexcept override;

 private:
  void run();
  void look() noexcept;
  void hear(std::uint64_t number) noexcept;
  bool waits_for_checks() const noexcept;
  void fail(const char* why) noexcept;

  std::unique_ptr<ProcessLink> other_;
  std::shared_ptr<SegmentWords> words_;
  Hearing hearing_;
  std::uint64_t said_ = 0;                 // number of the last words; touched by who says
  Bytes own_;                              // words that are awaited: they may have to be said over the other link
  std::atomic<std::uint64_t> awaited_{0};  // number of what was said and not heard; 0: none. Who takes it off hears it
  std::atomic<bool> visited_{false};       // some device's thread came by, since the link's thread last asked
  std::atomic<std::uint64_t> checks_said_{0};
  std::atomic<std::uint64_t> checks_heard_{0};
  std::mutex mutex_;  // guards what follows: the thread sleeps until something is said, or the link is closed
  WorkSignal news_;
  bool closing_ = false;
  std::thread thread_;  // hears what nobody comes by for
};

}  // namespace tutti
