// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/scope.h>

#include <tutti/autodiff/site_scope.h>

#include <utility>

namespace tutti {

namespace {

constinit thread_local const Scope* innermost = nullptr;
const std::shared_ptr<const Site> kNowhere;
constinit thread_local const std::shared_ptr<const Site>* base = &kNowhere;  // where it is outside all scopes

}  // namespace

std::string to_string(const Site& site) { return site.outer ? to_string(*site.outer) + "." + site.name : site.name; }

Scope::Scope(std::string_view name)
    : site_(std::make_shared<const Site>(Site{std::string(name), site()})), outer_(std::exchange(innermost, this)) {}

Scope::~Scope() { innermost = outer_; }

SiteScope::SiteScope(std::shared_ptr<const Site> site)
    : site_(std::move(site)), outer_(std::exchange(innermost, nullptr)), outer_base_(std::exchange(base, &site_)) {}

SiteScope::~SiteScope() {
  innermost = outer_;
  base = outer_base_;
}

const std::shared_ptr<const Site>& Scope::site() noexcept { return innermost != nullptr ? innermost->site_ : *base; }

}  // namespace tutti
