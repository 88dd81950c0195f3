// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/launchers/shard_launcher.h>

#include <fmt/format.h>

#include <utility>

namespace tutti {

namespace {

constexpr std::size_t kShareAlignment = 64;  // bytes, between the shares of one result

// Nothing is exchanged: each owner keeps its own gradient.
void keep_own_sources(CollectiveRequest& request, std::size_t members) {
  for (CollectivePart& part : request.parts)
    std::erase_if(part.sources, [&](const CollectivePart::Place& source) {
      return source.member % members != part.targets.front().member;
    });
  request.denominator = 1.0;
}

}  // namespace

std::optional<RoundResult::Reduced> ShardLauncher::launch(const Launch& launch) {
  const auto& [group, parameters, communicator, submissions, followers] = context_;
  const std::size_t members = group.size();
  const DType dtype = launch.places.front().dtype;
  const auto step = static_cast<std::int64_t>(kShareAlignment / size_of(dtype));
  CollectiveRequest request;
  request.denominator = launch.denominator;
  request.devices = group.devices();
  request.name =
      fmt::format("the reduction from parameter \"{}\" on", parameters[launch.places.front().parameter.value].name);
  std::vector<std::int64_t> lengths(members, 0);
  std::vector<std::pair<ShardPlan::Piece, std::int64_t>> owned;  // and its offset in its owner's result
  for (const GradientLayout::Place& place : launch.places)
    for (const ShardPlan::Piece& piece : shards_.pieces_of(place.parameter)) {
      owned.emplace_back(piece, lengths[piece.owner]);
      lengths[piece.owner] += (piece.size() + step - 1) / step * step;
    }
  RoundResult::Reduced reduced{.bucket = launch.places, .task = nullptr, .results = std::vector<Array>(members)};
  for (MemberIndex member = 0; member < members; ++member)
    if (lengths[member] > 0) reduced.results[member] = Array::empty({lengths[member]}, dtype, group[member].device);
  request.outputs = reduced.results;
  std::size_t first_input = 0;  // of the parameter
  auto next = owned.begin();
  for (const GradientLayout::Place& place : launch.places) {
    for (MemberIndex member = 0; member < members; ++member) {
      request.inputs.push_back(submissions.take_gradient(place.parameter, member));
      if (launch.parts[member].required) request.ready.push_back(submissions.take_ready(place.parameter, member));
    }
    for (; next != owned.end() && next->first.parameter == place.parameter; ++next) {
      const auto& [piece, offset] = *next;
      CollectivePart part{piece.size(), {}, {{piece.owner, offset}}};
      for (MemberIndex member = 0; member < members; ++member)
        if (launch.parts[member].contributes) part.sources.push_back({first_input + member, piece.begin, member});
      request.parts.push_back(std::move(part));
      reduced.shares.push_back(
          {piece.owner, piece.parameter, reduced.results[piece.owner].slice(0, offset, offset + piece.size())});
    }
    first_input += members;
  }
  if (!communicator.enabled()) keep_own_sources(request, members);
  if (request.parts.empty()) request.parts.emplace_back();  // empty parameters
  reduced.task = communicator.collective(std::move(request));
  return reduced;
}

}  // namespace tutti
