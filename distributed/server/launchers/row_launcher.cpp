// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/launchers/row_launcher.h>

#include <memory>
#include <utility>

namespace tutti {

std::optional<RoundResult::Reduced> RowLauncher::launch(const Launch& launch) {
  const auto& [members, parameters, communicator, submissions, followers] = context_;
  const ParameterId id = launch.places.front().parameter;
  auto result = std::make_shared<SparseResult>();
  result->receives.resize(members.size());
  result->gradients.resize(members.size());
  SparseReduction request{.parameter = parameters[id.value],
                          .contributions = {},
                          .receivers = members.devices(),
                          .ready = {},
                          .denominator = launch.denominator,
                          .result = result,
                          .world = members.world()};
  bool any = false;
  for (MemberIndex member = 0; member < members.size(); ++member) {
    const Launch::Part part = launch.parts[member];
    if (part.contributes) {
      request.contributions.push_back({members[member], members.number(member), submissions.take_rows(id, member)});
      request.ready.push_back(submissions.take_ready(id, member));
    }
    result->receives[member] = context_.reaches(part, member);
    any |= result->receives[member];
    if (!communicator.enabled() && part.contributes)
      result->gradients[member] = request.contributions.back().parts.get();  // each keeps its own
  }
  if (!any && members.outside() == 0) return std::nullopt;  // others reduce with this process
  RoundResult::Reduced reduced{.bucket = launch.places, .task = nullptr, .results = {}, .sparse = std::move(result)};
  reduced.task = communicator.reduce_sparse(std::move(request));
  return reduced;
}

}  // namespace tutti
