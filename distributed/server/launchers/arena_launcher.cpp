// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/launchers/arena_launcher.h>

#include <tutti/distributed/collectives/gradient_sums.h>
#include <tutti/distributed/gradient_compression.h>

#include <algorithm>
#include <utility>

namespace tutti {

std::optional<RoundResult::Reduced> ArenaLauncher::launch(const Launch& launch) {
  const auto& [members, parameters, communicator, submissions, followers] = context_;
  RoundResult::Reduced reduced{.bucket = launch.places, .task = nullptr, .results = {}};
  reduced.results.resize(members.size());
  AllReduceRequest request{.slices = {},
                           .ready = {},
                           .denominator = launch.denominator,
                           .parameter = parameters[launch.places.front().parameter.value].name};
  request.slices.reserve(members.size());
  const auto wait_for = [&](Event&& event) {
    if (event.recorded()) request.ready.push_back(std::move(event));
  };
  for (MemberIndex member = 0; member < members.size(); ++member) {
    const Launch::Part part = launch.parts[member];
    if (!context_.reaches(part, member)) continue;
    reduced.results[member] =
        part.absent ? Array::empty({bucket_size(launch.places)}, launch.places.front().dtype, members[member].device)
                    : submissions.arena(member)->bucket(launch.places);
    request.slices.push_back({reduced.results[member], part.contributes, !part.absent});
    if (part.required)
      for (const GradientLayout::Place& place : launch.places)
        wait_for(submissions.take_ready(place.parameter, member));
    else if (!part.absent)
      wait_for(Event(submissions.arena_free(member)));
  }
  if (request.slices.size() < members.size() || members.outside() > 0)
    for (MemberIndex member = 0; member < members.size(); ++member)
      if (reduced.results[member].defined()) request.numbers.push_back(members.number(member));
  if (request.slices.empty() && members.outside() > 0) {  // nothing of this process, with which others reduce
    request.slices.push_back(
        {Array::empty({bucket_size(launch.places)}, launch.places.front().dtype, members[0].device), false,
         !launch.parts[0].absent});
    request.numbers.push_back(members.number(0));
  }
  if (request.slices.empty()) return std::nullopt;
  reduced.task = start(launch, reduced.results, std::move(request));
  return reduced;
}

std::shared_ptr<CollectiveTask> ArenaLauncher::start(const Launch& launch, const std::vector<Array>& results,
                                                     AllReduceRequest request) {
  request.wire = options_.wire;
  if (options_.wire != GradientWire::native && options_.reduction == GradientReduction::weighted_mean)
    request.wire_scale = weighted_wire_scale(std::ssize(launch.contributors), launch.denominator);
  if (options_.compression && context_.communicator.enabled())
    if (auto task = start_compressed(launch, results, request)) return task;
  return context_.communicator.all_reduce(std::move(request));
}

// Null: this bucket travels uncompressed.
std::shared_ptr<CollectiveTask> ArenaLauncher::start_compressed(const Launch& launch, const std::vector<Array>& results,
                                                                AllReduceRequest& request) {
  CompressionRequest compressed{.places = launch.places,
                                .members = {},
                                .denominator = launch.denominator,
                                .wire = request.wire,
                                .wire_scale = request.wire_scale};
  std::vector<Device> helping;
  for (MemberIndex member = 0; member < results.size(); ++member) {
    compressed.members.push_back({results[member], launch.parts[member].contributes});
    if (!launch.parts[member].absent) helping.push_back(context_.members[member].device);
  }
  auto reduction = options_.compression->begin(compressed);
  if (!reduction) return nullptr;
  return context_.communicator.compressed_all_reduce(std::move(reduction), std::move(request.ready),
                                                     std::move(helping));
}

}  // namespace tutti
