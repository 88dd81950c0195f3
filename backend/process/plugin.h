// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace tutti {

/// A library of its own that holds what not every program needs, with what it depends on. It is loaded when it is
/// first asked for, and stays. It lies in the folder that TUTTI_PLUGINS names; else in one beside libtutti.so that has
/// the version in its name, or where that was installed.
class Plugin {
 public:
  /// Reach of its symbols: the plugin alone finds them, or all that is loaded later, as components of MPI.
  enum class Symbols : std::uint8_t { own, for_all };

  /// Loads the library with that file name; `trouble` says what is missing.
  explicit Plugin(const std::string& file, Symbols = Symbols::own);

  /// Address of an exported function; null, with a trouble, where there is none.
  void* function(const char* name);
  /// Says why the plugin, or a function of it, cannot be used, and where it was looked for; empty: it can.
  std::string trouble() const {
    const std::lock_guard lock(mutex_);
    return trouble_;
  }
  bool is_there() const noexcept { return is_there_; }  ///< the file is

 private:
  std::string path_;
  void* library_ = nullptr;
  bool is_there_ = false;
  mutable std::mutex mutex_;  // guards the trouble
  std::string trouble_;
};

}  // namespace tutti

#define TUTTI_PLUGIN_JOINED_2_(name, version) name##_##version
#define TUTTI_PLUGIN_JOINED_(name, version) TUTTI_PLUGIN_JOINED_2_(name, version)
#define TUTTI_PLUGIN_TEXT_2_(text) #text
#define TUTTI_PLUGIN_TEXT_(text) TUTTI_PLUGIN_TEXT_2_(text)

/// Name of a function that a plugin exports, and the text of that name. It has the library's version: a plugin of
/// another version has others, which is told before it is called.
#define TUTTI_PLUGIN_FUNCTION(name) TUTTI_PLUGIN_JOINED_(name, TUTTI_SYMBOL_VERSION)
#define TUTTI_PLUGIN_FUNCTION_NAME(name) TUTTI_PLUGIN_TEXT_(TUTTI_PLUGIN_FUNCTION(name))
