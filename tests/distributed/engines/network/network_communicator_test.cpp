// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/distributed/engines/network/network_group.h>
#include <tutti/tests/sanitizers.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <thread>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("network: many reductions on their way have the bits of one process") {
  for (const bool encrypt : {false, true})
    for (const std::vector<std::size_t>& devices :
         {std::vector<std::size_t>{1}, {1, 1}, {2, 2}, {1, 1, 1}, {3, 1}, {1, 2, 1}, {1, 1, 1, 1}, {2, 4}}) {
      CAPTURE(devices.size());
      CAPTURE(devices[0]);
      NetworkGroup group(devices, small_frames(encrypt));
      group.run_well([&](std::size_t rank, NetworkCommunicator& communicator) {
        reduce_many(communicator, group.devices, rank, (devices.size() == 2 ? 150 : 40) / (kIsSanitized ? 4 : 1));
      });
    }
}

TEST_CASE("network: a large reduction goes in pieces, and their borders change no bits") {
  for (const std::size_t bytes : {8192, 10'000, 1 << 20})
    for (const std::size_t window : {1, 64 << 20}) {  // two pieces at least
      NetworkOptions options = small_frames();
      options.piece_bytes = bytes;
      options.window_bytes = window;
      NetworkGroup group({2, 1}, options);
      group.run_well([&](std::size_t rank, NetworkCommunicator& communicator) {
        reduce_many(communicator, group.devices, rank, 20);
      });
    }
}

TEST_CASE("network: the most slices of the largest type fit the smallest piece") {
  NetworkOptions options = small_frames();
  options.piece_bytes = 8192;
  NetworkGroup group({kMostSharedSlices, 1}, options);
  group.run_well([&](std::size_t rank, NetworkCommunicator& communicator) {
    AllReduceRequest request{.slices = {}, .ready = {}};
    std::vector<Array> slices;
    for (std::size_t i = 0; i < group.devices[rank]; ++i) {
      slices.push_back(Array::full({1000}, 1.0, DType::f64, cpu(static_cast<std::uint16_t>(i))));
      synchronize(cpu(static_cast<std::uint16_t>(i)));
      request.slices.push_back({slices.back(), true});
    }
    communicator.all_reduce(std::move(request))->join(cpu(0));
    for (const Array& slice : slices)
      if (slice.to_vector<double>() != std::vector<double>(1000, 17.0)) throw std::runtime_error("another sum");
  });
}

TEST_CASE("network: connections go over IPv6, too") {
  NetworkGroup group({1, 1});
  group.address = "::1";
  try {
    const DataDoor door(group.address);
  } catch (const Error&) {
    MESSAGE("skipped: this host has no IPv6");
    return;
  }
  group.run_well(
      [&](std::size_t rank, NetworkCommunicator& communicator) { reduce_many(communicator, group.devices, rank, 10); });
}

TEST_CASE("network: devices keep their numbers where others have no slice") {
  const RandomReduction reduction(7, 6);
  NetworkGroup group({3, 3});
  group.run_well([&](std::size_t rank, NetworkCommunicator& communicator) {
    // Numbers 1, 2 and 3, 5: what 0 and 4 have is left out.
    AllReduceRequest request{.slices = {}, .ready = {}};
    std::vector<Array> slices;
    for (const std::size_t number : rank == 0 ? std::vector<std::size_t>{1, 2} : std::vector<std::size_t>{3, 5}) {
      const Device device = cpu(static_cast<std::uint16_t>(number % 3));
      slices.push_back(
          Array::from(reduction.values[number], {static_cast<std::int64_t>(reduction.values[0].size())}, device));
      synchronize(device);
      request.slices.push_back({slices.back(), true});
      request.numbers.push_back(number);
    }
    communicator.all_reduce(std::move(request))->join(cpu(0));
    for (std::size_t i = 0; i < reduction.values[0].size(); ++i) {
      const auto& v = reduction.values;
      const float expected = (v[1][i] + (v[2][i] + v[3][i])) + v[5][i];
      if (slices[0].data<float>()[i] != expected || slices[1].data<float>()[i] != expected)
        throw std::runtime_error("the tree is not that of the numbers");
    }
  });
}

TEST_CASE("network: inputs that come late are waited for, and keep later requests of their sequence back alone") {
  NetworkGroup group({1, 1});
  group.run_well([&](std::size_t rank, NetworkCommunicator& communicator) {
    struct Late final : EventState {
      bool ready() const override { return there.load(); }
      void synchronize() override { there.wait(false); }
      std::atomic<bool> there{false};
    };
    const auto late = std::make_shared<Late>();
    const Array slice = Array::full({1000}, -1.0, DType::f32, cpu(0));
    const Array next = Array::full({2000}, 2.0, DType::f32, cpu(0));
    synchronize(cpu(0));
    const auto task = communicator.all_reduce({.slices = {{slice, true}}, .ready = {Event(late)}});
    const auto later = communicator.all_reduce({.slices = {{next, true}}, .ready = {}});
    communicator.crew().help(cpu(0));
    CollectiveRequest users;
    users.inputs.resize(2);
    users.outputs.resize(2);
    users.inputs[rank] = users.outputs[rank] = Array::full({8}, 1.0, DType::f32, cpu(0));
    synchronize(cpu(0));
    users.parts = {{8, {{0, 0}, {1, 0}}, {{0, 0}, {1, 0}}}};
    const Array sum = users.outputs[rank];
    communicator.collective(std::move(users))->join(cpu(0));
    if (sum.to_vector<float>() != std::vector<float>(8, 2.0F)) throw std::runtime_error("the users' sum is wrong");
    std::fill_n(slice.data<float>(), 1000, static_cast<float>(rank + 1));
    late->there = true;
    late->there.notify_all();
    later->join(cpu(0));
    task->join(cpu(0));
    if (std::any_of(slice.data<float>(), slice.data<float>() + 1000, [](float value) { return value != 3.0F; }))
      throw std::runtime_error("the sum was made before its inputs");
    if (next.to_vector<float>() != std::vector<float>(2000, 4.0F)) throw std::runtime_error("the later sum is wrong");
  });
}

// A request that one process has not launched yet holds up nothing of the other sequence, however much of it waits.
TEST_CASE("network: sequences are launched in different orders") {
  NetworkGroup group({1, 1});
  group.run_well([&](std::size_t rank, NetworkCommunicator& communicator) {
    constexpr std::int64_t kMany = 4 << 20;
    const auto round = [&] {
      Array slice = Array::full({kMany}, 1.0, DType::f32, cpu(0));
      synchronize(cpu(0));
      return communicator.all_reduce({.slices = {{std::move(slice), true}}, .ready = {}});
    };
    const auto users = [&] {
      CollectiveRequest request;
      request.inputs.resize(2);
      request.outputs.resize(2);
      request.inputs[rank] = Array::full({kMany}, 1.0, DType::f32, cpu(0));
      request.outputs[rank] = Array::empty({kMany}, DType::f32, cpu(0));
      synchronize(cpu(0));
      request.parts = {{kMany, {{0, 0}, {1, 0}}, {{0, 0}, {1, 0}}}};
      return communicator.collective(std::move(request));
    };
    for (int i = 0; i < 3; ++i) {
      std::vector<std::shared_ptr<CollectiveTask>> tasks;
      if (rank == 0) {
        for (int k = 0; k < 3; ++k) tasks.push_back(users());
        tasks.push_back(round());
        tasks.back()->join(cpu(0));
      } else {
        tasks.push_back(round());
        tasks.back()->join(cpu(0));
        for (int k = 0; k < 3; ++k) tasks.push_back(users());
      }
      join_tasks(cpu(0), tasks);
    }
  });
}

TEST_CASE("network: what was launched is finished by the destructor") {
  Array slices[2];
  NetworkGroup group({1, 1});
  group.run_well([&](std::size_t rank, NetworkCommunicator& communicator) {
    slices[rank] = Array::full({300'000}, static_cast<double>(rank + 1), DType::f32, cpu(0));
    synchronize(cpu(0));
    (void)communicator.all_reduce({.slices = {{slices[rank], true}}, .ready = {}, .denominator = 3.0});
  });
  for (const Array& slice : slices) CHECK(slice.to_vector<float>() == std::vector<float>(300'000, 1.0F));
}

TEST_CASE("network: what the engine does not do is said") {
  NetworkGroup group({1});
  group.run_well([](std::size_t, NetworkCommunicator& communicator) {
    CHECK_THROWS_AS((void)communicator.all_reduce({}), SyncError);
    const Array slice = Array::zeros({4}, DType::f32, cpu(1));
    CHECK_THROWS_WITH_AS((void)communicator.all_reduce({.slices = {{slice, true}}, .ready = {}}),
                         doctest::Contains("the slice of cpu:1 on rank 0 says that it is number 0, cpu:0"), SyncError);
    communicator.set_enabled(false);
    const Array own = Array::zeros({4}, DType::f32, cpu(0));
    CHECK(communicator.all_reduce({.slices = {{own, true}}, .ready = {}})->finished());
    communicator.regroup(members_of_ranks(1, 1));
    CHECK_THROWS_WITH_AS(communicator.regroup({}), doctest::Contains("rank 0 has left"), SyncError);
  });
}

TEST_SUITE_END();
