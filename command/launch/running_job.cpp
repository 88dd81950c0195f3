// SPDX-License-Identifier: Apache-2.0
#include <tutti/command/launch/running_job.h>

#include <tutti/command/launch/launch_error.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

namespace tutti::launch {

namespace {

using Clock = LaunchPolicy::Clock;

std::vector<LaunchPolicy::Process> names(const std::vector<RunningJob::Rank>& ranks) {
  std::vector<LaunchPolicy::Process> names;
  for (const RunningJob::Rank& rank : ranks) names.push_back({.rank = rank.rank, .pid = rank.process.pid});
  return names;
}

/// Waits until one of the files is ready, at most until the deadline.
void wait_for(std::vector<pollfd>& files, std::optional<LaunchPolicy::Time> deadline) {
  int patience = -1;
  if (deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
    patience = static_cast<int>(std::max<std::chrono::milliseconds::rep>(left.count(), 0));  // kLongestGrace fits
  }
  if (poll(files.data(), files.size(), patience) < 0) {
    if (errno != EINTR) raise_errno("wait for the processes");
    for (pollfd& file : files) file.revents = 0;
  }
}

}  // namespace

RunningJob::RunningJob(std::vector<Rank> ranks, RankProcesses& processes, Clock::duration grace, SignalMask& signals)
    : processes_(processes),
      signals_(signals),
      output_(STDOUT_FILENO),
      own_error_(STDERR_FILENO),
      error_(same_file(STDOUT_FILENO, STDERR_FILENO) ? &output_ : &own_error_),
      policy_(names(ranks), grace) {
  for (Rank& rank : ranks) {
    RankLog* const log = rank.log.get();
    if (log != nullptr) logs_.push_back(std::move(rank.log));
    outputs_.emplace_back(std::move(rank.process.output), rank.prefix, output_, log);
    outputs_.emplace_back(std::move(rank.process.error), rank.prefix, *error_, log);
  }
}

int RunningJob::run() {
  while (!policy_.finished()) step(policy_.deadline());
  // Others may still have the pipes: what has gone out of its group is not waited for.
  for (RankOutput& output : outputs_) {
    output.drain();
    output.close();
  }
  for (const auto& log : logs_) log->close();
  tell_news_of_logs();
  if (const auto closing = policy_.closing()) say(*closing);
  // Ends when the reader has read, has gone, or the user asks.
  while (pending() && !abandoned_) step(std::nullopt);
  return policy_.status();
}

void RunningJob::step(std::optional<LaunchPolicy::Time> deadline) {
  std::vector<pollfd> files{{signals_.descriptor(), POLLIN, 0}};
  for (const OutputSink* sink : {&output_, &own_error_})
    if (sink->pending()) files.push_back({sink->descriptor(), POLLOUT, 0});
  const std::size_t first_output = files.size();
  std::vector<RankOutput*> reading;
  for (RankOutput& output : outputs_) {
    if (!output.may_read()) continue;
    files.push_back({output.descriptor(), POLLIN, 0});
    reading.push_back(&output);
  }
  wait_for(files, deadline);
  for (std::size_t i = first_output; i < files.size(); ++i)
    if (files[i].revents != 0) reading[i - first_output]->read_some();
  if (files[0].revents != 0)
    for (const int signal : signals_.take()) take_signal(signal);
  policy_.look(Clock::now(), actions_);
  carry_out();
  tell_news_of_logs();
  for (std::size_t i = 1; i < first_output; ++i) {
    if (files[i].revents == 0) continue;
    const bool is_output = files[i].fd == output_.descriptor();
    flush(is_output ? output_ : own_error_, is_output ? "standard output" : "standard error");
  }
}

void RunningJob::take_signal(int signal) {
  if (signal == SIGCHLD) {
    take_endings();
  } else if (signal == SIGTSTP) {
    stand_still();
  } else if (asks_for_end(signal)) {
    abandoned_ = policy_.finished();
    policy_.requested(signal, Clock::now(), actions_);
  } else {
    processes_.signal_all(signal);
  }
}

void RunningJob::take_endings() {
  const RankProcesses::Changes changes = processes_.reap();
  for (const auto& [place, signal] : changes.stopped) policy_.stopped(place, signal);
  for (const auto& [place, ending] : changes.ended) {
    outputs_[2 * place].drain();
    outputs_[2 * place + 1].drain();
    policy_.ended(place, ending, Clock::now(), actions_);
    carry_out();
  }
  for (const std::size_t place : changes.groups_gone) policy_.group_gone(place);
}

// The shell sees the launcher stop, and continues it.
void RunningJob::stand_still() {
  const auto since = Clock::now();
  processes_.signal_all(SIGTSTP);
  kill(getpid(), SIGSTOP);
  processes_.signal_all(SIGCONT);
  policy_.stood_still(Clock::now() - since);
}

void RunningJob::flush(OutputSink& sink, const char* name) {
  const bool had_failed = sink.error() != 0;
  sink.flush();
  if (had_failed || sink.error() == 0) return;
  policy_.output_failed(fmt::format("{}: {}", name, std::strerror(sink.error())),
                        sink.error() == EPIPE ? kSignalled + SIGPIPE : kCannotLaunch, Clock::now(), actions_);
  carry_out();
}

void RunningJob::tell_news_of_logs() {
  for (const auto& log : logs_)
    if (const auto news = log->news()) say(*news);
}

void RunningJob::carry_out() {
  for (const LaunchAction& action : std::exchange(actions_, {})) {
    if (const auto* signal = std::get_if<SignalAll>(&action)) processes_.signal_all(signal->signal);
    if (const auto* text = std::get_if<Say>(&action)) say(text->text);
  }
}

void RunningJob::say(const std::string& text) { error_->lines().append("tutti launch: ").append(text).push_back('\n'); }

}  // namespace tutti::launch
