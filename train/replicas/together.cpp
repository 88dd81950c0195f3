// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/replicas/together.h>

#include <tutti/backend/error.h>
#include <tutti/backend/process/error_text.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/train/replicas/group_results.h>
#include <tutti/train/replicas/group_texts.h>

#include <exception>
#include <filesystem>
#include <string>
#include <vector>

namespace tutti {

Metrics first_of_processes(GradientSync& group, const Metrics& own) {
  return metrics_of(gather_from_processes(group, text_of_metrics(own), "the means of an evaluation").at(0));
}

// What is compared has no folders: the disk may be mounted elsewhere.
std::optional<LoadedCheckpoint> load_newest_together(GradientSync& group, CheckpointFolder& folder,
                                                     const CheckpointParts& parts) {
  if (group.world().processes == 1) return folder.load_newest(parts);
  std::optional<LoadedCheckpoint> loaded;
  std::exception_ptr error;
  std::string found = "none";
  std::string told = fmt::format("found no checkpoint in {}", folder.path());
  try {
    loaded = folder.load_newest(parts);
    if (loaded) {
      found = std::filesystem::path(loaded->path).filename().string();
      told = "loaded " + loaded->path;
    }
  } catch (...) {
    error = std::current_exception();
    found = "error";
    told = "failed: " + text_of(error);
  }
  const std::vector<std::string> all = gather_from_processes(group, found + "\n" + told, "the checkpoint to be loaded");
  const auto found_by = [&](std::size_t rank) { return all[rank].substr(0, all[rank].find('\n')); };
  bool same = true;
  std::string texts;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    same = same && found_by(rank) == found_by(0);
    texts += fmt::format("{}rank {} {}", rank == 0 ? "" : "; ", rank, all[rank].substr(all[rank].find('\n') + 1));
  }
  if (error || !same) await_gathered_from_processes(group);
  if (error && same) std::rethrow_exception(error);
  if (!same)
    raise<DataError>("[checkpoint] all processes need the same files, as on a shared disk, and differ: {}", texts);
  return loaded;
}

}  // namespace tutti
