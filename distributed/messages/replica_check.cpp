// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/messages/replica_check.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace tutti {

namespace {

// The finaliser of SplitMix64: every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

}  // namespace

// Two lanes, each a bijection of its state for a given word and of the word for a given state.
Digest digest_of(std::span<const std::byte> bytes) {
  std::uint64_t first = 0x9e3779b97f4a7c15U;
  std::uint64_t second = 0xc2b2ae3d27d4eb4fU;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
    first = std::rotl(first ^ word, 31) * 0x9fb21c651e98df25U;
    second = std::rotl(second + word * 0x165667b19e3779f9U, 29) * 0x27d4eb2f165667c5U;
  }
  return {mix(first + bytes.size()), mix(second ^ bytes.size())};
}

std::string to_string(const Digest& digest) { return fmt::format("{:016x}{:016x}", digest.first, digest.second); }

Digest digest_of(const Array& array) {
  const Array local = (array.device().kind == DeviceKind::cpu ? array : array.to(cpu(0))).contiguous();
  synchronize(local.device());
  return digest_of(std::span<const std::byte>(local.raw_data(), local.bytes()));
}

Digest digest_of(std::span<const NamedDigest> items) {
  std::vector<std::byte> bytes;
  for (const NamedDigest& item : items)
    for (const auto more : {std::as_bytes(std::span(item.name)), std::as_bytes(std::span(&item.digest, 1))})
      bytes.insert(bytes.end(), more.begin(), more.end());
  return digest_of(std::span<const std::byte>(bytes));
}

void ReplicaCheck::post(MemberIndex member, ReplicaDigest digest, std::shared_ptr<SyncWaiter> waiter) {
  if (posts_[member]) raise<SyncError>("[sync] a device asked twice for one check of the replicas");
  posts_[member] = {std::move(digest), std::move(waiter)};
}

bool ReplicaCheck::awaited() const {
  return std::ranges::any_of(posts_, [](const auto& post) { return post && post->waiter; });
}

bool ReplicaCheck::empty() const {
  return std::ranges::none_of(posts_, [](const auto& post) { return post.has_value(); });
}

std::vector<MemberIndex> ReplicaCheck::missing(const std::function<bool(MemberIndex)>& has_left) const {
  std::vector<MemberIndex> missing;
  for (MemberIndex member = 0; member < posts_.size(); ++member)
    if (!posts_[member] && !has_left(member)) missing.push_back(member);
  return missing;
}

std::optional<ReplicaCheck::Difference> ReplicaCheck::difference(const GroupMembers& members) const {
  std::vector<MemberIndex> posted;
  for (MemberIndex member = 0; member < posts_.size(); ++member)
    if (posts_[member]) posted.push_back(member);
  if (posted.empty()) return std::nullopt;
  const ReplicaDigest& reference = posts_[posted.front()]->digest;
  for (const MemberIndex member : posted)
    if (const std::size_t size = posts_[member]->digest.size(); size != reference.size())
      return Difference{member,
                        fmt::format("{} holds {} parameters and buffers, {} holds {}", members.name(posted.front()),
                                    reference.size(), members.name(member), size)};
  for (std::size_t i = 0; i < reference.size(); ++i) {
    std::string text;
    std::optional<MemberIndex> first;
    for (const MemberIndex member : posted) {
      const NamedDigest& other = posts_[member]->digest[i];
      if (other.name == reference[i].name && other.digest == reference[i].digest) continue;
      if (!first) first = member;
      text += fmt::format(", {} {} (digest {})", text.empty() ? "not the same on" : "nor on", members.name(member),
                          to_string(other.digest));
    }
    if (first)
      return Difference{*first,
                        fmt::format("{} on {} (digest {}) is {}", reference[i].name, members.name(posted.front()),
                                    to_string(reference[i].digest), text.substr(2))};
  }
  return std::nullopt;
}

const ReplicaDigest& ReplicaCheck::first() const {
  return std::ranges::find_if(posts_, [](const auto& post) { return post.has_value(); })->value().digest;
}

std::vector<std::shared_ptr<SyncWaiter>> ReplicaCheck::clear() {
  std::vector<std::shared_ptr<SyncWaiter>> waiters;
  for (auto& post : posts_) {
    if (post && post->waiter) waiters.push_back(std::move(post->waiter));
    post.reset();
  }
  return waiters;
}

}  // namespace tutti
