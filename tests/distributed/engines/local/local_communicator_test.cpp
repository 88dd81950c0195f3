// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/local/local_communicator.h>

#include <tutti/distributed/engines/make_communicator.h>
#include <tutti/tests/distributed/device_threads.h>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

template <class T> std::vector<T> values(std::int64_t count, std::size_t device) {
  std::vector<T> result(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<T>(std::sin(0.1 * static_cast<double>(i) + static_cast<double>(device)));
  return result;
}

template <class T> AllReduceRequest request(std::int64_t count, std::size_t devices, double denominator) {
  AllReduceRequest result;
  result.denominator = denominator;
  for (std::size_t d = 0; d < devices; ++d) {
    result.slices.push_back({Array::from(values<T>(count, d), {count}, cpu(d)), true});
    result.ready.push_back(compute_stream(cpu(d)).record());
  }
  return result;
}

// The definition: the tree of all devices, one rounding per addition, one division.
template <class T> std::vector<T> sum_of(std::int64_t count, std::size_t first, std::size_t end) {
  if (end - first == 1) return values<T>(count, first);
  const std::size_t middle = first + std::bit_floor(end - first - 1);
  std::vector<T> sum = sum_of<T>(count, first, middle);
  const std::vector<T> rest = sum_of<T>(count, middle, end);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += rest[i];
  return sum;
}

template <class T> std::vector<T> expected(std::int64_t count, std::size_t devices, double denominator) {
  std::vector<T> sum = sum_of<T>(count, 0, devices);
  for (T& value : sum) value /= static_cast<T>(denominator);
  return sum;
}

}  // namespace

TEST_CASE_TEMPLATE("local_communicator: sums in a balanced tree, in place, for any size", T, float, double) {
  LocalCommunicator communicator;
  for (const std::size_t devices : {1, 2, 3, 4, 7, 8})
    for (const std::int64_t count : {1, 15, 512, 513, 16384, 16385, 100'003}) {
      const double denominator = devices == 3 ? 3.0 : static_cast<double>(devices);
      AllReduceRequest reduction = request<T>(count, devices, denominator);
      const auto slices = reduction.slices;
      const std::shared_ptr<CollectiveTask> task[] = {communicator.all_reduce(std::move(reduction))};
      join_tasks(cpu(0), task);
      for (const AllReduceSlice& slice : slices)
        CHECK(slice.gradient.template to_vector<T>() == expected<T>(count, devices, denominator));
    }
}

TEST_CASE("local_communicator: the result does not depend on who helps") {
  LocalCommunicator communicator;
  const auto want = expected<float>(300'000, 4, 4);
  for (int round = 0; round < 10; ++round) {
    AllReduceRequest reduction = request<float>(300'000, 4, 4);
    const auto slices = reduction.slices;
    const std::shared_ptr<CollectiveTask> task[] = {communicator.all_reduce(std::move(reduction))};
    run_devices(4, [&](std::size_t d) { join_tasks(cpu(d), task); });
    for (const AllReduceSlice& slice : slices) CHECK(slice.gradient.to_vector<float>() == want);
  }
}

TEST_CASE("local_communicator: a device that has other work takes its own share, one that waits takes the rest") {
  constexpr std::int64_t kCount = 300'000;
  const auto before = values<float>(kCount, 0);
  const auto want = expected<float>(kCount, 2, 2);
  for (const Device other : {cpu(1), cpu(0)}) {
    LocalCommunicator communicator;
    AllReduceRequest reduction = request<float>(kCount, 2, 2);
    for (const Event& event : reduction.ready) event.synchronize();
    const auto slices = reduction.slices;
    const auto task = communicator.all_reduce(std::move(reduction));
    communicator.crew().help(cpu(0));
    communicator.crew().help(cpu(0));
    CHECK_FALSE(task->finished());
    const auto half = slices[0].gradient.to_vector<float>();
    CHECK(half.front() == want.front());
    CHECK(half[kCount / 2 - 1] == want[kCount / 2 - 1]);
    CHECK(half[kCount / 2 + 100] == before[kCount / 2 + 100]);
    if (other == cpu(1))
      communicator.crew().help(cpu(1));
    else
      communicator.crew().help_all(cpu(0));
    REQUIRE(task->finished());
    for (const AllReduceSlice& slice : slices) CHECK(slice.gradient.to_vector<float>() == want);
  }
}

TEST_CASE("local_communicator: shares of many reductions are found, whoever is behind") {
  constexpr int kRounds = 300;
  LocalCommunicator communicator;
  std::vector<AllReduceSlice> slices;
  std::vector<std::shared_ptr<CollectiveTask>> tasks;
  for (int round = 0; round < kRounds; ++round) {
    AllReduceRequest reduction = request<float>(5'000, 3, 3);
    for (const Event& event : reduction.ready) event.synchronize();
    slices.insert(slices.end(), reduction.slices.begin(), reduction.slices.end());
    tasks.push_back(communicator.all_reduce(std::move(reduction)));
    if (round % 2 == 0) communicator.crew().help(cpu(0));
    if (round % 7 == 0) communicator.crew().help(cpu(2));
  }
  for (const Device device : {cpu(0), cpu(1), cpu(2)}) communicator.crew().help(device);
  for (const auto& task : tasks) CHECK(task->finished());
  const auto want = expected<float>(5'000, 3, 3);
  for (const AllReduceSlice& slice : slices) CHECK(slice.gradient.to_vector<float>() == want);
}

TEST_CASE("local_communicator: slices that do not contribute are overwritten, never read") {
  LocalCommunicator communicator;
  AllReduceRequest reduction = request<double>(1000, 3, 2.0);
  reduction.slices[1].gradient.fill(std::nan(""));
  reduction.slices[1].contributes = false;
  synchronize(cpu(1));
  const auto slices = reduction.slices;
  const std::shared_ptr<CollectiveTask> task[] = {communicator.all_reduce(std::move(reduction))};
  join_tasks(cpu(0), task);
  const auto a = values<double>(1000, 0);
  const auto c = values<double>(1000, 2);
  for (const AllReduceSlice& slice : slices) {
    const auto got = slice.gradient.to_vector<double>();
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == (a[i] + c[i]) / 2.0);
  }
}

TEST_CASE("local_communicator: devices keep their numbers where others have no slice") {
  LocalCommunicator communicator;
  AllReduceRequest reduction = request<float>(1000, 3, 1.0);
  reduction.numbers = {1, 2, 3};
  const auto slices = reduction.slices;
  const std::shared_ptr<CollectiveTask> task[] = {communicator.all_reduce(std::move(reduction))};
  join_tasks(cpu(0), task);
  const auto one = values<float>(1000, 0);
  const auto two = values<float>(1000, 1);
  const auto three = values<float>(1000, 2);
  int unlike = 0;  // in device order it would be another sum
  const auto got = slices[1].gradient.to_vector<float>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i] == one[i] + (two[i] + three[i]));
    unlike += got[i] == one[i] + two[i] + three[i] ? 0 : 1;
  }
  CHECK(unlike > 100);
}

TEST_CASE("local_communicator: numbers that are no group's are refused") {
  LocalCommunicator communicator;
  const auto refused = [&](std::vector<std::size_t> numbers, const char* text) {
    AllReduceRequest reduction = request<float>(10, 3, 1.0);
    reduction.numbers = std::move(numbers);
    CHECK_THROWS_WITH_AS((void)communicator.all_reduce(std::move(reduction)), doctest::Contains(text), SyncError);
  };
  refused({0, 1}, "2 numbers of devices for 3 slices");
  refused({0, 2, 2}, "devices' numbers ascend and are below 65536: 2 stands behind 2");
  refused({0, 2, 1}, "1 stands behind 2");
  refused({0, 1, 65536}, "65536 stands behind 1");
}

TEST_CASE("local_communicator: slices that differ are refused") {
  LocalCommunicator communicator;
  AllReduceRequest reduction = request<float>(10, 2, 2.0);
  reduction.slices[1].gradient = Array::zeros({11}, DType::f32, cpu(1));
  CHECK_THROWS_WITH_AS((void)communicator.all_reduce(std::move(reduction)), doctest::Contains("cpu:1"), SyncError);
}

TEST_CASE("local_communicator: what was launched is finished at destruction") {
  AllReduceRequest reduction = request<float>(50'000, 2, 2.0);
  const auto slices = reduction.slices;
  {
    LocalCommunicator communicator;
    (void)communicator.all_reduce(std::move(reduction));
  }
  CHECK(slices[0].gradient.to_vector<float>() == expected<float>(50'000, 2, 2.0));
}

TEST_CASE("local_communicator: devices of other kinds are refused by name") {
  const Device devices[] = {cpu(0), cuda(0)};
  CHECK_THROWS_WITH_AS((void)make_communicator(devices), doctest::Contains("cuda:0"), DeviceError);
}

TEST_CASE("local_communicator: a task that only another engine's task waits for is done") {
  LocalCommunicator first;
  LocalCommunicator second;
  AllReduceRequest reduction = request<double>(2000, 2, 1.0);
  const auto slices = reduction.slices;
  const auto task = first.all_reduce(std::move(reduction));
  second.all_reduce({.slices = slices, .ready = events_of(task)})->wait();
  CHECK(task->finished());
  std::vector<double> twice = expected<double>(2000, 2, 1.0);
  for (double& value : twice) value *= 2;
  for (const AllReduceSlice& slice : slices) CHECK(slice.gradient.to_vector<double>() == twice);
}

TEST_SUITE_END();
