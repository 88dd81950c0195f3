// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/tests/distributed/engines/network/network_group.h>

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <stdexcept>
#include <thread>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

std::vector<CollectiveCall> calls_for(CollectiveKind kind, CollectiveOperation operation, DType dtype,
                                      std::span<const Member> members, std::int64_t rows) {
  std::vector<CollectiveCall> calls;
  for (std::size_t member = 0; member < members.size(); ++member) {
    CollectiveCall call{.kind = kind, .operation = operation, .root = members[1], .shape = {rows, 7}, .dtype = dtype};
    if (kind == CollectiveKind::all_gather) call.shape[0] = rows + static_cast<std::int64_t>(member);
    if (kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_to_all)
      call.lengths = even_parts(rows, members.size());
    calls.push_back(std::move(call));
  }
  return calls;
}

Array input_for(const CollectiveCall& call, std::size_t number, Device device) {
  std::vector<float> values(static_cast<std::size_t>(element_count(call.shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i * (number + 1))) * 100.0F;
  return Array::from(values, call.shape, device).cast(call.dtype);
}

// Arrays of the members from `first` on; others are undefined.
CollectiveRequest request_for(const std::vector<CollectiveCall>& calls, std::span<const Member> members,
                              std::size_t first, std::size_t count, bool one_process) {
  const CollectivePlan plan = plan_collective(calls, members);
  CollectiveRequest request;
  request.operation = calls.front().operation;
  request.parts = plan.parts;
  request.name = "test";
  request.inputs.resize(members.size());
  request.outputs.resize(members.size());
  for (std::size_t number = first; number < first + count; ++number) {
    const Device device = one_process ? cpu(static_cast<std::uint16_t>(number)) : members[number].device;
    request.inputs[number] = input_for(calls[number], number, device);
    request.outputs[number] = Array::zeros(plan.outputs[number], calls[number].dtype, device);
    request.ready.push_back(compute_stream(device).record());
  }
  return request;
}

}  // namespace

TEST_CASE("network: collectives of users are those of one process") {
  for (const std::vector<std::size_t>& devices : {std::vector<std::size_t>{2, 2}, {1, 3, 2}}) {
    NetworkGroup group(devices);
    for (const CollectiveKind kind :
         {CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::reduce, CollectiveKind::all_gather,
          CollectiveKind::reduce_scatter, CollectiveKind::all_to_all})
      for (const CollectiveOperation operation :
           {CollectiveOperation::sum, CollectiveOperation::mean, CollectiveOperation::max})
        for (const DType dtype : {DType::f32, DType::bf16}) {
          if (!reduces(kind) && operation != CollectiveOperation::sum) continue;
          CAPTURE(to_string(kind));
          const auto calls = calls_for(kind, operation, dtype, group.members, 1500);
          LocalCommunicator local;
          CollectiveRequest whole = request_for(calls, group.members, 0, group.world(), true);
          const std::vector<Array> expected = whole.outputs;
          local.collective(std::move(whole))->join(cpu(0));
          group.run_well([&](std::size_t rank, NetworkCommunicator& communicator) {
            const std::size_t first = group.first_of(rank);
            CollectiveRequest own = request_for(calls, group.members, first, group.devices[rank], false);
            const std::vector<Array> outputs = own.outputs;
            communicator.collective(std::move(own))->join(cpu(0));
            for (std::size_t d = first; d < first + group.devices[rank]; ++d)
              if (bytes_of(outputs[d]) != bytes_of(expected[d])) throw std::runtime_error("other bits");
          });
        }
  }
}

TEST_CASE("network: a collective's result may take its input's place") {
  NetworkGroup group({1, 1});
  group.run_well([&](std::size_t rank, NetworkCommunicator& communicator) {
    for (int i = 0; i < 5; ++i) {
      CollectiveRequest request;
      request.inputs.resize(2);
      request.outputs.resize(2);
      const Array own = Array::full({500'000}, static_cast<double>(rank + 1), DType::f32, cpu(0));
      synchronize(cpu(0));
      request.inputs[rank] = request.outputs[rank] = own;
      request.parts = {{500'000, {{0, 0}, {1, 0}}, {{0, 0}, {1, 0}}}};
      communicator.collective(std::move(request))->join(cpu(0));
      if (own.to_vector<float>() != std::vector<float>(500'000, 3.0F)) throw std::runtime_error("another sum");
    }
  });
}

TEST_CASE("network: a collective without parts waits for all") {
  std::atomic<int> came{0};
  NetworkGroup group({1, 1, 1});
  group.run_well([&](std::size_t rank, NetworkCommunicator& communicator) {
    CollectiveRequest request;
    request.inputs = {Array::zeros({1}, DType::f32, cpu(0))};
    request.outputs = request.inputs;
    if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++came;
    communicator.collective(std::move(request))->join(cpu(0));
    if (came.load() != 3) throw std::runtime_error("somebody had not come");
  });
}

TEST_SUITE_END();
