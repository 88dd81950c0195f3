// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/engines/shared_memory/rank_group.h>

#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/tests/distributed/device_threads.h>

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string_view>
#include <thread>

extern char** environ;

namespace tutti::testing {

std::string fresh_name() {
  static std::atomic<int> count{0};
  return fmt::format("test-{}-{}", getpid(), ++count);
}

std::vector<Member> members_of_ranks(std::size_t ranks, std::size_t devices) {
  std::vector<Member> members;
  for (std::size_t number = 0; number < ranks * devices; ++number)
    members.emplace_back(static_cast<int>(number / devices), cpu(static_cast<std::uint16_t>(number % devices)));
  return members;
}

SharedMemoryOptions small_pieces() {
  return {.piece_bytes = 16 << 10, .array_bytes = 8 << 20, .patience = std::chrono::seconds(60)};
}

std::vector<std::string> run_ranks(std::size_t ranks, std::size_t devices, SharedMemoryOptions options, Mapping mapping,
                                   const std::function<void(std::size_t, SharedMemoryCommunicator&)>& work) {
  const std::string name = fresh_name();
  const auto members = members_of_ranks(ranks, devices);
  std::vector<std::shared_ptr<SharedSegment>> common;
  if (mapping == Mapping::common)
    for (std::size_t rank = 0; rank < ranks; ++rank)
      common.push_back(SharedMemoryCommunicator::make_segment(1, static_cast<int>(rank), options));
  return errors_of_devices(ranks, [&](std::size_t rank) {
    const int number = static_cast<int>(rank);
    const auto communicator = mapping == Mapping::common
                                  ? std::make_unique<SharedMemoryCommunicator>(common, 1, members, number, options)
                                  : SharedMemoryCommunicator::connect(name, 1, members, number, options);
    work(rank, *communicator);
  });
}

void run_good_ranks(std::size_t ranks, std::size_t devices, SharedMemoryOptions options, Mapping mapping,
                    const std::function<void(std::size_t, SharedMemoryCommunicator&)>& work) {
  throw_first(run_ranks(ranks, devices, options, mapping, work));
}

RandomReduction::RandomReduction(std::uint64_t seed, std::size_t world) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t end) { return random() % end; };
  constexpr DType kTypes[] = {DType::f32, DType::f32, DType::f64, DType::bf16, DType::f16};
  constexpr GradientWire kWires[] = {GradientWire::native, GradientWire::bf16, GradientWire::f16};
  constexpr std::size_t kCounts[] = {0, 1, 63, 1000, 1024, 20'000};
  dtype = kTypes[below(5)];
  if (dtype == DType::f32) wire = kWires[below(3)];
  if (wire != GradientWire::native) wire_scale = below(2) == 0 ? 1.0 : 0.25;
  denominator = below(2) == 0 ? static_cast<double>(world) : 3.7;
  const std::size_t count = kCounts[below(6)] + below(40);
  for (std::size_t number = 0; number < world; ++number) {
    contributes.push_back(below(5) != 0);
    std::vector<float>& of_device = values.emplace_back(count);
    for (float& value : of_device) value = std::normal_distribution<float>()(random);
  }
}

AllReduceRequest RandomReduction::request(std::size_t first, std::size_t count, std::size_t first_device,
                                          const ArrayMaker& array) const {
  AllReduceRequest request{
      .slices = {}, .ready = {}, .denominator = denominator, .wire = wire, .wire_scale = wire_scale};
  for (std::size_t i = 0; i < count; ++i) {
    const Device device = cpu(static_cast<std::uint16_t>(first_device + i));
    const Shape shape{static_cast<std::int64_t>(values[first + i].size())};
    const Array gradient = array(first + i, shape, dtype, device);
    gradient.count_write("test");
    Array(gradient).copy_from(Array::from(values[first + i], shape, device).cast(dtype));
    request.slices.push_back({gradient, contributes[first + i]});
    request.ready.push_back(compute_stream(device).record());
  }
  return request;
}

std::vector<std::byte> RandomReduction::expected() const {
  LocalCommunicator communicator;
  AllReduceRequest all = request(0, values.size(), 0, new_array);
  const Array first = all.slices.front().gradient;
  communicator.all_reduce(std::move(all))->join(cpu(0));
  return bytes_of(first);
}

std::vector<std::byte> bytes_of(const Array& array) { return {array.raw_data(), array.raw_data() + array.bytes()}; }

void reduce_many(Communicator& communicator, std::span<const std::size_t> devices, std::size_t rank,
                 std::size_t reductions, const ArrayMaker& make_array) {
  const std::size_t world = std::accumulate(devices.begin(), devices.end(), std::size_t{0});
  const auto before = devices.first(rank);
  const std::size_t first = std::accumulate(before.begin(), before.end(), std::size_t{0});
  std::vector<std::vector<Array>> slices;
  std::vector<std::shared_ptr<CollectiveTask>> tasks;
  for (std::size_t i = 0; i < reductions; ++i) {
    const RandomReduction reduction(i, world);
    AllReduceRequest request = reduction.request(first, devices[rank], 0, make_array);
    auto& own = slices.emplace_back();
    for (const AllReduceSlice& slice : request.slices) own.push_back(slice.gradient);
    tasks.push_back(communicator.all_reduce(std::move(request)));
    if (i % 7 == rank) communicator.crew().help(cpu(0));
  }
  run_devices(devices[rank], [&](std::size_t device) {
    if (device == 0 && rank % 2 == 1) tasks.back()->join(cpu(0));
    join_tasks(cpu(static_cast<std::uint16_t>(device)), tasks);
  });
  for (std::size_t i = 0; i < reductions; ++i) {
    const auto expected = RandomReduction(i, world).expected();
    for (std::size_t d = 0; d < devices[rank]; ++d)
      if (bytes_of(slices[i][d]) != expected)
        throw std::runtime_error(fmt::format("rank {}: reduction {} has other bits on cpu:{}", rank, i, d));
  }
}

Array new_array(std::size_t, const Shape& shape, DType dtype, Device device) {
  return Array::empty(shape, dtype, device);
}

void reduce_many(SharedMemoryCommunicator& communicator, std::size_t rank, std::size_t ranks, std::size_t devices,
                 std::size_t reductions) {
  std::size_t made = rank;
  reduce_many(communicator, std::vector(ranks, devices), rank, reductions,
              [&](std::size_t number, const Shape& shape, DType dtype, Device device) {
                return ++made % 3 == 0 ? new_array(number, shape, dtype, device)
                                       : communicator.shared_array(shape, dtype, device);
              });
}

RankProcess::RankProcess(const std::string& role, const std::string& name, std::size_t rank, std::size_t ranks,
                         std::size_t devices) {
  std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string filter = "--test-case=shared_memory: a rank's process";
  std::string what = fmt::format("TUTTI_TEST_RANK={} {} {} {} {}", role, name, rank, ranks, devices);
  char* const arguments[] = {program.data(), filter.data(), nullptr};
  std::vector<char*> variables{what.data()};
  for (char** variable = environ; *variable != nullptr; ++variable)  // it reports no test case to who counts them
    if (!std::string_view(*variable).starts_with("TUTTI_TEST_PROGRESS=")) variables.push_back(*variable);
  variables.push_back(nullptr);
  if (posix_spawn(&id_, program.c_str(), nullptr, nullptr, arguments, variables.data()) != 0)
    throw std::runtime_error("a rank's process cannot be started");
}

RankProcess::~RankProcess() {
  if (id_ < 0) return;
  kill(id_, SIGKILL);
  waitpid(id_, nullptr, 0);
}

int RankProcess::status() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < end) {
    int status = 0;
    if (waitpid(id_, &status, WNOHANG) == id_) {
      id_ = -1;
      return status;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return -1;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

}  // namespace tutti::testing
