// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/checkpoints/checkpoint_parts.h>

#include <tutti/backend/raise.h>
#include <tutti/nn/parameter_selection.h>

#include <fmt/ranges.h>

#include <algorithm>

namespace tutti {
namespace {

bool any_matches(const std::vector<std::string>& patterns, std::string_view name) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return name_matches(name, pattern); });
}

/// Moves the arrays that the filter leaves out from `arrays` to `left_out`.
void leave_out(std::string_view part, PartState& state, const CheckpointFilter& filter) {
  NamedArrays kept;
  for (auto& [name, array] : state.arrays) {
    if (filter.accepts_array(fmt::format("{}/{}", part, name)))
      kept.emplace_back(std::move(name), std::move(array));
    else
      state.left_out.insert(std::move(name));
  }
  state.arrays = std::move(kept);
}

std::string_view before_slash(std::string_view name) { return name.substr(0, name.find('/')); }

/// What an `include` that matches nothing was to mean was left out with the rest.
class Unmatched {
 public:
  explicit Unmatched(const CheckpointFilter& filter) : patterns_(filter.include) {}

  void see(std::string_view name) {
    std::erase_if(patterns_, [&](const std::string& pattern) { return name_matches(name, pattern); });
  }
  void see(std::string_view part, const PartState& state) {
    for (const auto& [name, array] : state.arrays) see(fmt::format("{}/{}", part, name));
    for (const std::string& name : state.left_out) see(fmt::format("{}/{}", part, name));
    if (state.arrays.empty() && state.left_out.empty()) see_whole(part);
  }
  /// A part whose arrays are not known, or which has none now: no pattern for one of its arrays is judged.
  void see_whole(std::string_view part) {
    std::erase_if(patterns_, [&](std::string_view pattern) { return name_matches(part, before_slash(pattern)); });
  }
  void require_none(const std::vector<std::string>& parts) {
    if (parts.empty()) return;
    for (const std::string& part : parts) see(part);
    if (!patterns_.empty())
      raise("[checkpoint] the filter includes \"{}\", which is no part and no array; the parts are {}",
            patterns_.front(), fmt::join(parts, ", "));
  }

 private:
  std::vector<std::string> patterns_;
};

void check_functions(const std::string& part, bool saves, bool loads) {
  if (!saves || !loads) raise("[checkpoint] part \"{}\" has no function that {} it", part, saves ? "loads" : "saves");
}

}  // namespace

bool CheckpointFilter::accepts_array(std::string_view name) const {
  return (any_matches(include, name) || any_matches(include, before_slash(name))) && !any_matches(exclude, name);
}

bool CheckpointFilter::accepts_part(std::string_view name) const {
  const bool included = std::ranges::any_of(include, [&](std::string_view pattern) {
    return name_matches(name, pattern) || name_matches(name, before_slash(pattern));
  });
  return included && !any_matches(exclude, name);
}

void CheckpointParts::add(std::string name, Part part) {
  if (name.empty() || name.find('/') != std::string::npos)
    raise("[checkpoint] \"{}\" is no name for a part: it must not be empty nor have a slash", name);
  if (std::ranges::any_of(parts_, [&](const auto& named) { return named.first == name; }))
    raise("[checkpoint] there are two parts \"{}\"", name);
  check_functions(name, part.save != nullptr, part.prepare != nullptr);
  parts_.emplace_back(std::move(name), std::move(part));
}

void CheckpointParts::add(std::string name, std::function<std::string()> save,
                          std::function<void(const std::string&)> load) {
  check_functions(name, save != nullptr, load != nullptr);
  add(std::move(name),
      Part{[save] {
             return PartState{{}, save()};
           },
           [save, load = std::move(load)](const PartState& state) { return prepare_text(save(), state.text, load); }});
}

void CheckpointParts::check_copies(const std::string& name, std::size_t count) {
  if (count == 0) raise("[checkpoint] part \"{}\" is on no device", name);
}

std::vector<std::string> CheckpointParts::names() const {
  std::vector<std::string> names;
  for (const auto& [name, part] : parts_) names.push_back(name);
  return names;
}

std::vector<std::string> CheckpointParts::beside_models() const {
  std::vector<std::string> names;
  for (const auto& [name, part] : parts_)
    if (!part.model) names.push_back(name);
  return names;
}

PartStates CheckpointParts::save(const CheckpointFilter& filter, CheckpointCopies copies) const {
  PartStates states;
  Unmatched unmatched(filter);
  for (const auto& [name, part] : parts_) {
    if (!filter.accepts_part(name)) {
      unmatched.see_whole(name);
      continue;
    }
    states.emplace_back(name, part.save());
    unmatched.see(name, states.back().second);
    leave_out(name, states.back().second, filter);
    if (copies == CheckpointCopies::on_device) continue;
    for (auto& [array_name, array] : states.back().second.arrays) array = array.to(cpu());
  }
  unmatched.require_none(names());
  return states;
}

std::vector<std::string> CheckpointParts::load(PartStates states, const CheckpointFilter& filter,
                                               std::string_view source) const {
  Prepared prepared = prepare(std::move(states), filter, source);
  prepared.install();
  return std::move(prepared.unused);
}

CheckpointParts::Prepared CheckpointParts::prepare(PartStates states, const CheckpointFilter& filter,
                                                   std::string_view source) const {
  Unmatched unmatched(filter);
  for (const auto& [name, state] : states) unmatched.see(name, state);
  for (const std::string& name : names())
    if (!filter.accepts_part(name)) unmatched.see_whole(name);
  unmatched.require_none(names());
  std::vector<Install> installs;
  for (const auto& [name, part] : parts_) {
    if (!filter.accepts_part(name)) continue;
    const auto found = std::ranges::find(states, name, &PartStates::value_type::first);
    if (found == states.end()) raise<DataError>("[checkpoint] {} has no part \"{}\"", source, name);
    PartState state = std::move(found->second);
    states.erase(found);
    leave_out(name, state, filter);
    try {
      installs.push_back(part.prepare(state));
    } catch (const Error& error) {
      raise<DataError>("[checkpoint] {} does not fit part \"{}\": {}", source, name, error.what());
    }
  }
  Prepared prepared{in_order(std::move(installs)), {}};
  for (const auto& [name, state] : states)
    if (filter.accepts_part(name)) prepared.unused.push_back(name);
  return prepared;
}

}  // namespace tutti
