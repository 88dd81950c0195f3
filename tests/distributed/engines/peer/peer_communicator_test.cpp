// SPDX-License-Identifier: Apache-2.0
// The engine for CUDA devices that reach each other's memory, without a GPU: the order of what it queues, what it keeps
// alive, and what comes out.
#include <tutti/distributed/engines/peer/peer_communicator.h>

#include <tutti/backend/error.h>
#include <tutti/tests/distributed/engines/peer/peer_machine.h>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>

using namespace tutti;
using namespace tutti::testing;

namespace {

using Values = std::vector<float>;

struct Layout {
  int devices;
  int gpus;
  bool deferred;
};
constexpr Layout kLayouts[] = {{2, 1, false}, {2, 1, true}, {3, 1, true}, {2, 2, true}, {4, 2, true}, {3, 3, true}};

template <class F> void on_each_layout(F f) {
  for (const Layout& layout : kLayouts) {
    CAPTURE(layout.devices);
    CAPTURE(layout.gpus);
    CAPTURE(layout.deferred);
    PeerMachine machine(layout.devices, layout.gpus, layout.deferred);
    const auto engine = machine.connect();
    f(machine, *engine);
  }
}

Values counting(std::size_t count, float first) {
  Values values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(first + static_cast<float>(i));
  return values;
}

std::size_t sums(const PeerMachine& machine) {
  std::size_t count = 0;
  for (const std::string& name : machine.machine.kernels()) count += name.find("combine_") != std::string::npos ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("peer: devices average in place, behind their inputs and in front of what follows") {
  on_each_layout([](PeerMachine& machine, PeerCommunicator& engine) {
    const auto n = static_cast<float>(machine.devices.size());
    for (const std::size_t size : {1, 5, 32, 1000}) {
      std::vector<AllReduceSlice> slices;
      for (std::size_t d = 0; d < machine.devices.size(); ++d)
        slices.push_back({array_on(machine.devices[d], counting(size, static_cast<float>(d)))});
      machine.join_all({engine.all_reduce(sum_of(slices, n))});
      for (const AllReduceSlice& slice : slices)
        CHECK(slice.gradient.to_vector<float>() == counting(size, (n - 1) / 2));
    }
  });
}

TEST_CASE("peer: one task after the other, without a join between them") {
  on_each_layout([](PeerMachine& machine, PeerCommunicator& engine) {
    std::vector<AllReduceSlice> slices;
    for (const Device device : machine.devices) slices.push_back({array_on(device, counting(300, 1))});
    const auto n = static_cast<double>(machine.devices.size());
    AllReduceRequest halves = sum_of({}, n);
    for (const AllReduceSlice& slice : slices) halves.slices.push_back({slice.gradient.slice(0, 0, 100)});
    halves.ready = sum_of(slices).ready;
    Tasks tasks{engine.all_reduce(sum_of(slices)), engine.all_reduce(halves)};
    machine.join_all(tasks);
    const Values values = slices[0].gradient.to_vector<float>();
    CHECK(values[99] == 100 * static_cast<float>(n));
    CHECK(values[100] == 101 * static_cast<float>(n));
  });
}

TEST_CASE("peer: one kernel a GPU, which reads only those that contribute") {
  PeerMachine machine(3, 1, true);
  const auto engine = machine.connect();
  const Array a = array_on(cuda(0), Values{1, 2, 3});
  const Array silent = array_on(cuda(1), Values{std::nanf(""), 7, 7});
  const Array c = array_on(cuda(2), Values{10, 20, 30});
  AllReduceRequest request = sum_of({{a}, {silent, false}, {c}}, 2.0);
  request.ready.erase(request.ready.begin() + 1);  // nobody says from when on the silent device's memory may be written
  const Tasks tasks{engine->all_reduce(request)};
  CHECK(sums(machine) == 1);
  machine.join_all(tasks);
  for (const Array& each : {a, silent, c}) CHECK(each.to_vector<float>() == Values{5.5, 11, 16.5});
}

TEST_CASE("peer: nobody contributes: zeros for all") {
  PeerMachine machine(2);
  const auto engine = machine.connect();
  const Array a = array_on(cuda(0), Values{1, 2});
  const Array b = array_on(cuda(1), Values{1, 2});
  machine.join_all({engine->all_reduce(sum_of({{a, false}, {b, false}}, 2.0))});
  CHECK(a.to_vector<float>() == Values{0, 0});
  CHECK(b.to_vector<float>() == Values{0, 0});
}

TEST_CASE("peer: a device alone needs no kernel, but for dividing") {
  PeerMachine machine(1);
  const auto engine = machine.connect();
  const Array a = array_on(cuda(0), Values{2, 4});
  machine.join_all({engine->all_reduce(sum_of({{a}}))});
  CHECK(sums(machine) == 0);
  machine.join_all({engine->all_reduce(sum_of({{a}}, 2.0))});
  CHECK(a.to_vector<float>() == Values{1, 2});
}

TEST_CASE("peer: f64, and f32 that travels in 16 bits") {
  PeerMachine machine(2);
  const auto engine = machine.connect();
  const Array wide[] = {array_on(cuda(0), std::vector<double>{1, 1e-20}), array_on(cuda(1), std::vector<double>{2, 0})};
  machine.join_all({engine->all_reduce(sum_of({{wide[0]}, {wide[1]}}, 2.0))});
  CHECK(wide[1].to_vector<double>() == std::vector<double>{1.5, 5e-21});
  for (const GradientWire wire : {GradientWire::bf16, GradientWire::f16}) {
    const Array a = array_on(cuda(0), Values{1.0009765F, 3});
    const Array b = array_on(cuda(1), Values{1, 4});
    AllReduceRequest request = sum_of({{a}, {b}}, 2.0);
    request.wire = wire;
    machine.join_all({engine->all_reduce(request)});
    CHECK(a.to_vector<float>() == Values{1, 3.5});
  }
}

TEST_CASE("peer: tasks end by themselves, in order, and let their arrays go") {
  PeerMachine machine(2);
  const auto engine = machine.connect();
  std::weak_ptr<Storage> kept;
  Tasks tasks;
  {
    const Array a = array_on(cuda(0), Values{1});
    const Array b = array_on(cuda(1), Values{2});
    kept = a.storage();
    for (int i = 0; i < 3; ++i) tasks.push_back(engine->all_reduce(sum_of({{a}, {b}})));
    CHECK(!kept.expired());
  }
  engine->crew().help(cuda(0));  // somebody comes by
  for (const auto& task : tasks) CHECK(task->finished());
  CHECK(kept.expired());
}

TEST_CASE("peer: what is in flight is kept, and finished at the end") {
  std::weak_ptr<Storage> kept;
  PeerMachine machine(2, 1, true);
  Tasks tasks;
  {
    const auto engine = machine.connect();
    {
      const Array a = array_on(cuda(0), Values{1});
      const Array b = array_on(cuda(1), Values{2});
      kept = a.storage();
      tasks.push_back(engine->all_reduce(sum_of({{a}, {b}})));
    }
    engine->crew().help_all(cuda(1));
    CHECK(!tasks[0]->finished());
    CHECK(!kept.expired());
  }
  tasks[0]->wait();
  CHECK(!tasks[0]->error());
  CHECK(kept.expired());
}

TEST_CASE("peer: while reductions are off nothing is queued") {
  PeerMachine machine(2);
  const auto engine = machine.connect();
  engine->set_enabled(false);
  const Array a = array_on(cuda(0), Values{1});
  const Array b = array_on(cuda(1), Values{2});
  machine.join_all({engine->all_reduce(sum_of({{a}, {b}}))});
  CHECK(a.to_vector<float>() == Values{1});
  CHECK(sums(machine) == 0);
}

TEST_CASE("peer: collectives copy, sum and combine part by part") {
  on_each_layout([](PeerMachine& machine, PeerCommunicator& engine) {
    std::vector<Array> inputs{array_on(cuda(0), Values{1, 2, 3, 4}), array_on(cuda(1), Values{10, 20, 30, 40})};
    const auto outputs = [](std::int64_t size) {
      return std::vector<Array>{Array::empty({size}, DType::f32, cuda(0)), Array::empty({size}, DType::f32, cuda(1))};
    };
    const auto run = [&](CollectiveOperation operation, std::int64_t size, std::vector<CollectivePart> parts) {
      CollectiveRequest request{
          .operation = operation, .inputs = inputs, .outputs = outputs(size), .ready = {}, .parts = std::move(parts)};
      for (const Array& input : inputs) request.ready.push_back(compute_stream(input.device()).record());
      machine.join_all({engine.collective(request)});
      return std::array{request.outputs[0].to_vector<float>(), request.outputs[1].to_vector<float>()};
    };
    using Both = std::array<Values, 2>;
    const auto sum = CollectiveOperation::sum;
    CHECK(run(CollectiveOperation::mean, 4, {{4, {{0, 0}, {1, 0}}, {{0, 0}, {1, 0}}}}) ==
          Both{Values{5.5, 11, 16.5, 22}, Values{5.5, 11, 16.5, 22}});
    CHECK(run(sum, 2, {{2, {{0, 0}, {1, 0}}, {{0, 0}}}, {2, {{0, 2}, {1, 2}}, {{1, 0}}}}) ==
          Both{Values{11, 22}, Values{33, 44}});
    CHECK(run(sum, 4,
              {{2, {{0, 0}}, {{0, 0}}}, {2, {{0, 2}}, {{1, 0}}}, {2, {{1, 0}}, {{0, 2}}}, {2, {{1, 2}}, {{1, 2}}}}) ==
          Both{Values{1, 2, 10, 20}, Values{3, 4, 30, 40}});
    CHECK(run(sum, 4, {{2, {{1, 1}}, {{0, 0}, {1, 0}}}, {2, {}, {{0, 2}, {1, 2}}}}) ==
          Both{Values{20, 30, 0, 0}, Values{20, 30, 0, 0}});
    inputs[1] = array_on(cuda(1), Values{std::numeric_limits<float>::quiet_NaN(), 1, 50, 4});
    const auto [a, b] = run(CollectiveOperation::max, 4, {{4, {{0, 0}, {1, 0}}, {{0, 0}, {1, 0}}}});
    CHECK(std::isnan(a[0]));
    CHECK(Values(b.begin() + 1, b.end()) == Values{2, 50, 4});
  });
}

TEST_CASE("peer: copies into others' arrays in place, as sharded optimizers ask for") {
  on_each_layout([](PeerMachine& machine, PeerCommunicator& engine) {
    std::vector<Array> arrays{array_on(cuda(0), Values{1, 2, 0, 0}), array_on(cuda(1), Values{0, 0, 3, 4})};
    CollectiveRequest request{
        .inputs = arrays, .outputs = arrays, .ready = {}, .parts = {}, .devices = machine.devices};
    request.parts = {{2, {{0, 0}}, {{1, 0}}}, {2, {{1, 2}}, {{0, 2}}}};
    for (const Array& each : arrays) request.ready.push_back(compute_stream(each.device()).record());
    machine.join_all({engine.collective(request)});
    for (const Array& each : arrays) CHECK(each.to_vector<float>() == Values{1, 2, 3, 4});
  });
}

TEST_CASE("peer: sparse gradients reach each receiver, divided") {
  on_each_layout([](PeerMachine& machine, PeerCommunicator& engine) {
    SparseReduction request;
    request.parameter = {.name = "table", .shape = {10, 2}, .dtype = DType::f32, .sparse = true};
    const auto part = [](Device device, const std::vector<std::int64_t>& indices, const Values& rows) {
      const auto count = static_cast<std::int64_t>(indices.size());
      return SparseGradient{array_on(device, indices), Array::from(rows, {count, 2}, device), {10, 2}, false};
    };
    request.contributions = {{cuda(0), 0, {part(cuda(0), {3, 1}, {1, 2, 3, 4}), part(cuda(0), {}, {})}},
                             {cuda(1), 1, {part(cuda(1), {3}, {5, 6})}}};
    request.receivers = {cuda(0), cuda(1)};
    for (const Device device : request.receivers) request.ready.push_back(compute_stream(device).record());
    request.denominator = 2.0;
    request.result = std::make_shared<SparseResult>();
    request.result->receives = {true, true};
    request.result->gradients.resize(2);
    machine.join_all({engine.reduce_sparse(request)});
    for (const auto& gradients : request.result->gradients) {
      REQUIRE(gradients.size() == 1);
      CHECK(gradients[0].indices.to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 1, 3});
      CHECK(gradients[0].rows.to_vector<float>() == Values{0.5, 1, 1.5, 2, 2.5, 3});
      CHECK(!gradients[0].coalesced);
    }
  });
}

TEST_CASE("peer: results are written once their memory's last user has done") {
  PeerMachine machine(2, 1, true);
  const auto engine = machine.connect();
  const auto still_in_use = [&] {  // and free
    const Array old = Array::empty({4}, DType::f32, cuda(1));
    machine.machine.note_use(machine.backend->stream(cuda(1)).handle(), old.raw_data(), old.bytes(), true);
    return old.raw_data();
  };
  const Array input = array_on(cuda(0), Values{1, 2, 3, 4});
  {
    const std::byte* place = still_in_use();
    const Array output = Array::empty({4}, DType::f32, cuda(1));
    CHECK(output.raw_data() == place);
    CollectiveRequest request{.inputs = {input}, .outputs = {output}, .ready = {}, .parts = {{4, {{0, 0}}, {{0, 0}}}}};
    request.ready.push_back(compute_stream(cuda(0)).record());
    machine.join_all({engine->collective(request)});
    CHECK(output.to_vector<float>() == Values{1, 2, 3, 4});
  }
  SparseReduction request;
  request.parameter = {.name = "table", .shape = {10, 2}, .dtype = DType::f32, .sparse = true};
  request.contributions = {
      {cuda(0), 0, {{array_on(cuda(0), std::vector<std::int64_t>{3, 1}), input.reshape({2, 2}), {10, 2}, false}}}};
  request.receivers = {cuda(1)};
  request.ready.push_back(compute_stream(cuda(0)).record());
  request.result = std::make_shared<SparseResult>();
  request.result->receives = {true};
  request.result->gradients.resize(1);
  const std::byte* place = still_in_use();
  machine.join_all({engine->reduce_sparse(request)});
  const SparseGradient& result = request.result->gradients[0][0];
  CHECK((result.indices.raw_data() == place || result.rows.raw_data() == place));
  CHECK(result.rows.to_vector<float>() == Values{1, 2, 3, 4});
}

TEST_CASE("peer: GPUs without peer access are refused by name, and devices outside the group") {
  {
    const RecordingCuda machine({.devices = 2, .peers = false});
    const RenewedBackend backend;
    CHECK_THROWS_WITH_AS(PeerCommunicator({cuda(0), cuda(1)}),
                         doctest::Contains("cuda:0 cannot reach the memory of cuda:1"), DeviceError);
  }
  PeerMachine machine(2, 2);
  PeerCommunicator engine({cuda(0)});
  const Array a = array_on(cuda(0), Values{1});
  const Array b = array_on(cuda(1), Values{1});
  CHECK_THROWS_WITH_AS(engine.all_reduce(sum_of({{a}, {b}})), "[all_reduce] cuda:1 is not in the group", SyncError);
}

TEST_CASE("peer: access is enabled once for a pair, and for later engines too") {
  PeerMachine machine(4, 2);
  for (int i = 0; i < 2; ++i) {
    const auto engine = machine.connect();
    const Array a = array_on(cuda(0), Values{1, 2});
    const Array b = array_on(cuda(3), Values{1, 2});
    machine.join_all({engine->all_reduce(sum_of({{a}, {b}}))});
    CHECK(b.to_vector<float>() == Values{2, 4});
  }
  CHECK(machine.machine.count("cudaDeviceEnablePeerAccess") == 4);
}

TEST_CASE("peer: gradients that are compressed are refused by name") {
  PeerMachine machine(2);
  const auto engine = machine.connect();
  CHECK_THROWS_WITH_AS(engine->compressed_all_reduce(nullptr, {}, {}), doctest::Contains("compress"), SyncError);
}
