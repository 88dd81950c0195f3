// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/checkpoints/checkpoint_folder.h>

#include <tutti/backend/log.h>
#include <tutti/backend/process/start_thread.h>
#include <tutti/backend/raise.h>

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <utility>

namespace tutti {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kStep = "-step-";

/// The number of a checkpoint's folder; nothing for other names.
std::optional<std::int64_t> number_of(std::string_view name) {
  const auto read = [&](std::string_view before) -> std::optional<std::int64_t> {
    if (!name.starts_with(before)) return {};
    name.remove_prefix(before.size());
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
    if (error != std::errc() || value < 0) return {};
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
    return value;
  };
  const auto number = read(kPrefix);
  if (!number || !read(kStep) || !name.empty()) return {};
  return number;
}

/// This thread, and those that it starts, come after the training, which else would share its processors with the
/// writers evenly from the moment they are started: before `save` has returned.
void give_way() noexcept {
#ifdef __linux__              // elsewhere it would be the whole process
  constexpr int kLater = 10;  // about a tenth of what a thread of the training gets, where all processors are busy
  [[maybe_unused]] const int priority = nice(kLater);
#endif
}

bool is_multiple(std::int64_t count, std::int64_t every) { return every > 0 && count > 0 && count % every == 0; }

}  // namespace

CheckpointFolder::CheckpointFolder(std::string path, CheckpointFolderOptions options)
    : path_(std::move(path)), options_(std::move(options)) {
  if (options_.max_to_keep < 0) raise("[checkpoint] {} checkpoints cannot be kept", options_.max_to_keep);
  for (const auto& [name, every] :
       {std::pair("every_steps", options_.every_steps), std::pair("every_epochs", options_.every_epochs),
        std::pair("every_windows", options_.every_windows)})
    if (every < 0) raise("[checkpoint] {} is {}: below 0", name, every);
}

CheckpointFolder::~CheckpointFolder() {
  if (!in_flight_.here()) return;
  try {
    wait();
  } catch (const std::exception& error) {
    report(error.what());
  }
}

void CheckpointFolder::report(const std::string& message) const noexcept try {
  if (options_.report)
    options_.report(message);
  else
    log_message(LogLevel::error, message);
} catch (...) {  // it is told, it does not decide
}

std::vector<CheckpointFolder::Entry> CheckpointFolder::entries() const try {
  std::vector<Entry> found;
  if (!fs::exists(path_)) return found;
  for (const auto& entry : fs::directory_iterator(path_))
    if (const auto number = number_of(entry.path().filename().string())) found.push_back({*number, entry.path()});
  std::ranges::sort(found, {}, &Entry::number);
  return found;
} catch (const fs::filesystem_error& error) {
  raise<DataError>("[checkpoint] {} cannot be read: {}", path_, error.what());
}

std::vector<std::string> CheckpointFolder::paths() const {
  std::vector<std::string> result;
  for (Entry& entry : entries()) result.push_back(std::move(entry.path));
  return result;
}

// --- saving

bool CheckpointFolder::due(CheckpointMoment moment, const CheckpointProgress& progress) const noexcept {
  switch (moment) {
    case CheckpointMoment::step: return is_multiple(progress.step, options_.every_steps);
    case CheckpointMoment::epoch: return is_multiple(progress.epoch, options_.every_epochs);
    case CheckpointMoment::window: return is_multiple(progress.window, options_.every_windows);
    case CheckpointMoment::end: return options_.at_end;
  }
  return false;
}

bool CheckpointFolder::save_if_due(CheckpointMoment moment, const CheckpointParts& parts,
                                   const CheckpointProgress& progress) {
  if (!due(moment, progress) || last_ == progress) return false;
  if (moment == CheckpointMoment::end) wait();  // the last one is not to be skipped
  return save(parts, progress);
}

bool CheckpointFolder::save(const CheckpointParts& parts, const CheckpointProgress& progress) {
  if (std::min({progress.step, progress.epoch, progress.window}) < 0)
    raise<Error>("[checkpoint] {}: a checkpoint of step {}, epoch {}, window {}: none may be below 0", path_,
                 progress.step, progress.epoch, progress.window);
  refuse_parents_writer();
  if (options_.busy == CheckpointFolderOptions::Busy::skip && in_flight_->valid() &&
      in_flight_->wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return false;
  wait();
  begin_writing();
  const std::vector<Entry> before = entries();
  const std::int64_t number = before.empty() ? 1 : before.back().number + 1;
  const std::string path = fmt::format("{}/{}{:08}{}{}", path_, kPrefix, number, kStep, progress.step);
  CheckpointContents contents{progress, parts.save(options_.save_filter, options_.copies)};
  *in_flight_ = with_new_thread("checkpoint", [&] {
    return std::async(std::launch::async, [this, path, contents = std::move(contents)]() mutable {
      if (options_.background) give_way();
      write_checkpoint_folder(path, std::exchange(contents, {}), options_.save_concurrency);
      remove_old();
    });
  });
  last_ = progress;
  if (!options_.background) wait();
  return true;
}

// In a child process it would be waited for for ever.
void CheckpointFolder::refuse_parents_writer() {
  if (!in_flight_.here() && in_flight_->valid())
    raise("[checkpoint] the writer of {} {}", path_, in_flight_.elsewhere_text());
  in_flight_.renew();
}

void CheckpointFolder::wait() {
  refuse_parents_writer();
  if (!in_flight_->valid()) return;
  try {
    in_flight_->get();
  } catch (...) {
    last_.reset();
    throw;
  }
}

void CheckpointFolder::claim() try {
  if (lock_) return;
  if (fs::create_directories(path_)) flush_name_to_disk(path_);
  lock_.emplace(path_);
} catch (const fs::filesystem_error& error) {
  raise<DataError>("[checkpoint] {} cannot be written: {}", path_, error.code().message());
}

// Whatever is unfinished here is of a writer that is no more.
void CheckpointFolder::begin_writing() try {
  claim();
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kUnfinishedSuffix)) fs::remove_all(entry.path());
  }
} catch (const fs::filesystem_error& error) {
  raise<DataError>("[checkpoint] {} cannot be written: {}", path_, error.code().message());
}

// The newest is the one that was just written.
void CheckpointFolder::remove_old() const {
  if (options_.max_to_keep == 0) return;
  const std::vector<Entry> kept = entries();
  const auto keep = static_cast<std::size_t>(options_.max_to_keep);
  for (std::size_t i = 0; i + keep < kept.size(); ++i) {
    try {
      remove_checkpoint_folder(kept[i].path);
    } catch (const DataError& error) {
      report(error.what());
    }
  }
}

// --- loading

std::optional<LoadedCheckpoint> CheckpointFolder::load_newest(const CheckpointParts& parts) {
  std::optional<ReadCheckpoint> found = read_newest();
  if (!found) return {};
  return prepare(std::move(*found), parts)();
}

LoadedCheckpoint CheckpointFolder::load(const std::string& path, const CheckpointParts& parts) {
  return prepare(read(path), parts)();
}

std::function<LoadedCheckpoint()> CheckpointFolder::prepare(ReadCheckpoint found, const CheckpointParts& parts) {
  PartStates& states = found.contents.parts;
  const bool complete = std::ranges::all_of(states, [](const auto& part) { return part.second.left_out.empty(); });
  CheckpointParts::Prepared prepared = parts.prepare(std::move(states), options_.load_filter, found.path);
  LoadedCheckpoint loaded{std::move(found.path), found.contents.progress, std::move(prepared.unused),
                          std::move(found.damaged), complete};
  return [this, own = found.own, install = std::move(prepared.install), loaded = std::move(loaded)] {
    install();
    last_ = own ? std::optional(loaded.progress) : std::nullopt;  // another folder's is not saved here
    return loaded;
  };
}

ReadCheckpoint CheckpointFolder::read(const std::string& path) {
  wait();
  ReadCheckpoint found{path, read_checkpoint_folder(path), {}, false};
  found.own = std::ranges::any_of(entries(), [&](const Entry& entry) {
    std::error_code ignored;
    return fs::equivalent(entry.path, path, ignored);
  });
  return found;
}

std::optional<ReadCheckpoint> CheckpointFolder::read_newest() {
  wait();
  const std::vector<Entry> found = entries();
  std::vector<std::string> damaged;
  for (std::size_t i = found.size(); i-- > 0;) {
    try {
      CheckpointContents contents = read_checkpoint_folder(found[i].path);
      return ReadCheckpoint{found[i].path, std::move(contents), std::move(damaged), true};
    } catch (const DataError& error) {
      damaged.emplace_back(error.what());
      if (options_.damaged == CheckpointFolderOptions::Damaged::fail) refuse_damaged(found, i, damaged.back());
      report(fmt::format("[checkpoint] {} is passed over: {}", found[i].path, error.what()));
    }
  }
  if (!damaged.empty())
    raise<DataError>("[checkpoint] all {} checkpoints in {} are damaged:\n{}", damaged.size(), path_,
                     fmt::join(damaged, "\n"));
  return {};
}

// Offers an older one.
void CheckpointFolder::refuse_damaged(const std::vector<Entry>& found, std::size_t position,
                                      const std::string& why) const {
  const auto is_whole = [](const Entry& entry) {
    try {
      read_checkpoint_folder(entry.path);
      return true;
    } catch (const DataError&) {
      return false;
    }
  };
  for (std::size_t i = position; i-- > 0;)
    if (is_whole(found[i])) raise<DataError>("{}; the newest whole checkpoint is {}", why, found[i].path);
  raise<DataError>("{}; there is no older one that is whole", why);
}

}  // namespace tutti
