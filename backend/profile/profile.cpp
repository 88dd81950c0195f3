// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/profile.h>

#include <tutti/backend/error.h>
#include <tutti/backend/profile/profiling_calls.h>
#include <tutti/backend/registry.h>

#include <algorithm>
#include <map>
#include <utility>

namespace tutti {

ProfiledRun Profile::begin() {
  const std::lock_guard lock(mutex_);
  const auto self = std::this_thread::get_id();
  const auto known = std::ranges::find(threads_, self);
  const auto thread = static_cast<std::size_t>(known - threads_.begin());
  if (known == threads_.end()) threads_.push_back(self);
  if (runs_.size() + open_ >= runs_.capacity()) runs_.reserve(2 * (runs_.size() + open_ + 1));
  ++open_;
  return {.thread = thread};
}

// Room for it was made when it began.
void Profile::end(ProfiledRun run) noexcept {
  const std::lock_guard lock(mutex_);
  --open_;
  runs_.push_back(std::move(run));
}

const std::vector<ProfiledRun>& Profile::runs() const {
  const std::lock_guard lock(mutex_);
  if (open_ > 0) raise_message("[profile] asked while a scope of it is on: ask when it has ended");
  return runs_;
}

class ProfiledScope::Decorator final : public BackendDecorator {
 public:
  explicit Decorator(ProfiledRun begun) : run(std::move(begun)) {}

  Backend& decorated(DeviceKind kind) override {
    auto& backend = backends_[kind];
    if (backend == nullptr) backend = profiling_calls(registered_backend(kind), run, within_);
    return *backend;
  }

  ProfiledRun run;

 private:
  bool within_ = false;
  std::map<DeviceKind, std::unique_ptr<Backend>> backends_;
};

ProfiledScope::ProfiledScope(Profile& profile) : profile_(profile) {
  if (backend_decorator() != nullptr) raise_message("[profile] this thread is profiled already: scopes do not nest");
  decorator_ = std::make_unique<Decorator>(ProfiledRun());
  decorator_->run = profile.begin();
  decorate_backends(decorator_.get());
  decorator_->run.begin = steady_now();
}

ProfiledScope::~ProfiledScope() {
  decorator_->run.duration = steady_now() - decorator_->run.begin;
  decorate_backends(nullptr);
  profile_.end(std::move(decorator_->run));
}

}  // namespace tutti
