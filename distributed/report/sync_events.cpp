// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/report/sync_events.h>

#include <tutti/backend/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace tutti {

namespace {

std::string_view name_of(SyncEvent::Kind kind) {
  using Kind = SyncEvent::Kind;
  switch (kind) {
    case Kind::registered: return "register";
    case Kind::submitted: return "submit";
    case Kind::launched: return "launch";
    case Kind::finished: return "finish";
    case Kind::synced: return "sync";
    case Kind::released: return "release";
    case Kind::joined: return "join";
    case Kind::device_failed: return "device failed";
    case Kind::failed: return "fail";
    case Kind::left: return "leave";
    case Kind::rejoining: return "rejoin";
    case Kind::formed: return "new group";
    case Kind::digested: return "digest";
    case Kind::compared: return "compare";
    case Kind::closed: return "close";
  }
  return "?";
}

}  // namespace

std::vector<SyncEvent> SyncEvents::last() const {
  if (added_ < ring_.size()) return {ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(next_)};
  std::vector<SyncEvent> events = ring_;
  std::rotate(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(next_), events.end());
  return events;
}

std::string events_text(std::span<const SyncEvent> events, SyncEvent::Time start, const GroupMembers& members,
                        const std::vector<SyncParameter>& parameters) {
  std::string text;
  for (const SyncEvent& event : events) {
    const double seconds = std::chrono::duration<double>(event.at - start).count();
    std::string line = fmt::format("{:12.6f} s  {} {:<6}  {:<13}", seconds,
                                   event.kind == SyncEvent::Kind::formed ? "group     " : "generation",
                                   event.generation, name_of(event.kind));
    if (event.device < members.size()) line += "  " + members.name(event.device);
    if (event.parameter < parameters.size()) line += fmt::format("  \"{}\"", parameters[event.parameter].name);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

bool append_to_file(const std::string& path, const std::string& text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "a"), &std::fclose);
  return file && std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() && std::fflush(file.get()) == 0;
}

}  // namespace tutti
