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

/// While one lives on a thread, operations recorded there remember it, and errors about them name it:
///
///   const Scope scope("layer3");
///
/// An operation pays with a count of references.
class Scope {
 public:
  explicit Scope(std::string_view name);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  static const std::shared_ptr<const Site>& site() noexcept;  ///< where the calling thread is; null: nowhere

 private:
  std::shared_ptr<const Site> site_;
  const Scope* outer_;
};

}  // namespace tutti
