// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/round_agreement.h>

#include <tutti/backend/raise.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace tutti {

namespace {

// As they lie in memory: the processes of a group have one byte order, which their handshake compares.
struct WordsHeader {
  std::int64_t generation = 0;
  std::uint32_t devices = 0;
  std::uint32_t parameters = 0;
  std::uint64_t description = 0;
  std::uint64_t values = 0;
};
struct DeviceWords {
  std::uint64_t digest = 0;
  double weight = 0.0;
  std::uint32_t contributes = 0;
  std::uint32_t left = 0;  // kLeft, kFollows
};
static_assert(sizeof(WordsHeader) == 32 && sizeof(DeviceWords) == 24);

constexpr std::uint32_t kLeft = 1;
constexpr std::uint32_t kFollows = 2;           // beside kLeft
constexpr std::uint32_t kProposes = 1U << 31U;  // beside the number of devices: an order goes with the sets

constexpr std::size_t kMostSets = 60'000;  // bytes of an order, with all processes' sets

constexpr std::size_t kMostDigested = 16;
constexpr std::size_t kMostKnown = 64;

template <class T> void write(Bytes& bytes, std::size_t offset, const T& value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

template <class T> T read(const Bytes& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// Against accidents: the processes of a job trust one another.
std::uint64_t digest(const RequiredSet& set) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  const auto add = [&hash](std::uint64_t word) {
    hash ^= word;
    hash *= 0x9FB21C651E98DF25U;
    hash ^= hash >> 29U;
  };
  for (const ParameterId id : set.parameters()) add(std::uint64_t{id.value} + 1);
  add(set.parameters().size());
  return hash;
}

bool is_permutation(std::span<const ParameterId> order, std::size_t parameters) {
  std::vector<bool> seen(parameters);
  for (const ParameterId id : order) {
    if (id.value >= parameters || seen[id.value]) return false;
    seen[id.value] = true;
  }
  return order.size() == parameters;
}

const std::shared_ptr<const RequiredSet>& empty_set() {
  static const auto set = std::make_shared<const RequiredSet>();
  return set;
}

}  // namespace

RoundAgreement::RoundAgreement(const Model& model, int rank, std::vector<std::uint32_t> devices)
    : model_(model), rank_(static_cast<std::size_t>(rank)), devices_(std::move(devices)) {}

// Sets are the same objects while graphs do not change.
std::uint64_t RoundAgreement::digest_of(const std::shared_ptr<const RequiredSet>& set) {
  const auto found = std::ranges::find(digested_, set, &Known::set);
  if (found != digested_.end()) return found->digest;
  if (digested_.size() == kMostDigested) digested_.erase(digested_.begin());
  digested_.push_back({set, digest(*set)});
  return digested_.back().digest;
}

void RoundAgreement::propose(std::vector<ParameterId> order) {
  if (order.size() <= kMostOrdered) proposed_ = std::move(order);
}

Bytes RoundAgreement::words(const Agree& agree) {
  const std::size_t devices = agree.registrations.size();
  Bytes bytes(sizeof(WordsHeader) + devices * sizeof(DeviceWords));
  write(bytes, 0,
        WordsHeader{agree.generation, static_cast<std::uint32_t>(devices) | (proposed_.empty() ? 0 : kProposes),
                    static_cast<std::uint32_t>(model_.parameters), model_.description, model_.values});
  for (std::size_t i = 0; i < devices; ++i) {
    const auto& [required, weight, contributes, left, follows] = agree.registrations[i];
    write(bytes, sizeof(WordsHeader) + i * sizeof(DeviceWords),
          DeviceWords{digest_of(required ? required : empty_set()), weight, contributes,
                      (left ? kLeft : 0) | (follows ? kFollows : 0)});
  }
  return bytes;
}

void RoundAgreement::hear_words(std::int64_t generation, std::span<const Bytes> by_rank) {
  heard_.clear();
  difference_.clear();
  order_comes_ = false;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Bytes& bytes = by_rank[rank];
    if (bytes.size() != sizeof(WordsHeader) + devices_.at(rank) * sizeof(DeviceWords))
      raise<SyncError>("[sync] rank {} said {} bytes about generation {}, for {} devices", rank, bytes.size(),
                       generation, devices_[rank]);
    const auto header = read<WordsHeader>(bytes, 0);
    if (header.generation != generation)
      raise<SyncError>("[sync] rank {} is in generation {}, this process in {}", rank, header.generation, generation);
    if (rank == 0) order_comes_ = (header.devices & kProposes) != 0;
    if (difference_.empty())
      difference_ = difference_from(rank, {header.parameters, header.description, header.values});
    for (std::uint32_t device = 0; device < devices_[rank]; ++device) {
      const auto words = read<DeviceWords>(bytes, sizeof(WordsHeader) + device * sizeof(DeviceWords));
      heard_.push_back(
          {words.digest,
           {0, words.weight, words.contributes != 0, (words.left & kLeft) != 0, (words.left & kFollows) != 0}});
    }
  }
  if (known_.size() > kMostKnown) known_.clear();
  if (order_comes_ && bytes_of_sets() + model_.parameters * sizeof(ParameterId) > kMostSets) order_comes_ = false;
}

bool RoundAgreement::all_left() const {
  return std::ranges::all_of(heard_, [](const Device& device) { return device.registration.left; });
}

std::optional<Agreement> RoundAgreement::agreed() const {
  if (order_comes_) return std::nullopt;
  for (std::size_t rank = 0; rank < devices_.size(); ++rank)
    if (!tellers(rank).empty()) return std::nullopt;
  return agreement();
}

std::string RoundAgreement::difference_from(std::size_t rank, const Model& model) const {
  if (model.parameters != model_.parameters || model.description != model_.description)
    return fmt::format(
        "[sync] rank {}'s replicas or options are not those of rank {}: names, order, shapes and dtypes of parameters "
        "and buffers, and SyncOptions, have to be the same",
        rank, rank_);
  if (model.values != model_.values && model.values != 0 && model_.values != 0)
    return fmt::format(
        "[sync] rank {}'s replicas begin with other values than those of rank {}, or with other optimizers in "
        "backward: "
        "seed the same, or load the same checkpoint, in every process",
        rank, rank_);
  return {};
}

/// The rank's devices that tell their set, by number in the group: of those with a set that not all processes know, the
/// first one in the group.
std::vector<std::size_t> RoundAgreement::tellers(std::size_t rank) const {
  std::size_t first = 0;
  for (std::size_t before = 0; before < rank; ++before) first += devices_[before];
  std::vector<std::size_t> tellers;
  for (std::size_t number = first; number < first + devices_[rank]; ++number) {
    const std::uint64_t digest = heard_[number].digest;
    const auto before = std::span(heard_).first(number);
    if (!known_.contains(digest) && std::ranges::find(before, digest, &Device::digest) == before.end())
      tellers.push_back(number);
  }
  return tellers;
}

std::size_t RoundAgreement::bytes_of_sets() const {
  std::size_t told = 0;
  for (std::size_t rank = 0; rank < devices_.size(); ++rank) told += tellers(rank).size();
  return told * ((model_.parameters + 7) / 8);
}

Bytes RoundAgreement::sets(const Agree& agree) const {
  const std::size_t length = (model_.parameters + 7) / 8;
  const auto own = tellers(rank_);
  Bytes bytes(own.size() * length);
  std::size_t first = 0;
  for (std::size_t before = 0; before < rank_; ++before) first += devices_[before];
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto& required = agree.registrations.at(own[i] - first).required;
    if (!required) continue;
    for (const ParameterId id : required->parameters())
      bytes[i * length + id.value / 8] |= std::byte{1} << (id.value % 8);
  }
  if (rank_ == 0 && order_comes_) {
    const auto order = std::as_bytes(std::span(proposed_));
    bytes.insert(bytes.end(), order.begin(), order.end());
  }
  return bytes;
}

Agreement RoundAgreement::hear_sets(std::span<const Bytes> by_rank) {
  const std::size_t length = (model_.parameters + 7) / 8;
  std::vector<std::shared_ptr<const RequiredSet>> told;
  std::vector<std::uint64_t> digests;
  std::shared_ptr<const std::vector<ParameterId>> order;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto from = tellers(rank);
    const Bytes& bytes = by_rank[rank];
    const std::size_t ordered = rank == 0 && order_comes_ ? model_.parameters : 0;
    if (bytes.size() != from.size() * length + ordered * sizeof(ParameterId))
      raise<SyncError>("[sync] rank {} said {} bytes about what {} of its devices require", rank, bytes.size(),
                       from.size());
    if (ordered > 0) order = order_of(std::span(bytes).subspan(from.size() * length));
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::vector<ParameterId> ids;
      for (std::uint32_t id = 0; id < model_.parameters; ++id)
        if ((bytes[i * length + id / 8] >> (id % 8) & std::byte{1}) != std::byte{0}) ids.push_back({id});
      auto set = std::make_shared<const RequiredSet>(std::move(ids));
      if (digest(*set) != heard_[from[i]].digest)
        raise<SyncError>("[sync] what rank {} says that device {} of the group requires does not fit its words before",
                         rank, from[i]);
      told.push_back(std::move(set));
      digests.push_back(heard_[from[i]].digest);
    }
  }
  for (std::size_t i = 0; i < told.size(); ++i) known_.try_emplace(digests[i], std::move(told[i]));
  if (order_comes_) proposed_.clear();
  Agreement all = agreement();
  all.order = std::move(order);
  return all;
}

std::shared_ptr<const std::vector<ParameterId>> RoundAgreement::order_of(std::span<const std::byte> bytes) const {
  std::vector<ParameterId> order(model_.parameters);
  std::memcpy(order.data(), bytes.data(), bytes.size());
  if (!is_permutation(order, model_.parameters))
    raise<SyncError>("[sync] the order of gradients that rank 0 proposes has not each of {} parameters once",
                     model_.parameters);
  return std::make_shared<const std::vector<ParameterId>>(std::move(order));
}

Agreement RoundAgreement::agreement() const {
  Agreement agreement;
  for (const Device& device : heard_) {
    const auto& set = known_.at(device.digest);
    const auto place = std::ranges::find(agreement.sets, set) - agreement.sets.begin();
    if (place == std::ssize(agreement.sets)) agreement.sets.push_back(set);
    agreement.registrations.push_back(device.registration);
    agreement.registrations.back().set = static_cast<std::uint32_t>(place);
  }
  return agreement;
}

}  // namespace tutti
