// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/collectives/process_members.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/communicator.h>

#include <algorithm>
#include <utility>

namespace tutti {

ProcessMembers::ProcessMembers(std::string engine, std::span<const Member> members, std::vector<int> ranks, int rank)
    : engine_(std::move(engine)), members_({members.begin(), members.end()}), ranks_(std::move(ranks)), rank_(rank) {
  std::vector<std::size_t> slices(ranks_.size(), 0);
  for (std::size_t number = 0; number < members_.size(); ++number) {
    const Member& member = members_[number];
    if (member.device.kind != DeviceKind::cpu) raise<SyncError>("[{}] {} is no CPU", engine_, members_.name(number));
    if (!std::ranges::binary_search(ranks_, member.rank))
      raise<SyncError>("[{}] rank {} is no process of the meeting", engine_, member.rank);
    if (member.rank == rank_) own_numbers_.push_back(number);
    if (++slices[place_of(number)] > kMostSharedSlices)
      raise<SyncError>("[{}] rank {} has more than {} devices", engine_, member.rank, kMostSharedSlices);
  }
  if (own_numbers_.empty()) raise<SyncError>("[{}] rank {} has no device", engine_, rank_);
  for (std::size_t place = 0; place < slices.size(); ++place)
    if (slices[place] == 0) raise<SyncError>("[{}] rank {} has no device", engine_, ranks_[place]);
  most_slices_ = std::ranges::max(slices);
}

std::size_t ProcessMembers::place_of(std::size_t number) const {
  if (number >= members_.size())
    raise<SyncError>("[{}] a group of {} devices has no device {}", engine_, members_.size(), number);
  return static_cast<std::size_t>(std::ranges::lower_bound(ranks_, members_[number].rank) - ranks_.begin());
}

void ProcessMembers::number_slices(AllReduceRequest& request) const {
  if (request.numbers.empty()) request.numbers = own_numbers_;
  if (request.numbers.size() != request.slices.size())
    raise<SyncError>("[all_reduce] {} slices for the {} devices of rank {}", request.slices.size(),
                     request.numbers.size(), rank_);
  for (std::size_t i = 0; i < request.slices.size(); ++i) {
    const Device device = request.slices[i].gradient.device();
    if (ranks_[place_of(request.numbers[i])] != rank_ || members_[request.numbers[i]].device != device)
      raise<SyncError>("[all_reduce] the slice of {} on rank {} says that it is number {}, {}", to_string(device),
                       rank_, request.numbers[i], members_.name(request.numbers[i]));
  }
}

void ProcessMembers::require_all(std::span<const Member> members) const {
  for (const int rank : ranks_)
    if (std::ranges::find(members, rank, &Member::rank) == members.end())
      raise<SyncError>("[{}] rank {} has left: its processes' group ends, a new one makes a new engine", engine_, rank);
}

}  // namespace tutti
