// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/collectives/compressed_reduction.h>

#include <tutti/backend/process/error_text.h>
#include <tutti/distributed/collectives/gradient_sums.h>
#include <tutti/distributed/collectives/task_chain.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>
#include <utility>

namespace tutti {

namespace {

/// Requests of all rounds, checked.
std::vector<std::vector<AllReduceRequest>> all_factors(CompressedReduction& reduction,
                                                       std::span<const Device> helping) {
  std::vector<std::vector<AllReduceRequest>> rounds;
  for (std::size_t round = 0; round < reduction.rounds(); ++round) {
    rounds.push_back(reduction.factors(round));
    for (AllReduceRequest& request : rounds.back()) {
      check_slices(request);
      for (AllReduceSlice& slice : request.slices)
        slice.helps = std::ranges::find(helping, slice.gradient.device()) != helping.end();
    }
  }
  return rounds;
}

}  // namespace

std::shared_ptr<CollectiveTask> launch_in_turns(Communicator& engine, int rank,
                                                std::shared_ptr<CompressedReduction> reduction,
                                                std::vector<Event> ready, std::span<const Device> helping) {
  const auto members = static_cast<std::int64_t>(reduction->devices().size());
  std::vector<std::vector<AllReduceRequest>> factors = all_factors(*reduction, helping);
  ChainLaunch chain;
  try {
    for (std::size_t round = 0; round < factors.size(); ++round) {
      const std::vector<Event> encoded =
          chain.add(engine.crew().run(std::move(ready), helping, members, [reduction, round](std::int64_t member) {
            reduction->encode(round, static_cast<std::size_t>(member));
          }));
      ready.clear();
      for (AllReduceRequest& request : factors[round]) {
        request.ready = encoded;
        std::ranges::move(chain.add(engine.all_reduce(std::move(request))), std::back_inserter(ready));
      }
      if (factors[round].empty()) ready = encoded;
    }
    chain.add(engine.crew().run(std::move(ready), helping, members, [reduction](std::int64_t member) {
      reduction->decode(static_cast<std::size_t>(member));
    }));
    return chain.task();
  } catch (...) {
    engine.abort(fmt::format("rank {}: {}", rank, text_of(std::current_exception())));
    throw;
  }
}

}  // namespace tutti
