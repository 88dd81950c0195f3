// SPDX-License-Identifier: Apache-2.0
// Sparse gradients: the ledger treats them as any others; here they are checked and handed to the engine. All runs
// while the mailbox is drained.
#include <tutti/distributed/sync_server.h>

#include <tutti/backend/error.h>

#include <utility>

namespace tutti {

namespace {

// Where the contents are there. Else the reduction finds out; so it does what failed on the stream that made them.
std::optional<std::int64_t> known_index_out_of_range(const GradientRef& gradient, const SyncParameter& parameter) {
  try {
    if (gradient.ready.recorded() && !gradient.ready.ready()) return std::nullopt;
    if (gradient.ready.recorded()) gradient.ready.synchronize();
  } catch (...) {
    return std::nullopt;
  }
  for (const SparseGradient& part : gradient.rows)
    if (const auto index = index_out_of_range(part, parameter)) return index;
  return std::nullopt;
}

std::optional<std::string> fault_of(const GradientRef& gradient, const SyncParameter& parameter, Device device) {
  if (!parameter.sparse) return "a sparse gradient in place of a dense one";
  if (gradient.gradient.defined())
    return fmt::format("a dense gradient {} in place of a sparse one", to_string(gradient.gradient.shape()));
  for (const SparseGradient& part : gradient.rows)
    if (auto misfit = misfit_of(part, parameter, device)) return misfit;
  if (device.kind != DeviceKind::cpu) return std::nullopt;  // what is in it is the device's to read
  if (const auto index = known_index_out_of_range(gradient, parameter))
    return fmt::format("index {} of {} rows", *index, parameter.shape[0]);
  return std::nullopt;
}

}  // namespace

bool DistributedSyncServer::refuse_sparse_misfit(const SubmitGradient& message) {
  const auto [member, group, generation] = message.stamp;
  const auto fault = fault_of(*message.elsewhere, parameters_[message.parameter.value], devices_[member]);
  if (!fault) return false;
  fail_group(
      {.kind = Fault::Kind::wrong_rows, .member = member, .generation = generation, .parameter = message.parameter},
      nullptr, *fault);
  return true;
}

std::vector<SparseGradient> DistributedSyncServer::take_rows(ParameterId id, MemberIndex member) {
  const auto found = rows_.extract(id.value * devices_.size() + member);
  return found ? std::move(found.mapped()) : std::vector<SparseGradient>();
}

// Devices that receive need no memory ready: the task makes it, when it knows how many rows there are.
void DistributedSyncServer::perform_sparse(const Launch& launch) {
  const ParameterId id = launch.places.front().parameter;
  auto result = std::make_shared<SparseResult>();
  result->receives.resize(devices_.size());
  result->gradients.resize(devices_.size());
  SparseReduction request{.parameter = parameters_[id.value],
                          .contributions = {},
                          .receivers = devices_,
                          .ready = {},
                          .denominator = launch.denominator,
                          .result = result};
  bool any = false;
  for (MemberIndex member = 0; member < devices_.size(); ++member) {
    const Launch::Part part = launch.parts[member];
    if (part.contributes) {
      request.contributions.push_back({devices_[member], take_rows(id, member)});
      request.ready.push_back(std::move(ready_[id.value * devices_.size() + member]));
    }
    result->receives[member] =
        part.receives && (!part.absent || follows_[member]) && (part.contributes || communicator_->enabled());
    any |= result->receives[member];
    if (!communicator_->enabled() && part.contributes)
      result->gradients[member] = request.contributions.back().parts;  // each keeps its own
  }
  if (!any) return;
  const auto launched_at = CollectiveTask::Clock::now();  // before: another thread may finish it at once
  RoundResult::Reduced reduced{.bucket = launch.places, .task = nullptr, .results = {}, .sparse = result};
  reduced.task = communicator_->reduce_sparse(std::move(request));
  recorder_.launched(launch.generation, launch.places, reduced.task, launched_at);
  if (options_.overlap == Overlap::in_backward) launched_.append(reduced);
  round_->reduced.push_back(std::move(reduced));
}

}  // namespace tutti
