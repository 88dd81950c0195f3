// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/engines/two_halves.h>

#include <tutti/distributed/collectives/compressed_reduction.h>
#include <tutti/distributed/collectives/engine_task.h>
#include <tutti/distributed/collectives/gradient_sums.h>
#include <tutti/distributed/collectives/task_chain.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace tutti::testing {

namespace {

using Halves = std::vector<Member>;  // the first half; the others are the second

std::size_t half_of(const Halves& first, const Member& member) {
  return std::ranges::find(first, member) == first.end() ? 1 : 0;
}

Halves first_half(std::span<const Member> members) {
  return {members.begin(), members.begin() + static_cast<std::ptrdiff_t>((members.size() + 1) / 2)};
}

void append(std::vector<Event>& events, std::vector<Event> more) {
  std::ranges::move(more, std::back_inserter(events));
}

/// An all-reduce in three stages, each of all-reduces between other devices: within the halves, between their first
/// devices, and from those to the others. The last is a sum of one contribution.
using AllReduceStages = std::array<std::vector<AllReduceRequest>, 3>;

AllReduceStages staged(const Halves& halves, const AllReduceRequest& request) {
  AllReduceRequest total = request;
  total.slices.clear();
  total.numbers.clear();
  AllReduceRequest partial = total;
  partial.denominator = 1.0;
  std::array<AllReduceRequest, 2> parts{partial, partial};
  for (std::size_t i = 0; i < request.slices.size(); ++i) {
    AllReduceRequest& part = parts[half_of(halves, request.slices[i].gradient.device())];
    part.slices.push_back(request.slices[i]);
    part.numbers.push_back(request.number_of(i));
  }
  AllReduceStages stages;
  for (const AllReduceRequest& part : parts) {
    if (part.slices.empty()) continue;
    stages[0].push_back(part);
    AllReduceRequest spread{.slices = part.slices, .ready = {}, .parameter = request.parameter};
    for (AllReduceSlice& slice : spread.slices) slice.contributes = false;
    AllReduceSlice first = part.slices.front();
    first.contributes = std::ranges::any_of(part.slices, &AllReduceSlice::contributes);
    total.slices.push_back(first);
    total.numbers.push_back(part.numbers.front());
    spread.slices.front().contributes = true;
    if (spread.slices.size() > 1) stages[2].push_back(spread);
  }
  stages[1].push_back(std::move(total));
  return stages;
}

/// The same of all sums of a compression.
class CompressionInHalves final : public CompressedReduction {
 public:
  CompressionInHalves(std::shared_ptr<CompressedReduction> whole, Halves halves)
      : whole_(std::move(whole)), halves_(std::move(halves)) {}
  const std::vector<Device>& devices() const override { return whole_->devices(); }
  std::size_t rounds() const override { return 3 * whole_->rounds(); }
  void encode(std::size_t round, std::size_t member) override {
    if (round % 3 == 0) whole_->encode(round / 3, member);
  }
  std::vector<AllReduceRequest> factors(std::size_t round) override {
    if (round % 3 == 0) {
      stages_ = {};
      for (const AllReduceRequest& request : whole_->factors(round / 3)) {
        AllReduceStages more = staged(halves_, request);
        for (std::size_t stage = 0; stage < stages_.size(); ++stage)
          std::ranges::move(more[stage], std::back_inserter(stages_[stage]));
      }
    }
    return std::move(stages_[round % 3]);
  }
  void decode(std::size_t member) override { whole_->decode(member); }

 private:
  std::shared_ptr<CompressedReduction> whole_;
  Halves halves_;
  AllReduceStages stages_;
};

}  // namespace

TwoHalves::TwoHalves(std::span<const Device> devices, std::unique_ptr<Communicator> inner)
    : first_half_(first_half(members_of(devices))), inner_(std::move(inner)) {}

std::shared_ptr<CollectiveTask> TwoHalves::all_reduce(AllReduceRequest request) {
  check_slices(request);
  if (!enabled()) return std::make_shared<FinishedTask>();
  ChainLaunch stages;
  std::vector<Event> ready = request.ready;
  for (std::vector<AllReduceRequest>& requests : staged(first_half_, request)) {
    std::vector<Event> done;
    for (AllReduceRequest& each : requests) {
      each.ready = ready;
      append(done, stages.add(inner_->all_reduce(std::move(each))));
    }
    if (!done.empty()) ready = std::move(done);
  }
  return stages.task();
}

std::shared_ptr<CollectiveTask> TwoHalves::reduce_sparse(SparseReduction request) {
  if (!enabled()) return std::make_shared<FinishedTask>();
  std::array<std::vector<SparseReduction::Contribution>, 2> halves;
  for (auto& each : request.contributions) halves[half_of(first_half_, each.member)].push_back(std::move(each));
  request.contributions.clear();
  ChainLaunch stages;
  std::vector<Event> done;
  for (auto& contributions : halves) {
    if (contributions.empty()) continue;
    const Member first = contributions.front().member;
    const std::size_t number = contributions.front().number;
    const auto sum = std::make_shared<SparseResult>(SparseResult{{true}, {{}}});
    append(done, stages.add(inner_->reduce_sparse({.parameter = request.parameter,
                                                   .contributions = std::move(contributions),
                                                   .receivers = {first.device},
                                                   .ready = request.ready,
                                                   .denominator = 1.0,
                                                   .result = sum,
                                                   .world = request.world})));
    request.contributions.push_back({first, number, SparseParts(sum, 0)});
  }
  append(request.ready, std::move(done));
  (void)stages.add(inner_->reduce_sparse(std::move(request)));
  return stages.task();
}

std::shared_ptr<CollectiveTask> TwoHalves::compressed_all_reduce(std::shared_ptr<CompressedReduction> reduction,
                                                                 std::vector<Event> ready,
                                                                 std::vector<Device> helping) {
  return inner_->compressed_all_reduce(std::make_shared<CompressionInHalves>(std::move(reduction), first_half_),
                                       std::move(ready), std::move(helping));
}

namespace {

/// What one half contributes to the parts of a collective, undivided, in an array on the half's first device.
struct HalfOfCollective {
  CollectiveRequest request;
  std::int64_t size = 0;
};

// Sums of a mean are divided at the end.
std::array<HalfOfCollective, 2> halves_of(const Halves& first, const CollectiveRequest& whole,
                                          CollectiveRequest& rest) {
  std::array<HalfOfCollective, 2> halves;
  for (HalfOfCollective& half : halves) {
    half.request.operation = rest.operation;
    half.request.inputs = whole.inputs;
    half.request.ready = whole.ready;
    half.request.name = whole.name;
  }
  std::array<Device, 2> where{};
  for (CollectivePart& part : rest.parts) {
    std::array<CollectivePart, 2> parts{CollectivePart{part.count, {}, {}}, CollectivePart{part.count, {}, {}}};
    for (const CollectivePart::Place& source : part.sources) {
      const Device device = whole.inputs[source.member].device();
      const std::size_t half = half_of(first, device);
      if (halves[half].request.parts.empty() && parts[half].sources.empty()) where[half] = device;
      parts[half].sources.push_back(source);
    }
    part.sources.clear();
    for (std::size_t half = 0; half < 2; ++half) {
      if (parts[half].sources.empty()) continue;
      parts[half].targets = {{0, halves[half].size}};
      part.sources.push_back({half, halves[half].size});
      halves[half].size += part.count;
      halves[half].request.parts.push_back(std::move(parts[half]));
    }
  }
  rest.inputs.assign(2, Array());
  for (std::size_t half = 0; half < 2; ++half)
    if (!halves[half].request.parts.empty())
      rest.inputs[half] = Array::empty({halves[half].size}, whole.outputs.front().dtype(), where[half]);
  return halves;
}

bool only_copies(const CollectiveRequest& request) {
  return std::ranges::all_of(request.parts, [](const CollectivePart& part) { return part.sources.size() < 2; });
}

}  // namespace

std::shared_ptr<CollectiveTask> TwoHalves::collective(CollectiveRequest request) {
  if (only_copies(request)) return inner_->collective(std::move(request));
  CollectiveRequest rest = request;
  if (request.operation == CollectiveOperation::mean) {
    rest.operation = CollectiveOperation::sum;
    for (const CollectivePart& part : request.parts)
      rest.denominator = std::max(rest.denominator, static_cast<double>(part.sources.size()));
  }
  ChainLaunch stages;
  auto halves = halves_of(first_half_, request, rest);
  for (std::size_t half = 0; half < 2; ++half) {
    if (halves[half].request.parts.empty()) continue;
    halves[half].request.outputs = {rest.inputs[half]};
    append(rest.ready, stages.add(inner_->collective(std::move(halves[half].request))));
  }
  (void)stages.add(inner_->collective(std::move(rest)));
  return stages.task();
}

void TwoHalves::regroup(std::span<const Member> members) {
  first_half_ = first_half(members);
  ++regroupings_;
  inner_->regroup(members);
}

}  // namespace tutti::testing
