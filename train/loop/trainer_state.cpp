// SPDX-License-Identifier: Apache-2.0
// What a trainer and its hooks keep, as text, and how they get it back.
#include <tutti/train/trainer.h>

#include <tutti/backend/raise.h>
#include <tutti/exchange/files/utf8.h>
#include <tutti/train/checkpoints/json_text.h>
#include <tutti/train/checkpoints/part_state.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

using HookStates = std::vector<std::pair<std::string, std::string>>;

/// The first of a name, which it is then no more.
std::optional<std::string> take_state(HookStates& states, const std::string& name) {
  const auto found = std::ranges::find(states, name, &HookStates::value_type::first);
  if (name.empty() || found == states.end()) return std::nullopt;
  std::string state = std::move(found->second);
  states.erase(found);
  return state;
}

}  // namespace

void Trainer::register_hook(std::shared_ptr<Hook> hook) {
  if (!hook) return;
  if (running_ || evaluating_) raise<Error>("[trainer] hooks are registered before training, not within it");
  if (hook->trainer_ != nullptr) raise<Error>("[trainer] the hook belongs to a trainer already");
  HookStates left = loaded_states_;
  if (const auto state = take_state(left, hook->state_name())) hook->load_state(*state);
  loaded_states_ = std::move(left);
  hook->trainer_ = this;
  hooks_.push_back(std::move(hook));
}

void Trainer::register_hooks(std::vector<std::shared_ptr<Hook>> hooks) {
  for (auto& hook : hooks) register_hook(std::move(hook));
}

std::string Trainer::state() const {
  HookStates hooks;
  for (const auto& hook : hooks_) {
    if (hook->state_name().empty()) continue;
    hooks.emplace_back(hook->state_name(), hook->state());
    if (!detail::is_utf8(hooks.back().first) || !detail::is_utf8(hooks.back().second))
      raise<Error>("[trainer] the state of hook \"{}\" is no UTF-8 text", hook->state_name());
  }
  hooks.insert(hooks.end(), loaded_states_.begin(), loaded_states_.end());  // of hooks that this run has not
  Place place = place_;
  if (epoch_ends_) {  // its hooks have been called
    ++place.epoch;
    place.window = place.epoch_steps = 0;
  }
  return write_json(nlohmann::json{{"iteration", place.iteration},
                                   {"epoch", place.epoch},
                                   {"window", place.window},
                                   {"window_steps", place.window_steps},
                                   {"epoch_steps", place.epoch_steps},
                                   {"in_epoch", in_epoch_ && !epoch_ends_},
                                   {"in_window", in_window_},
                                   {"evaluation_due", epoch_ends_ ? evaluation_due_after_epoch() : evaluation_due_},
                                   {"storage", storage_.to_text()},
                                   {"hooks", hooks}});
}

// That a state fits is seen by loading it; then what the hook had comes back.
std::function<void()> Trainer::prepare_hooks(HookStates states) {
  std::vector<std::pair<std::shared_ptr<Hook>, std::string>> loads;
  for (const auto& hook : hooks_) {
    auto state = take_state(states, hook->state_name());
    if (!state) continue;
    const std::string now = hook->state();
    hook->load_state(*state);
    hook->load_state(now);
    loads.emplace_back(hook, std::move(*state));
  }
  return [this, loads = std::move(loads), states = std::move(states)] {
    for (const auto& [hook, state] : loads) hook->load_state(state);
    loaded_states_ = states;
  };
}

std::function<void()> Trainer::prepare_load(const std::string& text) try {
  if (running_ || evaluating_) raise<Error>("[trainer] load_state was called within the loop");
  const auto json = parse_json<nlohmann::json>(text);
  const Place place{json.at("iteration"), json.at("epoch"), json.at("window"), json.at("window_steps"),
                    json.value("epoch_steps", std::int64_t{0})};  // texts of earlier versions have none
  if (std::min({place.iteration, place.epoch, place.window, place.window_steps, place.epoch_steps}) < 0)
    raise<DataError>("[trainer] a place of step {}, epoch {}, window {}, step {} of it, step {} of the epoch",
                     place.iteration, place.epoch, place.window, place.window_steps, place.epoch_steps);
  const bool evaluation_due = json.at("evaluation_due");
  const bool in_epoch = json.at("in_epoch");
  const bool in_window = json.at("in_window");
  HookStates hooks;  // texts of earlier versions have none
  if (json.contains("hooks")) hooks = json.at("hooks").get<HookStates>();
  return [=, this, load_storage = storage_.prepare_load(json.at("storage")),
          load_hooks = prepare_hooks(std::move(hooks))] {
    load_storage();
    load_hooks();
    evaluation_due_ = evaluation_due;
    place_ = place;
    in_epoch_ = in_epoch;
    in_window_ = in_window;
  };
} catch (const nlohmann::json::exception& error) {
  raise<DataError>("[trainer] this is no trainer's state: {}", error.what());
}

PartState part_state(const Trainer& trainer) { return {{}, trainer.state()}; }
Install prepare_part(Trainer& trainer, const PartState& state) { return trainer.prepare_load(state.text); }

}  // namespace tutti
