// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/deadline.h>
#include <tutti/distributed/processes/control/admission.h>
#include <tutti/distributed/processes/control/death_watch.h>
#include <tutti/distributed/processes/control/mailbox.h>
#include <tutti/distributed/processes/control/peer_clocks.h>
#include <tutti/distributed/processes/control/star.h>
#include <tutti/distributed/processes/control_channel.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tutti::control {

/// The work of a channel's thread: first the rendezvous, then messages, heartbeats and clocks until it is told to stop.
class Loop {
 public:
  Loop(std::unique_ptr<Star>, std::unique_ptr<DeathWatch>, const Hello& own, const ControlOptions&, Mailbox&);

  void run() noexcept;  ///< whatever fails becomes the mailbox's failure

 private:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  struct Peer {
    Star::Origin origin;
    std::deque<Bytes> waiting = {};  // frames that the connection's queue had no room for
    std::size_t bytes = 0;           // their sum
    bool gone = false;               // its connection has ended; what came before may not be read yet
  };

  bool turn();
  void wait() const;
  void notice_pause(Time now);
  void serve_members(Time now);
  void gather(Time now);
  void post_all(const std::deque<Mailbox::Outgoing>&);
  bool read(Time now);
  void take(Star::Incoming&, Time now);
  void take(int rank, Frame&, Time now);
  void beat(Time now);
  void notice_ended(Time now);
  void look_for_deaths(Time now);
  bool is_heard_out(int rank) const;
  void bury(int rank);

  bool take_unadmitted(const Star::Incoming&, const Frame&, Time now);
  void meet(const Star::Origin&, const Hello&);
  void welcome(const Welcome&, Time now);
  void knock(Time now);
  void give_up_late(Time now);
  void refuse(const std::string& why);
  void fail(const std::string& why);
  void answer(const Star::Origin&, const Frame&);
  void open(std::vector<Member>, Time now);
  void welcome_all();
  bool is_coordinator() const { return own_.rank == 0; }

  void send(int rank, const Frame&);
  void flush(int rank);
  void flush_all();
  bool has_waiting() const;
  bool ends(Time now);
  bool is_refusing(Time now) const { return now < refusing_until_; }
  void lose(int rank, PeerLost::Reason);
  void publish(Time now);

  std::unique_ptr<Star> star_;
  std::unique_ptr<DeathWatch> watch_;
  Hello own_;
  ControlOptions options_;
  Mailbox& mailbox_;
  Admission admission_;        // rank 0's book
  std::map<int, Peer> peers_;  // those that can be sent to
  std::vector<Member> table_;  // members that rank 0 has told so far, on other ranks
  std::string told_;           // rank 0's last word on those that are missing
  Time told_at_;               // time of it
  PeerClocks clocks_;
  StandstillWatch standstill_;
  Time until_;      // the rendezvous
  Time next_beat_;  // next hello, during the rendezvous
  Time last_beat_;
  Time next_publication_;
  std::optional<Time> line_ended_;  // end of the connection to rank 0
  std::map<int, Time> dead_;        // times of deaths, of those that are not heard out yet
  bool all_read_ = false;           // true: this turn has left no message
  Time end_;                        // latest end, once stopped
  std::string refusal_;             // rank 0's, for all that say hello
  Time refusing_until_;
  std::uint64_t garbage_ = 0;
  bool open_ = false;
  bool failed_ = false;
};

}  // namespace tutti::control
