// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/replicas/together.h>

#include <tutti/backend/process/error_text.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/train/replicas/group_results.h>
#include <tutti/train/replicas/group_texts.h>
#include <tutti/train/replicas/sent_checkpoint.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tutti {
namespace {

/// Calls `work` on every process, and returns the text that it returns on the first. If it throws on any, all throw:
/// its own error where it has failed on all, else DataError naming those where it has.
std::string succeed_together(GradientSync& group, const std::string& purpose,
                             const std::function<std::string()>& work) {
  constexpr char kGood = '+';
  constexpr char kFailed = '-';
  std::exception_ptr error;
  std::string told;
  try {
    told = kGood + work();
  } catch (...) {
    error = std::current_exception();
    told = kFailed + text_of(error);
  }
  const std::vector<std::string> all = gather_from_processes(group, told, purpose);
  std::size_t failed = 0;
  std::string texts;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].front() != kFailed) continue;
    texts += fmt::format("{}rank {} failed: {}", failed == 0 ? "" : "; ", rank, all[rank].substr(1));
    ++failed;
  }
  if (failed == 0) return all.front().substr(1);
  await_gathered_from_processes(group);
  if (error && failed == all.size()) std::rethrow_exception(error);
  raise<DataError>("[checkpoint] all processes load what rank 0 reads, or none does: {}", texts);
}

using Read = std::function<std::optional<ReadCheckpoint>()>;

// What differs between processes is found before anything changes: the last step fails for lack of memory alone.
std::optional<LoadedCheckpoint> load_first(GradientSync& group, CheckpointFolder& folder, const CheckpointParts& parts,
                                           const Read& read) {
  const bool reads = group.world().first == 0;
  std::optional<ReadCheckpoint> found;
  std::string head;
  const std::string head_bytes = succeed_together(group, "the checkpoint that rank 0 reads", [&] {
    if (reads)
      found = read();
    else
      folder.wait();
    if (found) head = head_of(*found);
    return found ? std::to_string(head.size()) : "";
  });
  if (head_bytes.empty()) return {};
  succeed_together(group, "memory for what the checkpoint of rank 0 has", [&] {
    head.resize(std::stoull(head_bytes));
    return std::string();
  });
  const std::span<std::byte> of_head = std::as_writable_bytes(std::span(head));
  send_from_first(group, {&of_head, 1});
  std::vector<std::span<std::byte>> bytes;
  succeed_together(group, "memory for the checkpoint of rank 0", [&] {
    if (!reads) found = checkpoint_of_head(head);
    bytes = bytes_of_arrays(*found);
    return std::string();
  });
  send_from_first(group, bytes);
  std::function<LoadedCheckpoint()> load;
  succeed_together(group, "whether the checkpoint of rank 0 fits", [&] {
    load = folder.prepare(std::move(*found), parts);
    return std::string();
  });
  return load();
}

}  // namespace

Metrics first_of_processes(GradientSync& group, const Metrics& own) {
  return metrics_of(gather_from_processes(group, text_of_metrics(own), "the means of an evaluation").at(0));
}

std::optional<LoadedCheckpoint> load_newest_together(GradientSync& group, CheckpointFolder& folder,
                                                     const CheckpointParts& parts) {
  if (group.world().processes == 1) return folder.load_newest(parts);
  return load_first(group, folder, parts, [&] { return folder.read_newest(); });
}

LoadedCheckpoint load_together(GradientSync& group, CheckpointFolder& folder, const std::string& path,
                               const CheckpointParts& parts) {
  if (group.world().processes == 1) return folder.load(path, parts);
  return load_first(group, folder, parts, [&] { return std::optional(folder.read(path)); }).value();
}

}  // namespace tutti
