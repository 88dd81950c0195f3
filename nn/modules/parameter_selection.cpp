// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/parameter_selection.h>

#include <tutti/backend/raise.h>

#include <algorithm>

namespace tutti {
namespace {

[[noreturn]] void refuse(std::string_view pattern, std::string_view why, const NamedTensors& parameters) {
  std::string names;
  for (const auto& [name, tensor] : parameters) names.append(names.empty() ? "" : ", ").append(name);
  raise("[parameters] \"{}\" {}; the module has {}", pattern, why, names.empty() ? "none" : names);
}

}  // namespace

bool name_matches(std::string_view name, std::string_view pattern) noexcept {
  std::size_t at = 0;
  std::size_t place = 0;
  std::size_t star = std::string_view::npos;  // the last one met
  std::size_t resume = 0;                     // where in the name what follows it was tried last
  while (at < name.size()) {
    if (place < pattern.size() && pattern[place] == '*') {
      star = place++;
      resume = at;
    } else if (place < pattern.size() && (pattern[place] == '?' || pattern[place] == name[at])) {
      ++at;
      ++place;
    } else if (star != std::string_view::npos) {
      place = star + 1;
      at = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', place) == std::string_view::npos;
}

NamedTensors parameters_matching(Module& module, std::string_view pattern) {
  const NamedTensors all = module.named_parameters();
  NamedTensors found;
  std::ranges::copy_if(all, std::back_inserter(found),
                       [&](const auto& named) { return name_matches(named.first, pattern); });
  if (found.empty()) refuse(pattern, "matches no parameter", all);
  return found;
}

void set_requires_grad(Module& module, std::string_view pattern, bool requires_grad) {
  for (auto& [name, tensor] : parameters_matching(module, pattern)) tensor.set_requires_grad(requires_grad);
}

std::vector<std::vector<Tensor>> split_by_name(Module& module, std::span<const std::string_view> patterns) {
  const NamedTensors all = module.named_parameters();
  std::vector<std::vector<Tensor>> parts(patterns.size() + 1);
  for (const auto& [name, tensor] : all) {
    const auto fits = [&name = name](std::string_view pattern) { return name_matches(name, pattern); };
    const auto first = std::ranges::find_if(patterns, fits) - patterns.begin();
    parts[static_cast<std::size_t>(first)].push_back(tensor);
  }
  for (std::size_t i = 0; i < patterns.size(); ++i)
    if (parts[i].empty()) refuse(patterns[i], "matches no parameter that the patterns before it leave", all);
  return parts;
}

}  // namespace tutti
