// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/control/admission.h>

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace tutti::control {

namespace {

constexpr std::size_t kMostRanksOfText = 16;

std::string named(const Hello& hello) {
  return fmt::format("rank {} on {} (pid {})", hello.rank, hello.host, hello.pid);
}

std::string text(ByteOrder order) { return order == ByteOrder::little ? "little-endian" : "big-endian"; }

std::string text(const Digest& digest) {
  std::string digits;
  for (const std::byte each : std::span(digest).first(8))
    digits += fmt::format("{:02x}", std::to_integer<unsigned>(each));
  return digits;
}

template <class T> const T& text(const T& value) { return value; }

// What brings processes of two levels to the lower one: the system's loader then takes the library of that level.
std::string level_remedy(std::string_view level, std::string_view other) {
  if (level.ends_with(kWithoutWinograd) != other.ends_with(kWithoutWinograd))
    return "; TUTTI_CPU_WINOGRAD has to be the same in the environment of all processes";
  const std::string_view lower = std::min(level, other);
  if (!lower.starts_with("x86-64") || !std::max(level, other).starts_with("x86-64")) return {};
  if (lower.starts_with("x86-64-v4"))
    return "; TUTTI_CPU_BF16=0 in the environment of all processes has them compute bf16 in f32";
  return fmt::format(
      "; where libtutti.so is installed for several levels, GLIBC_TUNABLES=glibc.cpu.hwcaps={} in the environment "
      "of all processes lets them compute with {} at most",
      lower.starts_with("x86-64-v3") ? "-AVX512F" : "-AVX2", lower);
}

std::string ranks_text(const std::vector<std::size_t>& ranks) {
  std::string all = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostRanksOfText); ++i)
    all += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  if (ranks.size() > kMostRanksOfText) all += fmt::format(" and {} more", ranks.size() - kMostRanksOfText);
  return all;
}

}  // namespace

Admission::Admission(const Hello& own) : own_(own), members_(own.world_size) { members_[0] = own; }

std::optional<std::string> Admission::difference(std::uint32_t key, const Hello& hello) const {
  std::optional<std::string> found;
  const auto compare = [&](std::string_view field, const auto& theirs, const auto& ours, std::string_view remedy = {}) {
    if (!found && theirs != ours)
      found = fmt::format("{} says {} {}, {} says {}{}", named(hello), field, text(theirs), named(own_), text(ours),
                          remedy);
  };
  compare("protocol version", hello.protocol, own_.protocol);
  compare("byte order", hello.byte_order, own_.byte_order);
  compare("library version", hello.library, own_.library);
  compare("world size", hello.world_size, own_.world_size);
  if (!found && hello.rank != key) found = fmt::format("{} came with the key of rank {}", named(hello), key);
  compare("job", hello.job, own_.job);
  compare("instruction level", hello.instructions, own_.instructions,
          level_remedy(hello.instructions, own_.instructions));
  compare("digest of options", hello.options, own_.options);
  return found;
}

std::optional<std::string> Admission::arrive(std::uint32_t key, const Hello& hello) {
  if (auto found = difference(key, hello)) return found;
  if (key >= members_.size()) return fmt::format("{}: the job has {} processes", named(hello), members_.size());
  std::optional<Hello>& known = members_[key];
  if (known && known->instance != hello.instance)
    return fmt::format("two processes say that they are rank {}: on {} (pid {}) and on {} (pid {})", key, known->host,
                       known->pid, hello.host, hello.pid);
  if (!known) {
    known = hello;
    ++come_;
  }
  return std::nullopt;
}

std::vector<Member> Admission::members() const {
  std::vector<Member> all;
  for (const auto& each : members_)
    if (each) all.push_back({each->rank, each->pid, each->host, each->address});
  return all;
}

std::string Admission::missing() const {
  std::vector<std::size_t> missing, come;
  for (std::size_t rank = 0; rank < members_.size(); ++rank) (members_[rank] ? come : missing).push_back(rank);
  if (missing.empty()) return "all ranks have come";
  return fmt::format("{} {} missing; {} {} come", ranks_text(missing), missing.size() == 1 ? "is" : "are",
                     ranks_text(come), come.size() == 1 ? "has" : "have");
}

std::string Admission::name(std::uint32_t rank) const {
  return rank < members_.size() && members_[rank] ? named(*members_[rank]) : fmt::format("rank {}", rank);
}

}  // namespace tutti::control
