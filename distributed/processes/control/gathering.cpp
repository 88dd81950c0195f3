// SPDX-License-Identifier: Apache-2.0
// The loop's first part: the rendezvous.
#include <tutti/distributed/processes/control/loop.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tutti::control {

using namespace std::chrono_literals;

namespace {

constexpr auto kRefusing = 500ms;
constexpr auto kKnock = 200ms;  // from one hello to the next, until there is a welcome

}  // namespace

void Loop::gather(Time now) {
  star_->take_ended();  // who comes again says hello again
  if (is_coordinator())
    next_beat_ = now + kKnock;
  else
    knock(now);
  if (is_coordinator() && admission_.complete()) {
    welcome_all();
    open(admission_.members(), now);
  }
  if (!open_ && now >= until_) give_up_late(now);
}

void Loop::knock(Time now) {
  if (now < next_beat_) return;
  next_beat_ = now + (star_->line_is_up() ? kKnock : 20ms);
  if (!star_->line_is_up()) return;
  watch_->reach();
  answer({0, {}}, own_);
}

// What concerns those that are no members yet, or who is none yet itself. False: it is a member's matter.
bool Loop::take_unadmitted(const Star::Incoming& incoming, const Frame& frame, Time now) {
  if (const auto* hello = std::get_if<Hello>(&frame)) {
    if (!is_coordinator() || incoming.bytes.size() > kMostHandshakeBytes)
      ++garbage_;
    else
      meet(incoming.from, *hello);
    return true;
  }
  if (open_ || is_coordinator()) return false;
  if (const auto* table = std::get_if<Welcome>(&frame)) {
    welcome(*table, now);
  } else if (const auto* refusal = std::get_if<Refusal>(&frame)) {
    fail(refusal->reason);
  } else if (const auto* waiting = std::get_if<Waiting>(&frame)) {
    told_ = waiting->missing;
    told_at_ = now;
  } else {
    ++garbage_;
  }
  return true;
}

void Loop::meet(const Star::Origin& from, const Hello& hello) {
  const auto known = peers_.find(from.rank);
  const bool same = known != peers_.end() && known->second.origin.connection == from.connection;
  if (open_) {
    // A hello that crossed the welcome needs no answer.
    if (!same)
      answer(from, Refusal{fmt::format("the job has begun without this process: it has a {}, or had",
                                       admission_.name(static_cast<std::uint32_t>(from.rank)))});
    return;
  }
  if (!refusal_.empty()) return answer(from, Refusal{refusal_});
  if (const auto why = admission_.arrive(static_cast<std::uint32_t>(from.rank), hello)) {
    answer(from, Refusal{*why});
    return refuse(*why);
  }
  peers_[from.rank] = {from};
  if (!admission_.complete()) answer(from, Waiting{admission_.missing()});
}

void Loop::welcome_all() {
  const std::vector<Member> all = admission_.members();
  for (std::size_t first = 0; first < all.size(); first += kMostMembersOfFrame) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    const Welcome part{{begin, begin + static_cast<std::ptrdiff_t>(std::min(kMostMembersOfFrame, all.size() - first))}};
    for (const auto& [rank, peer] : peers_) answer(peer.origin, part);
  }
}

void Loop::welcome(const Welcome& part, Time now) {
  for (const Member& each : part.members) {
    if (each.rank != table_.size() || table_.size() == own_.world_size)
      return fail("rank 0's table of members is none");
    table_.push_back(each);
  }
  if (table_.size() < own_.world_size) return;
  peers_[0] = {};
  open(std::move(table_), now);
}

void Loop::open(std::vector<Member> members, Time now) {
  open_ = true;
  next_beat_ = now;
  for (const auto& [rank, peer] : peers_) clocks_.begin(rank, now);
  std::vector<ControlMember> all;
  for (Member& each : members)
    all.push_back({static_cast<int>(each.rank), std::move(each.host), static_cast<std::int64_t>(each.pid),
                   std::move(each.address)});
  next_publication_ = now;
  publish(now);
  mailbox_.open(std::move(all));
}

void Loop::give_up_late(Time now) {
  const auto waited = std::chrono::duration<double>(options_.rendezvous).count();
  if (is_coordinator()) {
    std::string why = fmt::format("{:.3g} s have passed: {}", waited, admission_.missing());
    if (star_->strangers() > 0)
      why += fmt::format("; {} connections were turned away: do all have the same secret, job and world size?",
                         star_->strangers());
    return refuse(why);
  }
  std::string why = fmt::format("rank {} has waited {:.3g} s for rank 0", own_.rank, waited);
  // It answers each knock: who was missing before it fell silent need not be missing.
  const std::chrono::duration<double> silent = now - told_at_;
  if (!told_.empty() && silent > options_.silence)
    why += fmt::format(", which has said nothing for {:.3g} s (stopped, or cut off)", silent.count());
  else if (!told_.empty())
    why += ", which said: " + told_;
  if (!star_->trouble().empty()) why += ": " + star_->trouble();
  fail(why);
}

// Tells all that have come why there will be no job, and stays a moment for what they say meanwhile: a connection that
// ends with something unread takes with it what was sent.
void Loop::refuse(const std::string& why) {
  if (is_coordinator()) {
    for (const auto& [rank, peer] : peers_) answer(peer.origin, Refusal{why});
    refusal_ = why;
    refusing_until_ = Clock::now() + kRefusing;
  }
  fail(why);
}

void Loop::fail(const std::string& why) {
  failed_ = true;
  mailbox_.fail(own_.job.empty() ? "[rendezvous] " + why : fmt::format("[rendezvous] {} (job \"{}\")", why, own_.job));
}

// Who does not take it asks again, or is gone.
void Loop::answer(const Star::Origin& to, const Frame& frame) { star_->send(to, encode(frame)); }

}  // namespace tutti::control
