// SPDX-License-Identifier: Apache-2.0
#include <tutti/autodiff/scope.h>

#include <tutti/backend/error.h>

#include <utility>

namespace tutti {

namespace {

const std::shared_ptr<const Site> kNowhere;
constinit thread_local const std::shared_ptr<const Site>* here = &kNowhere;

std::string place_of_thread() { return *here ? to_string(**here) : std::string(); }

}  // namespace

std::string to_string(const Site& site) { return site.outer ? to_string(*site.outer) + "." + site.name : site.name; }

Scope::Scope(std::string_view name) : Scope(std::make_shared<const Site>(Site{std::string(name), site()})) {}

Scope::Scope(std::shared_ptr<const Site> site) noexcept : site_(std::move(site)), outer_(std::exchange(here, &site_)) {
  detail::place_of_thread.store(&place_of_thread, std::memory_order_relaxed);
}

Scope::~Scope() { here = outer_; }

const std::shared_ptr<const Site>& Scope::site() noexcept { return *here; }

}  // namespace tutti
