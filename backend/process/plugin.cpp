// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/process/plugin.h>

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

namespace tutti {

namespace {

/// Folders in which plugins are looked for, in this order.
std::vector<std::string> folders() {
  if (const char* const named = secure_getenv("TUTTI_PLUGINS"); named != nullptr && *named != '\0') return {named};
  std::vector<std::string> all;
  Dl_info library{};
  // Where the library lies now: its files may have been moved since they were installed. A program has none beside it.
  if (dladdr(reinterpret_cast<const void*>(&folders), &library) != 0 && library.dli_fname != nullptr) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::canonical(library.dli_fname, error);
    std::filesystem::path folder = path.parent_path();
    // A library for processors of a higher level: glibc-hwcaps/x86-64-v3/libtutti.so.0.1.
    if (folder.parent_path().filename() == "glibc-hwcaps") folder = folder.parent_path().parent_path();
    if (path.filename().string().starts_with("libtutti.")) all.push_back(folder / TUTTI_PLUGIN_SUBFOLDER);
  }
  if (std::ranges::find(all, TUTTI_PLUGIN_FOLDER) == all.end()) all.emplace_back(TUTTI_PLUGIN_FOLDER);
  return all;
}

std::string last_trouble() {
  const char* const text = dlerror();
  return text == nullptr ? "no reason was told" : text;
}

}  // namespace

Plugin::Plugin(const std::string& file, Symbols symbols) {
  const std::vector<std::string> looked = folders();
  for (const std::string& folder : looked) {
    path_ = folder + "/" + file;
    is_there_ = access(path_.c_str(), F_OK) == 0;
    if (is_there_) break;
  }
  if (!is_there_) {
    trouble_ =
        fmt::format("there is no {} in {} (TUTTI_PLUGINS names another folder)", file, fmt::join(looked, " or "));
    return;
  }
  library_ = dlopen(path_.c_str(), RTLD_NOW | (symbols == Symbols::for_all ? RTLD_GLOBAL : RTLD_LOCAL));
  if (library_ == nullptr) trouble_ = fmt::format("{} cannot be loaded: {}", path_, last_trouble());
}

void* Plugin::function(const char* name) {
  const std::lock_guard lock(mutex_);
  if (library_ == nullptr) return nullptr;
  void* const found = dlsym(library_, name);
  if (found == nullptr) trouble_ = fmt::format("{} is of another version: {}", path_, last_trouble());
  return found;
}

}  // namespace tutti
