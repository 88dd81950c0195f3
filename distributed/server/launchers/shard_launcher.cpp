// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/launchers/shard_launcher.h>

#include <fmt/format.h>

#include <utility>

namespace tutti {

namespace {

constexpr std::size_t kShareAlignment = 64;  // bytes, between the shares of one result

// Nothing is exchanged: each owner keeps its own gradient.
void keep_own_sources(CollectiveRequest& request) {
  for (CollectivePart& part : request.parts)
    std::erase_if(part.sources,
                  [&](const CollectivePart::Place& source) { return source.number != part.targets.front().number; });
  request.denominator = 1.0;
}

}  // namespace

// Each device's result has the pieces that it owns of the bucket, one after the other.
ShardLauncher::Results ShardLauncher::plan_results(std::span<const GradientLayout::Place> places) const {
  const auto step = static_cast<std::int64_t>(kShareAlignment / size_of(places.front().dtype));
  Results results{{}, std::vector<std::int64_t>(shards_.devices(), 0)};
  for (const GradientLayout::Place& place : places)
    for (const ShardPlan::Piece& piece : shards_.pieces_of(place.parameter)) {
      std::int64_t& length = results.lengths[piece.owner];
      results.pieces.emplace_back(piece, length);
      length += (piece.size() + step - 1) / step * step;
    }
  return results;
}

// Arrays are numbered over all processes' devices, of which each process has its own.
std::optional<RoundResult::Reduced> ShardLauncher::launch(const Launch& launch) {
  const auto& [members, parameters, communicator, submissions, followers] = context_;
  const std::size_t devices = shards_.devices();
  const DType dtype = launch.places.front().dtype;
  const Results results = plan_results(launch.places);
  CollectiveRequest request{.denominator = launch.denominator,
                            .inputs = std::vector<Array>(launch.places.size() * devices),
                            .outputs = std::vector<Array>(devices),
                            .ready = {},
                            .parts = {},
                            .devices = members.devices(),
                            .name = fmt::format("the reduction from parameter \"{}\" on",
                                                parameters[launch.places.front().parameter.value].name),
                            .sequence = Sequence::round,
                            .dtype = dtype};
  RoundResult::Reduced reduced{.bucket = launch.places, .task = nullptr, .results = std::vector<Array>(members.size())};
  for (MemberIndex member = 0; member < members.size(); ++member)
    if (const std::int64_t length = results.lengths[members.number(member)]; length > 0)
      request.outputs[members.number(member)] = reduced.results[member] =
          Array::empty({length}, dtype, members[member].device);
  std::size_t first_input = 0;  // of the parameter
  auto next = results.pieces.begin();
  for (const GradientLayout::Place& place : launch.places) {
    for (MemberIndex member = 0; member < members.size(); ++member) {
      request.inputs[first_input + members.number(member)] = submissions.take_gradient(place.parameter, member);
      if (launch.parts[member].required) request.ready.push_back(submissions.take_ready(place.parameter, member));
    }
    for (; next != results.pieces.end() && next->first.parameter == place.parameter; ++next) {
      const auto& [piece, offset] = *next;
      CollectivePart part{piece.size(), {}, {{piece.owner, offset}}};
      for (const std::uint32_t number : launch.contributors)
        part.sources.push_back({first_input + number, piece.begin, number});
      request.parts.push_back(std::move(part));
      if (const auto own = members.place_of(piece.owner))
        reduced.shares.push_back({static_cast<MemberIndex>(*own), piece.parameter,
                                  reduced.results[*own].slice(0, offset, offset + piece.size())});
    }
    first_input += devices;
  }
  if (!communicator.enabled()) keep_own_sources(request);
  if (request.parts.empty()) request.parts.emplace_back();  // empty parameters
  reduced.task = communicator.collective(std::move(request));
  return reduced;
}

}  // namespace tutti
