// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/messages/replica_description.h>

#include <tutti/backend/raise.h>

#include <algorithm>

namespace tutti {

void refuse_difference(std::string_view kind, const ReplicaDescription& mine, const ReplicaDescription& other) {
  const std::string& here = mine.holder;
  const std::string& there = other.holder;
  const std::size_t common = std::min(mine.members.size(), other.members.size());
  for (std::size_t i = 0; i < common; ++i) {
    const SyncParameter& a = mine.members[i];
    const SyncParameter& b = other.members[i];
    if (a.name != b.name)
      raise<SyncError>("[sync] {} {} is \"{}\" on {} and \"{}\" on {}", kind, i, a.name, here, b.name, there);
    if (a.shape != b.shape)
      raise<SyncError>("[sync] {} \"{}\" has shape {} on {} and {} on {}", kind, a.name, to_string(a.shape), here,
                       to_string(b.shape), there);
    if (a.dtype != b.dtype)
      raise<SyncError>("[sync] {} \"{}\" is {} on {} and {} on {}", kind, a.name, to_string(a.dtype), here,
                       to_string(b.dtype), there);
    if (a.sparse != b.sparse)
      raise<SyncError>("[sync] {} \"{}\" has {} gradients on {} and {} ones on {}", kind, a.name,
                       a.sparse ? "sparse" : "dense", here, b.sparse ? "sparse" : "dense", there);
  }
  if (mine.members.size() == other.members.size()) return;
  const auto& longer = mine.members.size() > common ? mine.members : other.members;
  raise<SyncError>("[sync] {} has {} {}s and {} has {}: the first unmatched one is \"{}\"", here, mine.members.size(),
                   kind, there, other.members.size(), longer[common].name);
}

}  // namespace tutti
