// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/difference_search.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <cstring>

namespace tutti {

namespace {

constexpr std::size_t kMostName = 400;

// As it lies in memory: the processes of a group have one byte order. The name of the item at `begin` follows, once
// that is the one that differs.
struct Head {
  std::int64_t subject = 0;
  std::uint64_t items = 0;
  Digest digest;
};

}  // namespace

struct DifferenceSearch::Heard {
  std::size_t rank;
  std::int64_t subject;
  std::size_t items;
  Digest digest;
  std::string name;
};

Digest DifferenceSearch::digest_of_range() const {
  const std::size_t end = std::min(middle_ == 0 ? items_.size() : middle_, items_.size());
  const std::size_t begin = std::min(begin_, end);
  return digest_of(std::span<const NamedDigest>(items_).subspan(begin, end - begin));
}

DifferenceSearch::Bytes DifferenceSearch::words() const {
  const bool names = end_ == begin_ + 1;
  const bool has = begin_ < items_.size();
  const Head head{subject_, items_.size(), !names ? digest_of_range() : has ? items_[begin_].digest : Digest{}};
  const std::size_t name = names && has ? std::min(items_[begin_].name.size(), kMostName) : 0;
  Bytes words(sizeof(head) + name);
  std::memcpy(words.data(), &head, sizeof(head));
  if (name > 0) std::memcpy(words.data() + sizeof(head), items_[begin_].name.data(), name);
  return words;
}

std::vector<DifferenceSearch::Heard> DifferenceSearch::heard_in(std::span<const Bytes> by_rank) const {
  std::vector<Heard> heard;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Bytes& bytes = by_rank[rank];
    if (bytes.empty()) continue;
    Head head;
    if (bytes.size() < sizeof(head) || bytes.size() > sizeof(head) + kMostName)
      raise<SyncError>("[sync] rank {} said {} bytes about its replicas, which are no words", rank, bytes.size());
    std::memcpy(&head, bytes.data(), sizeof(head));
    if (head.subject != subject_ && head.subject >= 0 && subject_ >= 0)
      raise<SyncError>("[sync] rank {} compares its replicas before generation {}, this process before {}", rank,
                       head.subject, subject_);
    const auto name = std::span(bytes).subspan(sizeof(head));
    heard.push_back(
        {rank, head.subject, head.items, head.digest, {reinterpret_cast<const char*>(name.data()), name.size()}});
  }
  return heard;
}

DifferenceSearch::Answer DifferenceSearch::hear(std::span<const Bytes> by_rank) {
  const std::vector<Heard> heard = heard_in(by_rank);
  const auto of_models = [](const Heard& each) { return each.subject < 0; };
  if (std::ranges::any_of(heard, of_models) && !std::ranges::all_of(heard, of_models))
    return Found{"some processes check their replicas now and others do not: SyncOptions::consistency_every differs"};
  const auto other = std::ranges::find_if(heard, [&](const Heard& each) {
    return each.digest != heard[0].digest || each.items != heard[0].items || each.name != heard[0].name;
  });
  if (end_ == begin_ + 1) {
    if (other == heard.end()) return Found{"what differs is on a process that has left"};
    return Found{text_of(heard[0], *other)};
  }
  if (middle_ == 0) {
    if (other == heard.end()) return Equal{};
    for (const Heard& each : heard) end_ = std::max(end_, each.items);
  } else if (std::ranges::any_of(heard, [&](const Heard& each) { return each.digest != heard[0].digest; })) {
    end_ = middle_;
  } else {
    begin_ = middle_;
  }
  middle_ = begin_ + std::max<std::size_t>(1, (end_ - begin_) / 2);
  return Say{words()};
}

std::string DifferenceSearch::text_of(const Heard& first, const Heard& other) {
  const auto named = [](const Heard& each) { return each.name.empty() ? std::string("nothing more") : each.name; };
  if (first.name == other.name)
    return fmt::format("{} is not the same on rank {} (digest {}) as on rank {} (digest {})", first.name, other.rank,
                       to_string(other.digest), first.rank, to_string(first.digest));
  return fmt::format("rank {} has {} where rank {} has {}", other.rank, named(other), first.rank, named(first));
}

}  // namespace tutti
