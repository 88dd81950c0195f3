// SPDX-License-Identifier: Apache-2.0
// Groups of several processes on the recording machine: each engine here plays a process with one device.
#include <tutti/distributed/engines/nccl/nccl_communicator.h>

#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/nccl/nccl_group.h>
#include <tutti/tests/backend/cuda/recording/recording_cuda.h>
#include <tutti/tests/backend/cuda/renewed_backend.h>
#include <tutti/tests/distributed/engines/nccl/recording_nccl.h>
#include <tutti/tests/distributed/engines/nccl/wire_simulation.h>

#include <doctest/doctest.h>

#include <chrono>
#include <limits>
#include <optional>
#include <string>

using namespace tutti;
using namespace tutti::testing;

namespace {

using Values = std::vector<float>;
using Tasks = std::vector<std::shared_ptr<CollectiveTask>>;

struct Processes {
  explicit Processes(bool deferred) : cuda_machine({.devices = 2, .deferred = deferred}) {
    simulate_reduction_kernels(cuda_machine);
    id = make_nccl_id(cuda(0));
    for (const int rank : {0, 1})
      engines[rank].emplace(std::vector<Device>{device(rank)}, NcclMembership{id, 2, rank}, std::chrono::seconds(5));
  }
  static Device device(int rank) { return cuda(static_cast<std::uint16_t>(rank)); }

  Array on(int rank, const Values& values) const {
    return Array::from(values, {static_cast<std::int64_t>(values.size())}, device(rank));
  }
  /// Both request; rank 1 first, since nobody waits for the other.
  template <class Request> void run(Request request) {
    for (const int rank : {1, 0}) {
      const auto task = request(rank);
      join_tasks(device(rank), Tasks{task});
    }
    for (const int rank : {0, 1}) synchronize(device(rank));
  }
  void all_reduce(const Array& a, const Array& b, double denominator) {
    run([&](int rank) {
      const Array& own = rank == 0 ? a : b;
      return engines[rank]->all_reduce(
          {.slices = {{own}}, .ready = {compute_stream(own.device()).record()}, .denominator = denominator});
    });
  }

  RecordingCuda cuda_machine;
  RecordingNccl nccl;
  RenewedBackend backend;
  ncclUniqueId id;
  std::optional<NcclCommunicator> engines[2];
};

/// Each process names all arrays of the group and holds its own.
std::vector<Array> only(int rank, const std::vector<Array>& all) {
  std::vector<Array> own(all.size());
  own[static_cast<std::size_t>(rank)] = all[static_cast<std::size_t>(rank)];
  return own;
}

}  // namespace

TEST_CASE("nccl processes: gradients are averaged, in the order of each process's streams") {
  for (const bool deferred : {false, true}) {
    Processes both(deferred);
    const Array a = both.on(0, {1, 2, 3});
    const Array b = both.on(1, {3, 4, -3});
    for (const Values& expected : {Values{2, 3, 0}, Values{2, 3, 0}}) {
      both.all_reduce(a, b, 2.0);
      CHECK(a.to_vector<float>() == expected);
      CHECK(b.to_vector<float>() == expected);
    }
    CHECK(both.nccl.count("ncclCommInitRankConfig") == 2);
    CHECK(both.nccl.count("ncclAllReduce") == 4);
  }
}

TEST_CASE("nccl processes: 16-bit gradients and wires are summed in f32; who is silent sends zeros") {
  Processes both(true);
  const Array a = both.on(0, {1, 2, 3});
  const Array b = both.on(1, {0x1p-8F, 0x1p-8F, 1});
  const auto reduce = [&](GradientWire wire, const Array& first, const Array& second, bool contributes) {
    both.run([&](int rank) {
      const Array& own = rank == 0 ? first : second;
      return both.engines[rank]->all_reduce({.slices = {{own, rank == 0 || contributes}},
                                             .ready = {compute_stream(own.device()).record()},
                                             .denominator = 0.5,
                                             .wire = wire});
    });
  };
  const auto narrow = [](const Array& array) {
    const Array here = array.to(cpu()).cast(DType::bf16);
    synchronize(cpu());
    return here.to(array.device());
  };
  const Array narrow_a = narrow(a);
  const Array narrow_b = narrow(b);
  reduce(GradientWire::native, narrow_a, narrow_b, true);
  for (const Array& sum : {narrow_a, narrow_b})
    CHECK(sum.to(cpu()).cast(DType::f32).to_vector<float>() == Values{2, 4, 8});  // ties to even
  reduce(GradientWire::bf16, a, b, false);
  for (const Array& sum : {a, b}) CHECK(sum.to_vector<float>() == Values{2, 4, 6});
}

TEST_CASE("nccl processes: sparse gradients are refused by name") {
  Processes both(false);
  SparseReduction request;
  request.parameter = {.name = "table", .shape = {10, 2}, .dtype = DType::f32, .sparse = true};
  CHECK_THROWS_WITH_AS(join_tasks(cuda(0), Tasks{both.engines[0]->reduce_sparse(request)}),
                       doctest::Contains("\"table\": sparse gradients are reduced between devices of one process"),
                       SyncError);
  for (const int rank : {1, 0}) both.engines[rank].reset();
}

TEST_CASE("nccl processes: each sends and receives what is its own of a collective") {
  Processes both(true);
  std::vector<Array> inputs{both.on(0, {1, 2, 3, 4}), both.on(1, {10, 20, 30, 40})};
  std::vector<Array> outputs{both.on(0, Values(4, -1)), both.on(1, Values(4, -1))};
  const auto run = [&](CollectiveOperation operation, const std::vector<CollectivePart>& parts) {
    both.run([&](int rank) {
      const auto own = static_cast<std::size_t>(rank);
      return both.engines[rank]->collective({.operation = operation,
                                             .inputs = only(rank, inputs),
                                             .outputs = only(rank, outputs),
                                             .ready = {compute_stream(inputs[own].device()).record()},
                                             .parts = parts});
    });
    return std::pair(outputs[0].to_vector<float>(), outputs[1].to_vector<float>());
  };
  SUBCASE("mean to all") {
    const auto [a, b] = run(CollectiveOperation::mean, {{4, {{0, 0}, {1, 0}}, {{0, 0}, {1, 0}}}});
    CHECK(a == Values{5.5, 11, 16.5, 22});
    CHECK(b == a);
    CHECK(both.nccl.count("ncclAllReduce") == 2);
  }
  SUBCASE("reduce_scatter") {
    const auto [a, b] =
        run(CollectiveOperation::sum, {{2, {{0, 0}, {1, 0}}, {{0, 0}}}, {2, {{0, 2}, {1, 2}}, {{1, 0}}}});
    CHECK(a == Values{11, 22, -1, -1});
    CHECK(b == Values{33, 44, -1, -1});
  }
  SUBCASE("all_to_all") {
    const auto [a, b] =
        run(CollectiveOperation::sum,
            {{2, {{0, 0}}, {{0, 0}}}, {2, {{0, 2}}, {{1, 0}}}, {2, {{1, 0}}, {{0, 2}}}, {2, {{1, 2}}, {{1, 2}}}});
    CHECK(a == Values{1, 2, 10, 20});
    CHECK(b == Values{3, 4, 30, 40});
  }
  SUBCASE("broadcast, and zeros for whom nobody sends") {
    const auto [a, b] = run(CollectiveOperation::sum, {{2, {{1, 1}}, {{0, 0}, {1, 0}}}, {2, {}, {{0, 2}, {1, 2}}}});
    CHECK(a == Values{20, 30, 0, 0});
    CHECK(b == a);
  }
  SUBCASE("max keeps NaN, and works in place") {
    inputs[1] = both.on(1, {std::numeric_limits<float>::quiet_NaN(), 1, 50, 4});
    outputs = inputs;
    const auto [a, b] = run(CollectiveOperation::max, {{4, {{0, 0}, {1, 0}}, {{0, 0}, {1, 0}}}});
    CHECK(a[0] != a[0]);
    CHECK(Values(b.begin() + 1, b.end()) == Values{2, 50, 4});
  }
}

TEST_CASE("nccl processes: ranks that do not fit are refused by their numbers") {
  Processes both(false);
  CHECK_THROWS_WITH_AS(NcclGroup({cuda(0), cuda(1)}, {both.id, 2, 1}, std::chrono::seconds(1)),
                       doctest::Contains("ranks 1 to 2 do not fit in a group of 2"), SyncError);
}

TEST_CASE("nccl processes: after a failure every request tells of it, with the cause that NCCL gives for wrong usage") {
  const std::string text = "[nccl] cuda:0: ncclCommInitRankConfig failed: an error that the test made";
  for (const ncclResult_t failure : {ncclSystemError, ncclInvalidUsage}) {
    Processes both(false);
    both.nccl.fail_call("ncclCommInitRankConfig", 1, failure);
    const Array a = both.on(0, {1});
    const auto reduce = [&] {
      const auto task = both.engines[0]->all_reduce({.slices = {{a}}, .ready = {}});
      join_tasks(cuda(0), Tasks{task});
    };
    const std::string expected = failure == ncclInvalidUsage ? text + " (as it was told to)" : text;
    for (int i = 0; i < 2; ++i) CHECK_THROWS_WITH_AS(reduce(), expected.c_str(), SyncError);
  }
}
