// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace tutti {

/// A place in a program, by the scopes around it.
struct Site {
  std::string name;
  std::shared_ptr<const Site> outer;
};
std::string to_string(const Site&);  ///< "encoder.layer3"

/// Names a place in the program while it lives: errors thrown on its thread name it, and operations recorded there
/// remember it: errors about their results name it later.
///
///   const Scope scope("layer3");
///
/// An operation pays with a count of references.
class Scope {
 public:
  [[nodiscard]] explicit Scope(std::string_view name);  ///< a place within the scope around it
  /// A place at this site, whatever scope is around it: for what runs again.
  [[nodiscard]] explicit Scope(std::shared_ptr<const Site>) noexcept;
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  static const std::shared_ptr<const Site>& site() noexcept;  ///< place of the calling thread; null: nowhere

 private:
  std::shared_ptr<const Site> site_;
  const std::shared_ptr<const Site>* outer_;
};

}  // namespace tutti
