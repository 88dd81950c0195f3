// SPDX-License-Identifier: Apache-2.0
// What the server does with shares: gradients reduced to their owners alone, and updated parameters gathered from them.
// Everything here runs while the mailbox is drained: on one thread at a time.
#include <tutti/distributed/sync_server.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

constexpr std::size_t kAlignment = 64;  // bytes, between the shares of one result

}  // namespace

// Reduced from where each device made them into memory of the owners' own, the size of what they own: the engine holds
// the last references to the gradients themselves, and they go back to their pools bucket by bucket.
void DistributedSyncServer::scatter(const Launch& launch) {
  const std::size_t members = devices_.size();
  const DType dtype = launch.places.front().dtype;
  const auto step = static_cast<std::int64_t>(kAlignment / size_of(dtype));
  CollectiveRequest request;
  request.denominator = launch.denominator;
  request.devices = devices_;
  request.name = fmt::format("the reduction from parameter {} on", names().parameter(launch.places.front().parameter));
  std::vector<std::int64_t> lengths(members, 0);
  std::vector<std::pair<ShardPlan::Piece, std::int64_t>> owned;  // and its offset in its owner's result
  for (const GradientLayout::Place& place : launch.places)
    for (const ShardPlan::Piece& piece : shards_->pieces_of(place.parameter)) {
      owned.emplace_back(piece, lengths[piece.owner]);
      lengths[piece.owner] += (piece.size() + step - 1) / step * step;
    }
  RoundResult::Reduced reduced{.bucket = launch.places, .task = nullptr, .results = std::vector<Array>(members)};
  for (MemberIndex member = 0; member < members; ++member)
    if (lengths[member] > 0) reduced.results[member] = Array::empty({lengths[member]}, dtype, devices_[member]);
  request.outputs = reduced.results;
  std::size_t first_input = 0;  // of the parameter
  auto next = owned.begin();
  for (const GradientLayout::Place& place : launch.places) {
    for (MemberIndex member = 0; member < members; ++member) {
      const std::size_t cell = place.parameter.value * members + member;
      request.inputs.push_back(std::exchange(submitted_[cell], {}));
      if (launch.parts[member].required) request.ready.push_back(std::move(ready_[cell]));
    }
    for (; next != owned.end() && next->first.parameter == place.parameter; ++next) {
      const auto& [piece, offset] = *next;
      CollectivePart part{piece.size(), {}, {{piece.owner, offset}}};
      for (MemberIndex member = 0; member < members; ++member)
        if (launch.parts[member].contributes) part.sources.push_back({first_input + member, piece.begin});
      request.parts.push_back(std::move(part));
      reduced.shares.push_back(
          {piece.owner, piece.parameter, reduced.results[piece.owner].slice(0, offset, offset + piece.size())});
    }
    first_input += members;
  }
  launch_scattered(launch, std::move(reduced), std::move(request));
}

void DistributedSyncServer::launch_scattered(const Launch& launch, RoundResult::Reduced reduced,
                                             CollectiveRequest request) {
  // Nothing is exchanged: each owner keeps its own gradient.
  if (!communicator_->enabled())
    for (CollectivePart& part : request.parts)
      std::erase_if(part.sources, [&](const CollectivePart::Place& source) {
        return source.member % devices_.size() != part.targets.front().member;
      });
  if (!communicator_->enabled()) request.denominator = 1.0;
  if (request.parts.empty()) request.parts.emplace_back();  // empty parameters
  const auto launched_at = CollectiveTask::Clock::now();    // before: another thread may finish it at once
  reduced.task = communicator_->collective(std::move(request));
  recorder_.launched(launch.generation, launch.places, reduced.task, launched_at);
  round_->reduced.push_back(std::move(reduced));
}

// In place: in the members' parameters, each of which is read by its owner and written by nobody else.
void DistributedSyncServer::launch_gather() {
  if (!ledger_) open_ledger();
  CollectiveRequest request;
  const std::vector<ParameterId>& parameters = collectives_.front().front().parameters;
  for (const auto& posted : collectives_) {
    const PostCollective& message = posted.front();
    request.inputs.insert(request.inputs.end(), message.arrays.begin(), message.arrays.end());
    request.ready.push_back(message.ready);
  }
  request.outputs = request.inputs;
  request.devices = devices_;
  request.name = "the gathering of updated parameters";
  for (std::size_t index = 0; index < parameters.size(); ++index)
    for (const ShardPlan::Piece& piece : shards_->pieces_of(parameters[index])) {
      CollectivePart part{piece.size(), {{piece.owner * parameters.size() + index, piece.begin}}, {}};
      for (MemberIndex member = 0; member < devices_.size(); ++member)
        if (member != piece.owner) part.targets.push_back({member * parameters.size() + index, piece.begin});
      request.parts.push_back(std::move(part));
    }
  auto result = std::make_shared<CollectiveResult>();
  result->task = communicator_->collective(std::move(request));
  answer_collective(std::vector<std::shared_ptr<CollectiveResult>>(devices_.size(), result));
}

}  // namespace tutti
