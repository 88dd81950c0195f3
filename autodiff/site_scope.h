// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/autodiff/scope.h>

#include <memory>

namespace tutti {

/// While one lives on a thread, that is at `site` (null: nowhere), whatever Scope is around it: for what runs again.
class SiteScope {
 public:
  explicit SiteScope(std::shared_ptr<const Site> site);
  ~SiteScope();
  SiteScope(const SiteScope&) = delete;
  SiteScope& operator=(const SiteScope&) = delete;

 private:
  std::shared_ptr<const Site> site_;
  const Scope* outer_;
  const std::shared_ptr<const Site>* outer_base_;
};

}  // namespace tutti
