// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/checked_options.h>

#include <tutti/backend/calls/operand_checks.h>
#include <tutti/backend/log.h>
#include <tutti/backend/process/deadline.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/gradient_compression.h>
#include <tutti/distributed/report/sync_events.h>

#include <cstdlib>

namespace tutti {

namespace {

using std::chrono::milliseconds;

void refuse_unknown(const SyncOptions& options) {
  using checks::require_enumerator;
  require_enumerator("sync", "GradientReduction", options.reduction, GradientReduction::weighted_mean);
  require_enumerator("sync", "Absent", options.absent, Absent::subset);
  require_enumerator("sync", "Overlap", options.overlap, Overlap::in_backward);
  require_enumerator("sync", "BufferPolicy", options.buffers, BufferPolicy::synchronised);
  require_enumerator("sync", "GradientWire", options.wire, GradientWire::f16);
  require_enumerator("sync", "Sharding", options.sharding, Sharding::gradients);
}

}  // namespace

SyncOptions checked_options(SyncOptions options) {
  refuse_unknown(options);
  constexpr std::size_t kMostEvents = std::size_t{1} << 20U;  // 32 MiB
  options.warn_after = bounded_wait<SyncError>("sync, warn_after", options.warn_after, milliseconds(1));
  options.fail_after = bounded_wait<SyncError>("sync, fail_after", options.fail_after, milliseconds(1));
  if (options.recorded_events > kMostEvents)
    raise<SyncError>("[sync] recorded_events is {}: at most {} can be kept", options.recorded_events, kMostEvents);
  if (options.compression && options.absent == Absent::subset)
    raise<SyncError>(
        "[sync] compression needs Absent::zero: under Absent::subset what it keeps of a gradient could not reach the "
        "devices that did not require it");
  if (options.sharding != Sharding::none && options.absent == Absent::subset)
    raise<SyncError>(
        "[sync] sharding cannot be combined with Absent::subset: devices would disagree on what to update");
  if (options.sharding != Sharding::none && options.overlap != Overlap::immediate)
    raise<SyncError>(
        "[sync] sharding needs Overlap::immediate: gathered parameters would meet the next step's backward");
  if (options.sharding == Sharding::gradients && (options.compression || options.wire != GradientWire::native))
    raise<SyncError>("[sync] Sharding::gradients scatters gradients as they are: without compression, wire native");
  if (!options.warn) options.warn = [](const std::string& text) { log_message(LogLevel::warning, text); };
  if (const char* path = std::getenv("TUTTI_SYNC_DUMP"); !options.dump && path != nullptr && *path != '\0')
    options.dump = [path = std::string(path)](const std::string& text) {
      if (!append_to_file(path, text)) raise<SyncError>("[sync] cannot write the last events to {}", path);
    };
  return options;
}

void refuse_across_processes(std::span<const SyncParameter> parameters) {
  for (const SyncParameter& parameter : parameters)
    if (parameter.sparse)
      raise<SyncError>(
          "[sync] parameter \"{}\" has sparse gradients, which the engine between these processes cannot reduce: "
          "mark it dense with set_sparse_grad(false) before it is attached",
          parameter.name);
}

void prepare_transport(const SyncOptions& options, std::span<const SyncParameter> parameters,
                       const GroupMembers& members) {
  if (options.wire != GradientWire::native)
    for (const SyncParameter& parameter : parameters)
      if (parameter.dtype != DType::f32)
        raise<SyncError>("[sync] parameter \"{}\" is {}: SyncOptions::wire {} is for f32, others need native",
                         parameter.name, to_string(parameter.dtype), to_string(options.wire));
  if (options.sharding != Sharding::none)
    for (const SyncParameter& parameter : parameters)
      if (parameter.sparse)
        raise<SyncError>(
            "[sync] parameter \"{}\" has sparse gradients, which cannot be sharded: mark it dense with "
            "set_sparse_grad(false) before it is attached",
            parameter.name);
  if (options.compression) options.compression->prepare(parameters, members);
}

}  // namespace tutti
