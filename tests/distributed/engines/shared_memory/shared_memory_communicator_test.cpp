// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/shared_memory/shared_memory_communicator.h>
#include <tutti/tests/distributed/engines/shared_memory/rank_group.h>
#include <tutti/tests/sanitizers.h>

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("shared_memory: many reductions on their way have the bits of one process") {
  for (const Mapping mapping : {Mapping::own, Mapping::common})
    for (const std::size_t ranks : {1, 2, 3, 4})
      for (const std::size_t devices : {1, 2}) {
        CAPTURE(ranks);
        CAPTURE(devices);
        run_good_ranks(
            ranks, devices, small_pieces(), mapping, [&](std::size_t rank, SharedMemoryCommunicator& communicator) {
              reduce_many(communicator, rank, ranks, devices, (ranks == 2 ? 300 : 60) / (kIsSanitized ? 6 : 1));
            });
      }
}

TEST_CASE("shared_memory: a piece is as long for all, wherever slices lie, and its borders change no bits") {
  constexpr std::size_t kDevices = 2;
  for (const std::size_t bytes : {8192, 9000, 1 << 20}) {
    SharedMemoryOptions options = small_pieces();
    options.piece_bytes = bytes;
    run_good_ranks(2, kDevices, options, Mapping::own, [&](std::size_t rank, SharedMemoryCommunicator& communicator) {
      reduce_many(communicator, rank, 2, kDevices, 20);
    });
  }
}

TEST_CASE("shared_memory: devices keep their numbers where others have no slice") {
  const RandomReduction reduction(7, 6);
  run_good_ranks(2, 3, small_pieces(), Mapping::own, [&](std::size_t rank, SharedMemoryCommunicator& communicator) {
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

TEST_CASE("shared_memory: inputs that come late are waited for, by nobody but the engine") {
  run_good_ranks(2, 1, small_pieces(), Mapping::own, [&](std::size_t rank, SharedMemoryCommunicator& communicator) {
    struct Late final : EventState {
      bool ready() const override { return there.load(); }
      void synchronize() override { there.wait(false); }
      std::atomic<bool> there{false};
    };
    const auto late = std::make_shared<Late>();
    const Array slice = communicator.shared_array({1000}, DType::f32, cpu(0));
    std::fill_n(slice.data<float>(), 1000, -1.0F);
    const auto task = communicator.all_reduce({.slices = {{slice, true}}, .ready = {Event(late)}});
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::fill_n(slice.data<float>(), 1000, static_cast<float>(rank + 1));
    late->there = true;
    late->there.notify_all();
    task->join(cpu(0));
    if (std::any_of(slice.data<float>(), slice.data<float>() + 1000, [](float value) { return value != 3.0F; }))
      throw std::runtime_error("the sum was made before its inputs");
  });
}

TEST_CASE("shared_memory: what was launched is finished by the destructor") {
  Array slices[2];
  run_good_ranks(2, 1, small_pieces(), Mapping::own, [&](std::size_t rank, SharedMemoryCommunicator& communicator) {
    slices[rank] = Array::full({3000}, static_cast<double>(rank + 1), DType::f32, cpu(0));
    synchronize(cpu(0));
    (void)communicator.all_reduce({.slices = {{slices[rank], true}}, .ready = {}, .denominator = 3.0});
  });
  for (const Array& slice : slices) CHECK(slice.to_vector<float>() == std::vector<float>(3000, 1.0F));
}

TEST_CASE("shared_memory: arrays are given back, and memory that is used up is an error") {
  SharedMemoryOptions options = small_pieces();
  options.array_bytes = 4096;
  run_good_ranks(1, 1, options, Mapping::own, [](std::size_t, SharedMemoryCommunicator& communicator) {
    for (int round = 0; round < 10; ++round) {
      const Array a = communicator.shared_array({512}, DType::f32, cpu(0));
      Array b = communicator.shared_array({256}, DType::f32, cpu(0));
      const Array c = communicator.shared_array({200}, DType::f32, cpu(0));
      b = Array();
      const Array d = communicator.shared_array({250}, DType::f32, cpu(0));
      CHECK_THROWS_WITH_AS((void)communicator.shared_array({100}, DType::f32, cpu(0)),
                           doctest::Contains("400 bytes do not fit: of 4096 shared bytes for arrays 192 are left"),
                           OutOfMemoryError);
    }
  });
}

TEST_CASE("shared_memory: an array for which there is no memory is an error, before a page is touched") {
  SharedMemoryOptions options = small_pieces();
  const auto all = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  options.array_bytes = 2 * all;
  run_good_ranks(1, 1, options, Mapping::own, [all](std::size_t, SharedMemoryCommunicator& communicator) {
    CHECK_THROWS_WITH_AS((void)communicator.shared_array({static_cast<std::int64_t>(all + all / 2)}, DType::u8, cpu(0)),
                         doctest::Contains("available"), OutOfMemoryError);
    CHECK(communicator.shared_array({100}, DType::f32, cpu(0)).to_vector<float>() == std::vector<float>(100));
  });
}

TEST_CASE("shared_memory: gradients lie in shared memory as long as there are addresses") {
  SharedMemoryOptions options = small_pieces();
  options.array_bytes = 8192;
  run_good_ranks(2, 1, options, Mapping::own, [](std::size_t rank, SharedMemoryCommunicator& communicator) {
    const Array shared = communicator.gradient_memory(2000, DType::f32, cpu(0));
    Array own = communicator.gradient_memory(2000, DType::f32, cpu(0));  // no addresses are left
    for (const Array& each : {shared, own}) {
      CHECK(each.to_vector<float>() == std::vector<float>(2000));
      Array(each).copy_from(Array::full({2000}, static_cast<double>(rank + 1), DType::f32, cpu(0)));
      synchronize(cpu(0));
      communicator.all_reduce({.slices = {{each, true}}, .ready = {}, .denominator = 3.0})->join(cpu(0));
      CHECK(each.to_vector<float>() == std::vector<float>(2000, 1.0F));
    }
  });
}

TEST_CASE("shared_memory: an array outlives its engine") {
  Array array;
  run_good_ranks(1, 1, small_pieces(), Mapping::own, [&](std::size_t, SharedMemoryCommunicator& communicator) {
    array = communicator.shared_array({100}, DType::f32, cpu(0));
  });
  std::fill_n(array.data<float>(), 100, 1.0F);
  CHECK(array.data<float>()[99] == 1.0F);
}

TEST_CASE("shared_memory: what the engine does not do is said") {
  run_good_ranks(1, 1, small_pieces(), Mapping::own, [](std::size_t, SharedMemoryCommunicator& communicator) {
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
