// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/engines/local/local_communicator.h>
#include <tutti/distributed/engines/shared_memory/collective_cut.h>
#include <tutti/tests/distributed/engines/shared_memory/rank_group.h>

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr std::size_t kDevices = 2;

std::vector<CollectiveCall> calls_of(CollectiveKind kind, CollectiveOperation operation, DType dtype,
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

Array input_of(const CollectiveCall& call, std::size_t number, Device device) {
  std::vector<float> values(static_cast<std::size_t>(element_count(call.shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i * (number + 1))) * 100.0F;
  return Array::from(values, call.shape, device).cast(call.dtype);
}

// Arrays of the members from `first` on; others are undefined.
CollectiveRequest request_of(const std::vector<CollectiveCall>& calls, std::span<const Member> members,
                             std::size_t first, std::size_t count, bool distinct_devices) {
  const CollectivePlan plan = plan_collective(calls, members);
  CollectiveRequest request;
  request.operation = calls.front().operation;
  request.parts = plan.parts;
  request.name = "test";
  request.inputs.resize(members.size());
  request.outputs.resize(members.size());
  for (std::size_t number = first; number < first + count; ++number) {
    const Device device = distinct_devices ? cpu(static_cast<std::uint16_t>(number)) : members[number].device;
    request.inputs[number] = input_of(calls[number], number, device);
    request.outputs[number] = Array::zeros(plan.outputs[number], calls[number].dtype, device);
    request.ready.push_back(compute_stream(device).record());
  }
  return request;
}

}  // namespace

TEST_CASE("shared_memory: collectives of users are those of one process") {
  for (const std::size_t ranks : {2, 3}) {
    const auto members = members_of_ranks(ranks, kDevices);
    for (const CollectiveKind kind :
         {CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::reduce, CollectiveKind::all_gather,
          CollectiveKind::reduce_scatter, CollectiveKind::all_to_all})
      for (const CollectiveOperation operation :
           {CollectiveOperation::sum, CollectiveOperation::mean, CollectiveOperation::max})
        for (const DType dtype : {DType::f32, DType::bf16}) {
          if (!reduces(kind) && operation != CollectiveOperation::sum) continue;
          CAPTURE(to_string(kind));
          const auto calls = calls_of(kind, operation, dtype, members, 1500);
          LocalCommunicator local;
          CollectiveRequest whole = request_of(calls, members, 0, members.size(), true);
          const std::vector<Array> expected = whole.outputs;
          local.collective(std::move(whole))->join(cpu(0));
          run_good_ranks(ranks, kDevices, small_pieces(), Mapping::common,
                         [&](std::size_t rank, SharedMemoryCommunicator& communicator) {
                           CollectiveRequest own = request_of(calls, members, rank * kDevices, kDevices, false);
                           const std::vector<Array> outputs = own.outputs;
                           communicator.collective(std::move(own))->join(cpu(0));
                           for (std::size_t d = 0; d < kDevices; ++d)
                             if (bytes_of(outputs[rank * kDevices + d]) != bytes_of(expected[rank * kDevices + d]))
                               throw std::runtime_error("other bits");
                         });
        }
  }
}

TEST_CASE("shared_memory: a collective without parts waits for all") {
  std::atomic<int> came{0};
  run_good_ranks(3, 1, small_pieces(), Mapping::own, [&](std::size_t rank, SharedMemoryCommunicator& communicator) {
    CollectiveRequest request;
    request.inputs = {Array::zeros({1}, DType::f32, cpu(0))};
    request.outputs = request.inputs;
    if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++came;
    communicator.collective(std::move(request))->join(cpu(0));
    if (came.load() != 3) throw std::runtime_error("somebody had not come");
  });
}

TEST_CASE("collective_cut: no process gives more to a piece than it has memory for") {
  const auto process_of = [](std::size_t number) { return number / 2; };
  std::vector<CollectivePart> parts{
      {10'000, {{0, 0}, {1, 0}, {2, 0}}, {{0, 0}}}, {5, {{3, 1}}, {{1, 0}}}, {77, {}, {{2, 0}}}};
  const CollectiveCut cut(parts, 2, process_of, sizeof(float), 4096);
  std::vector<std::int64_t> seen(parts.size(), 0);
  for (const auto& piece : cut.pieces) {
    std::size_t last[2] = {0, 0};
    for (const CollectiveCut::Range& range : piece) {
      CHECK(range.begin == seen[range.part]);
      seen[range.part] += range.count;
      for (std::size_t i = 0; i < range.sources.size(); ++i) {
        std::size_t& end = last[process_of(parts[range.part].sources[i].number)];
        CHECK(range.sources[i] >= end);
        end = range.sources[i] + static_cast<std::size_t>(range.count) * sizeof(float);
        CHECK(end <= 4096);
      }
    }
  }
  CHECK(seen == std::vector<std::int64_t>{10'000, 5, 77});
  CHECK(CollectiveCut({}, 2, process_of, 4, 4096).pieces.size() == 1);
  parts.front().sources.assign(200, {0, 0});
  CHECK_THROWS_WITH_AS(CollectiveCut(parts, 2, process_of, 4, 4096), doctest::Contains("200 sources of one part"),
                       SyncError);
}

TEST_SUITE_END();
