// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/reporting/writers/line_file.h>

#include <tutti/backend/raise.h>

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace tutti {

namespace {

struct stat stat_of(int descriptor) {
  struct stat about = {};
  (void)fstat(descriptor, &about);  // of nothing known: no regular file
  return about;
}

/// Whether the path still leads to that file, in whose place a rewrite may have put another one.
bool leads_to(const std::string& path, const struct stat& file) {
  struct stat found = {};
  return stat(path.c_str(), &found) == 0 && found.st_dev == file.st_dev && found.st_ino == file.st_ino;
}

/// A file that is removed if something goes wrong.
struct Unfinished {
  const std::string& path;
  bool finished = false;

  ~Unfinished() {
    std::error_code ignored;
    if (!finished) std::filesystem::remove(path, ignored);
  }
};

}  // namespace

// Emptied only when it is known that nobody else writes it.
LineFile::File LineFile::open(const std::string& path, Mode mode, const std::string& known_as) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    errno = 0;
    File file(std::fopen(path.c_str(), "abe"));
    if (!file) raise<DataError>("[metrics] cannot open {}: {}", known_as, std::strerror(errno));
    const int descriptor = fileno(file.get());
    const struct stat about = stat_of(descriptor);
    if (!S_ISREG(about.st_mode)) return file;                                             // a terminal, a pipe
    const bool held = flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;  // some file systems have none
    if (held) raise<DataError>("[metrics] cannot open {}: another run writes it", known_as);
    if (!leads_to(path, about)) continue;  // whoever put another in its place holds that one
    if (mode == Mode::replace && ftruncate(descriptor, 0) != 0)
      raise<DataError>("[metrics] cannot empty {}: {}", known_as, std::strerror(errno));
    return file;
  }
  raise<DataError>("[metrics] cannot open {}: another file takes its place again and again", known_as);
}

void LineFile::append(std::FILE* file, const std::string& path, std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size())
    raise<DataError>("[metrics] cannot write to {}: {}", path, std::strerror(errno));
}

void LineFile::flush(std::FILE* file, const std::string& path) {
  errno = 0;
  if (std::fflush(file) != 0) raise<DataError>("[metrics] cannot write to {}: {}", path, std::strerror(errno));
}

LineFile::LineFile(std::string path, Mode mode)
    : path_(std::move(path)),
      file_(open(path_, mode, path_)),
      regular_(S_ISREG(stat_of(fileno(file_.get())).st_mode)),
      empty_(mode == Mode::replace) {}

// Whoever calls has counted the lines as written, and does not come again with them.
void LineFile::begin(const char* what) {
  if (!file_) raise<DataError>("[metrics] cannot {} {}: it is closed", what, path_);
  if (std::exchange(failed_, true))
    raise<DataError>("[metrics] cannot {} {}: an earlier change failed; open it anew", what, path_);
}

void LineFile::write(std::string_view lines) {
  begin("write to");
  empty_ = false;
  append(file_.get(), path_, lines);
  flush(file_.get(), path_);
  failed_ = false;
}

void LineFile::rewrite(const std::function<std::optional<std::string>(std::string_view)>& edit) {
  begin("rewrite");
  if (empty_ || !regular_) {
    failed_ = false;
    return;
  }
  const struct stat about = stat_of(fileno(file_.get()));
  if (!leads_to(path_, about)) raise<DataError>("[metrics] cannot rewrite {}: it was moved or replaced", path_);
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path_, error);  // a link stays one
  if (error) raise<DataError>("[metrics] cannot read {}: {}", path_, error.message());
  const std::string edited = target.string() + ".new";
  File to = open(edited, Mode::replace, path_);
  Unfinished unfinished{edited};
  (void)fchmod(fileno(to.get()), about.st_mode);  // as it was, where that may be
  std::ifstream from(path_, std::ios::binary);
  for (std::string line; std::getline(from, line) && !from.eof();)  // at the end: no '\n' behind the line
    if (auto text = edit(line)) append(to.get(), path_, text->append("\n"));
  if (from.bad() || !from.is_open()) raise<DataError>("[metrics] cannot read {}", path_);
  flush(to.get(), path_);
  std::filesystem::rename(edited, target, error);
  if (error) raise<DataError>("[metrics] cannot replace {}: {}", path_, error.message());
  unfinished.finished = true;
  file_ = std::move(to);
  failed_ = false;
}

}  // namespace tutti
