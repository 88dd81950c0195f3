// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/engines/network/network_group.h>

#include <tutti/backend/registry.h>

#include <fmt/format.h>

#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>

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
  std::vector<std::string> errors(devices.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < devices.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        NetworkMeeting own = meeting;
        own.rank = static_cast<int>(rank);
        NetworkOptions its = options;
        if (change_rank) change_rank(rank, own, its);
        NetworkCommunicator communicator(own, *doors[rank], members, its);
        work(rank, communicator);
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

void NetworkGroup::run_well(const std::function<void(std::size_t, NetworkCommunicator&)>& work) {
  for (const std::string& error : run(work))
    if (!error.empty()) throw std::runtime_error(error);
}

void reduce_many(NetworkCommunicator& communicator, const NetworkGroup& group, std::size_t rank,
                 std::size_t reductions) {
  const std::size_t devices = group.devices[rank];
  std::vector<std::vector<Array>> slices;
  std::vector<std::shared_ptr<CollectiveTask>> tasks;
  for (std::size_t i = 0; i < reductions; ++i) {
    const RandomReduction reduction(i, group.world());
    AllReduceRequest request = reduction.request(
        group.first_of(rank), devices, 0,
        [](std::size_t, const Shape& shape, DType dtype, Device device) { return Array::empty(shape, dtype, device); });
    auto& own = slices.emplace_back();
    for (const AllReduceSlice& slice : request.slices) own.push_back(slice.gradient);
    tasks.push_back(communicator.all_reduce(std::move(request)));
    if (i % 7 == rank) communicator.crew().help(cpu(0));
  }
  std::vector<std::thread> others;
  for (std::size_t d = 1; d < devices; ++d)
    others.emplace_back([&, d] {
      try {
        join_tasks(cpu(static_cast<std::uint16_t>(d)), tasks);
      } catch (const std::exception&) {
        // the first device's thread throws the same
      }
    });
  std::exception_ptr error;
  try {
    if (rank % 2 == 1) tasks.back()->join(cpu(0));
    join_tasks(cpu(0), tasks);
  } catch (...) {
    error = std::current_exception();
  }
  for (std::thread& thread : others) thread.join();
  if (error) std::rethrow_exception(error);
  for (std::size_t i = 0; i < reductions; ++i) {
    const auto expected = RandomReduction(i, group.world()).expected();
    for (std::size_t d = 0; d < devices; ++d)
      if (bytes_of(slices[i][d]) != expected)
        throw std::runtime_error(fmt::format("rank {}: reduction {} has other bits on cpu:{}", rank, i, d));
  }
}

}  // namespace tutti::testing
