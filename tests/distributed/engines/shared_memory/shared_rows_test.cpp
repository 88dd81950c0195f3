// SPDX-License-Identifier: Apache-2.0
// Sums of sparse gradients' rows between ranks that are threads.
#include <tutti/backend/error.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/distributed/engines/shared_memory/rank_group.h>

#include <doctest/doctest.h>

#include <utility>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

SparseGradient rows_at(const std::vector<std::int64_t>& indices, float value, std::int64_t columns) {
  const auto count = static_cast<std::int64_t>(indices.size());
  return {
      Array::from(indices, {count}, cpu(0)), Array::full({count, columns}, value, DType::f32, cpu(0)), {10, columns}};
}

/// The sum of what the ranks give, each of them its parts, on the rank that calls.
std::shared_ptr<SparseResult> reduce(SharedMemoryCommunicator& communicator, std::size_t rank,
                                     std::vector<SparseGradient> parts, std::int64_t columns = 2) {
  auto result = std::make_shared<SparseResult>(SparseResult{{true}, {{}}});
  SparseReduction request{.parameter = {"table", {10, columns}, DType::f32},
                          .contributions = {},
                          .receivers = {cpu(0)},
                          .ready = {},
                          .denominator = 2.0,
                          .result = result,
                          .world = 2};
  if (!parts.empty())
    request.contributions.push_back({Member(static_cast<int>(rank), cpu(0)), rank, {std::move(parts)}});
  synchronize(cpu(0));
  communicator.reduce_sparse(std::move(request))->join(cpu(0));
  return result;
}

}  // namespace

TEST_CASE("shared_memory, rows: parts are summed over all ranks, also of one that has none") {
  for (const Mapping mapping : {Mapping::own, Mapping::common})
    run_good_ranks(3, 1, small_pieces(), mapping, [](std::size_t rank, SharedMemoryCommunicator& communicator) {
      for (int round = 0; round < 100; ++round) {  // more than there are slots
        std::vector<SparseGradient> parts;
        if (rank == 0) parts = {rows_at({7, 1}, 1.0F, 2), rows_at({}, 0.0F, 2), rows_at({1}, 2.0F, 2)};
        if (rank == 2) parts = {rows_at({1, 9}, static_cast<float>(round), 2)};
        const SparseGradient sum = reduce(communicator, rank, parts)->gradients[0].front();
        const auto half = static_cast<float>(round) / 2;
        if (sum.indices.to_vector<std::int64_t>() != std::vector<std::int64_t>{1, 7, 9} ||
            sum.rows.to_vector<float>() != std::vector<float>{1.5F + half, 1.5F + half, 0.5F, 0.5F, half, half})
          throw std::runtime_error("another sum in round " + std::to_string(round));
      }
    });
}

TEST_CASE("shared_memory, rows: an index out of range is an error on all ranks that names the device") {
  const auto errors =
      run_ranks(2, 1, small_pieces(), Mapping::common, [](std::size_t rank, SharedMemoryCommunicator& communicator) {
        (void)reduce(communicator, rank, {rows_at({rank == 1 ? 12 : 3}, 1.0F, 2)});
      });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.find("rank 1 cpu:0 submitted parameter \"table\" with index 12 of 10 rows") != std::string::npos);
  }
}

TEST_CASE("shared_memory, rows: tables that differ are an error on all ranks, with both values") {
  const auto errors =
      run_ranks(2, 1, small_pieces(), Mapping::common, [](std::size_t rank, SharedMemoryCommunicator& communicator) {
        const std::int64_t columns = rank == 0 ? 2 : 3;
        (void)reduce(communicator, rank, {rows_at({3}, 1.0F, columns)}, columns);
      });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.find("rank 0 has 2 elements, rank 1 has 3 elements") != std::string::npos);
  }
}

TEST_SUITE_END();
