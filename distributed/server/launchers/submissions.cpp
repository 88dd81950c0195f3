// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/server/launchers/submissions.h>

namespace tutti {

void Submissions::make_room(std::size_t parameters, bool keeps_gradients) {
  ready_.resize(parameters * arenas_.size());
  if (keeps_gradients) gradients_.resize(ready_.size());
}

void Submissions::add_elsewhere(std::size_t place, GradientRef& submitted, const SyncParameter& parameter) {
  if (parameter.sparse)
    rows_[place] = std::move(submitted.rows);
  else if (!gradients_.empty())
    gradients_[place] = std::move(submitted.gradient);
}

std::vector<SparseGradient> Submissions::take_rows(ParameterId id, MemberIndex member) {
  const auto found = rows_.extract(cell(id, member));
  return found ? std::move(found.mapped()) : std::vector<SparseGradient>();
}

void Submissions::drop_gradients() {
  for (Array& gradient : gradients_) gradient = Array();
}

void Submissions::drop() {
  for (Registered& registered : arenas_) registered.arena = nullptr;
  rows_.clear();
  drop_gradients();
}

}  // namespace tutti
