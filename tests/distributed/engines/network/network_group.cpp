// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/engines/network/network_group.h>

#include <tutti/tests/distributed/device_threads.h>

#include <memory>
#include <numeric>

namespace tutti::testing {

NetworkOptions small_frames(bool encrypt) {
  return {.encrypt = encrypt, .piece_bytes = 16 << 10, .window_bytes = 1 << 20, .patience = std::chrono::seconds(60)};
}

FrameCipher::Key key_of(std::uint8_t text) {
  FrameCipher::Key key;
  key.fill(text);
  return key;
}

NetworkGroup::NetworkGroup(std::vector<std::size_t> devices_by_rank, NetworkOptions its_options)
    : devices(std::move(devices_by_rank)), options(its_options) {
  for (std::size_t rank = 0; rank < devices.size(); ++rank)
    for (std::size_t i = 0; i < devices[rank]; ++i)
      members.emplace_back(static_cast<int>(rank), cpu(static_cast<std::uint16_t>(i)));
}

std::size_t NetworkGroup::first_of(std::size_t rank) const {
  return std::accumulate(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(rank), std::size_t{0});
}

std::vector<std::string> NetworkGroup::run(const std::function<void(std::size_t, NetworkCommunicator&)>& work) {
  std::vector<std::unique_ptr<DataDoor>> doors;
  NetworkMeeting meeting{.key = key_of(7), .epoch = 1, .places = {}};
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    doors.push_back(std::make_unique<DataDoor>(address));
    meeting.places.push_back({static_cast<int>(rank), address, doors.back()->port()});
  }
  if (change_places) change_places(meeting.places);
  return errors_of_devices(devices.size(), [&](std::size_t rank) {
    NetworkMeeting own = meeting;
    own.rank = static_cast<int>(rank);
    NetworkOptions its = options;
    if (change_rank) change_rank(rank, own, its);
    NetworkCommunicator communicator(own, *doors[rank], members, its);
    work(rank, communicator);
  });
}

void NetworkGroup::run_well(const std::function<void(std::size_t, NetworkCommunicator&)>& work) {
  throw_first(run(work));
}

}  // namespace tutti::testing
