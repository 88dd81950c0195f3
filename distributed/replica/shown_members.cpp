// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/replica/shown_members.h>

#include <fmt/format.h>

#include <string_view>
#include <unordered_map>

namespace tutti {

ShownMembers::ShownMembers(Module& replica) : place_(replica.place()) {
  for (const auto& [name, tensor] : replica.named_parameters())
    shown_.push_back({name, tensor.identity(), tensor.requires_grad()});
}

std::string ShownMembers::difference() const {
  if (!place_ || *place_ == nullptr) return {};
  const NamedTensors now = (*place_)->named_parameters();
  std::unordered_map<std::string_view, const Tensor*> by_name;
  for (const auto& [name, tensor] : now) by_name.emplace(name, &tensor);
  for (const Parameter& parameter : shown_) {
    const auto found = by_name.find(parameter.name);
    const bool there = found != by_name.end();
    if (!there && parameter.trained) return fmt::format("parameter \"{}\" is not shown any more", parameter.name);
    if (!there) continue;
    if (found->second->identity() != parameter.identity && (parameter.trained || found->second->requires_grad()))
      return fmt::format("parameter \"{}\" is another tensor", parameter.name);
    by_name.erase(found);
  }
  for (const auto& [name, tensor] : now)
    if (tensor.requires_grad() && by_name.contains(name)) return fmt::format("parameter \"{}\" was not there", name);
  return {};
}

}  // namespace tutti
