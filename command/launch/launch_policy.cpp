// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/launch_policy.h>

#include <tutti/command/launch/launch_error.h>

#include <algorithm>
#include <csignal>
#include <span>
#include <utility>

namespace tutti::launch {

namespace {

constexpr std::size_t kMostListed = 8;

std::string seconds_text(LaunchPolicy::Clock::duration duration) {
  return fmt::format("{:g} s", std::chrono::duration<double>(duration).count());
}

}  // namespace

LaunchPolicy::LaunchPolicy(const std::vector<Process>& processes, Clock::duration grace)
    : grace_(grace), running_(processes.size()), left_(processes.size()) {
  for (const Process& process : processes) members_.push_back({.process = process, .ending = std::nullopt});
}

// What the launcher itself has caused is nobody's failure, though it is no success either.
bool LaunchPolicy::is_asked_for(const Ending& ending) const noexcept {
  return (request_ && ending.is_for(*request_)) || (stage_ >= Stage::terminated && ending.is_for(SIGTERM)) ||
         (stage_ >= Stage::killed && ending.is_for(SIGKILL));
}

void LaunchPolicy::ended(std::size_t process, Ending ending, Time now, Actions& actions) {
  Member& member = members_[process];
  if (member.ending) return;
  member.ending = ending;
  --running_;
  if (!ending.success()) {
    const bool asked_for = is_asked_for(ending);
    failed_.push_back(process);
    if (!asked_for) {
      if (cause_ == Cause::none) {
        cause_ = Cause::failure;
        stopped_before_ = stopped_text();
      }
      actions.emplace_back(
          Say{fmt::format("rank {} (pid {}) {}", member.process.rank, member.process.pid, ending.text())});
      if (stage_ == Stage::running) advance(Stage::waiting, now, actions);
    }
  }
  // What is left then are processes that theirs have left behind.
  if (running_ == 0 && stage_ < Stage::terminated) advance(Stage::terminated, now, actions);
}

void LaunchPolicy::stopped(std::size_t process, int signal) { members_[process].stopped_by = signal; }

// What the others may have failed for.
std::string LaunchPolicy::stopped_text() const {
  std::string text;
  std::size_t count = 0;
  for (const Member& member : members_)
    if (!member.ending && member.stopped_by != 0 && ++count <= kMostListed)
      text += fmt::format(" while rank {} (pid {}) was stopped by {}", member.process.rank, member.process.pid,
                          signal_text(member.stopped_by));
  return text;
}

void LaunchPolicy::group_gone(std::size_t process) {
  if (!std::exchange(members_[process].group_gone, true)) --left_;
  if (left_ == 0) deadline_.reset();
}

void LaunchPolicy::requested(int signal, Time now, Actions& actions) {
  if (!request_) {
    request_ = signal;
    if (cause_ == Cause::none) cause_ = Cause::request;
    actions.emplace_back(SignalAll{signal});
    if (stage_ < Stage::terminated)
      actions.emplace_back(Say{fmt::format("{} is passed on to all ranks; once more ends them", signal_text(signal))});
    return;
  }
  if (stage_ < Stage::terminated) {
    actions.emplace_back(
        Say{fmt::format("once more: SIGTERM to all ranks, and SIGKILL after {}", seconds_text(grace_))});
    advance(Stage::terminated, now, actions);
  } else if (stage_ == Stage::terminated) {
    actions.emplace_back(Say{"once more: SIGKILL to all ranks"});
    advance(Stage::killed, now, actions);
  }
}

void LaunchPolicy::output_failed(const std::string& why, int status, Time now, Actions& actions) {
  if (output_status_) return;
  output_status_ = status;
  // A job that ends already may finish that: what is left to do may be a checkpoint.
  if (cause_ != Cause::none) return;
  cause_ = Cause::output;
  actions.emplace_back(Say{why + ": the job ends"});
  advance(Stage::terminated, now, actions);
}

void LaunchPolicy::stood_still(Clock::duration time) {
  if (deadline_) *deadline_ += time;
}

void LaunchPolicy::look(Time now, Actions& actions) {
  if (!deadline_ || now < *deadline_ || finished()) return;
  switch (stage_) {
    case Stage::running: break;
    case Stage::waiting:
      say_late("after the first failure: SIGTERM", actions);
      advance(Stage::terminated, now, actions);
      break;
    case Stage::terminated:
      say_late("after SIGTERM: SIGKILL", actions);
      advance(Stage::killed, now, actions);
      break;
    case Stage::killed:
      say_late("after SIGKILL: left alone", actions);
      advance(Stage::given_up, now, actions);
      break;
    case Stage::given_up: break;
  }
}

void LaunchPolicy::advance(Stage stage, Time now, Actions& actions) {
  stage_ = stage;
  deadline_ = now + grace_;
  if (stage == Stage::terminated) {
    actions.emplace_back(SignalAll{SIGTERM});
    actions.emplace_back(SignalAll{SIGCONT});  // a stopped process would not hear it
  }
  if (stage == Stage::killed) actions.emplace_back(SignalAll{SIGKILL});
  if (stage == Stage::given_up) deadline_.reset();
}

void LaunchPolicy::say_late(const char* what, Actions& actions) const {
  if (running_ > 0)
    actions.emplace_back(
        Say{fmt::format("{} still running {} {}", members_text(still_running()), seconds_text(grace_), what)});
}

std::vector<std::size_t> LaunchPolicy::still_running() const {
  std::vector<std::size_t> running;
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (!members_[i].ending) running.push_back(i);
  return running;
}

std::string LaunchPolicy::members_text(const std::vector<std::size_t>& places) const {
  std::string text;
  for (const std::size_t place : std::span(places).first(std::min(places.size(), kMostListed))) {
    const Member& member = members_[place];
    text += fmt::format("{}rank {}", text.empty() ? "" : ", ", member.process.rank);
    if (member.ending) text += " " + member.ending->text();
  }
  return places.size() > kMostListed ? text + fmt::format(" and {} more", places.size() - kMostListed) : text;
}

int LaunchPolicy::status() const {
  if (cause_ != Cause::output && !failed_.empty()) return members_[failed_.front()].ending->status();
  return output_status_.value_or(running_ > 0 ? kSignalled + SIGKILL : 0);
}

std::optional<std::string> LaunchPolicy::closing() const {
  if (failed_.empty()) return std::nullopt;
  std::vector<std::size_t> consequences = failed_;
  std::string cause = "the job ended because its output could not be passed on";
  if (cause_ == Cause::request) cause = "the job ended after " + signal_text(*request_);
  if (cause_ == Cause::failure) {
    const Member& first = members_[failed_.front()];
    cause = fmt::format("the job failed because rank {} (pid {}) {}{}", first.process.rank, first.process.pid,
                        first.ending->text(), stopped_before_);
    consequences.erase(consequences.begin());
  }
  // Who ended as the user asked needs no word.
  std::erase_if(consequences, [this](std::size_t i) { return request_ && members_[i].ending->is_for(*request_); });
  return consequences.empty() ? cause : fmt::format("{}; then {}", cause, members_text(consequences));
}

}  // namespace tutti::launch
