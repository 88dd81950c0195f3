// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/process_mark.h>
#include <tutti/exchange/files/file_descriptor.h>
#include <tutti/train/checkpoints/checkpoint_files.h>
#include <tutti/train/checkpoints/checkpoint_parts.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

/// Moment of a run: what it has just completed.
enum class CheckpointMoment : std::uint8_t { step, epoch, window, end };

struct CheckpointFolderOptions {
  // --- when CheckpointFolder::save_if_due saves; 0: never
  std::int64_t every_steps = 0;
  std::int64_t every_epochs = 0;
  std::int64_t every_windows = 0;
  bool at_end = true;

  std::int64_t max_to_keep = 5;      ///< the newest; 0: all
  std::size_t save_concurrency = 4;  ///< files of a checkpoint, each written by a thread of its own
  /// False: `save` returns when the checkpoint is on the disk. On Linux, threads in the background run at a lower
  /// priority (nice 10 more).
  bool background = true;
  /// Behaviour of `save` while the checkpoint before it is being written.
  enum class Busy : std::uint8_t { wait, skip } busy = Busy::wait;
  CheckpointCopies copies = CheckpointCopies::on_device;  ///< place where the copies wait to be written
  CheckpointFilter save_filter = {};
  CheckpointFilter load_filter = {};
  /// Behaviour of `load_newest` with a damaged checkpoint.
  enum class Damaged : std::uint8_t { load_older, fail } damaged = Damaged::load_older;
  /// Hears of damaged checkpoints that are passed over, and of errors that nobody is there to catch. By default the
  /// log sink (backend/log.h). Called by any thread.
  std::function<void(const std::string&)> report = {};
};

struct LoadedCheckpoint {
  std::string path;  ///< place of its files, for a learner of several processes on the first one's disk
  CheckpointProgress progress;
  std::vector<std::string> unused_parts;  ///< parts that it has and nobody asked for
  std::vector<std::string> damaged;       ///< newer ones that were passed over, and why
  bool complete = true;                   ///< no array was left out by a filter when it was saved
};

/// A checkpoint that was read, of which nothing is loaded yet.
struct ReadCheckpoint {
  std::string path;
  CheckpointContents contents;
  std::vector<std::string> damaged;  ///< newer ones that were passed over, and why
  bool own = false;                  ///< true: it lies in the folder that has read it
};

/// The checkpoints of a training run, each a folder in this one, numbered in the order of writing:
///
///     checkpoint-00000017-step-1200/
///       manifest.json               progress, texts of the parts, files with sizes and checksums
///       tensors-0.safetensors ...   arrays "<part>/<array>"
///
/// A checkpoint is written under another name, forced to the disk and renamed: a crash leaves all checkpoints that were
/// there, and a leftover that the next save removes. Nothing is ever overwritten. One object writes to a folder at a
/// time (it holds the file .lock); any number of programs may read.
///
/// Used by one thread at a time. Functions throw DataError naming the file.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string path, CheckpointFolderOptions = {});  ///< made by the first save
  ~CheckpointFolder();  ///< waits for the checkpoint that is being written; its error goes to `report`
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  /// Makes the folder and holds it from now on, as the first save would: for who writes other files there. Throws
  /// DataError if another holds it, or it cannot be written.
  void claim();

  /// Copies the parts' state and writes it in the background. Throws the error of the save before, once, and saves
  /// nothing then. False: skipped (Busy::skip).
  bool save(const CheckpointParts&, const CheckpointProgress&);
  /// Saves if the options want a checkpoint at this moment and the last one saved or loaded is not of the same
  /// progress. For Moment::epoch and window the progress counts what has just ended.
  bool save_if_due(CheckpointMoment, const CheckpointParts&, const CheckpointProgress&);
  bool due(CheckpointMoment, const CheckpointProgress&) const noexcept;
  void wait();  ///< waits until the last save is on the disk; throws its error, once

  const std::string& path() const noexcept { return path_; }
  const CheckpointFolderOptions& options() const noexcept { return options_; }
  std::vector<std::string> paths() const;  ///< paths of the checkpoints, the oldest first; damaged ones too

  /// Loads the newest checkpoint that is whole. Nothing: there is none. Throws DataError when all are damaged (or the
  /// newest one, with Damaged::fail, naming the newest that is good), and when the newest good one does not fit the
  /// parts. Nothing is changed then.
  std::optional<LoadedCheckpoint> load_newest(const CheckpointParts&);
  /// Loads just this one, of any folder; the same errors.
  LoadedCheckpoint load(const std::string& path, const CheckpointParts&);

  // --- the halves of load_newest and load, for who does something between them

  std::optional<ReadCheckpoint> read_newest();   ///< reads what load_newest loads
  ReadCheckpoint read(const std::string& path);  ///< reads what `load` loads
  /// Checks that it fits the parts, with the errors of `load`. The result, for one call, loads it.
  std::function<LoadedCheckpoint()> prepare(ReadCheckpoint, const CheckpointParts&);

 private:
  struct Entry {
    std::int64_t number = 0;
    std::string path;
  };
  std::vector<Entry> entries() const;
  void refuse_damaged(const std::vector<Entry>&, std::size_t position, const std::string& why) const;
  void begin_writing();
  void remove_old() const;
  void report(const std::string&) const noexcept;
  void refuse_parents_writer();

  const std::string path_;
  const CheckpointFolderOptions options_;
  std::optional<FolderLock> lock_;
  std::optional<CheckpointProgress> last_;  // saved or loaded
  OfProcess<std::future<void>> in_flight_;
};

}  // namespace tutti
