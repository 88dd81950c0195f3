// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/recommender/model_bank_sync.h>

#include <tutti/backend/process/error_text.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/train/replicas/group_texts.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {
namespace {

constexpr const char* kPurpose = "a model bank's values";
constexpr std::string_view kFailed = "failed: ";  // no digest begins so

/// The processes' outcomes of reading, by rank, from this one's: a digest, or why it failed.
using Exchange = std::function<std::vector<std::string>(const std::optional<std::string>& own)>;

bool is_same_everywhere(std::span<const std::string> outcomes) {
  for (const std::string& outcome : outcomes)
    if (outcome != outcomes.front() || outcome.starts_with(kFailed)) return false;
  return true;
}

[[noreturn]] void raise_difference(std::span<const std::string> outcomes) {
  if (std::ranges::count(outcomes, outcomes.front()) == std::ssize(outcomes))
    raise<DataError>("{}", outcomes.front().substr(kFailed.size()));
  std::string texts;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    const bool failed = outcomes[rank].starts_with(kFailed);
    texts += fmt::format("{}rank {} {}", rank == 0 ? "" : "; ", rank,
                         failed ? outcomes[rank] : "has read and chosen values of digest " + outcomes[rank]);
  }
  raise<DataError>(
      "[model_bank] all processes need the same sources, and the same files, as on a shared disk, which nobody writes "
      "meanwhile, and differ: {}",
      texts);
}

void load_together(std::span<Module* const> replicas, std::span<const ModelBankSource> sources,
                   std::span<const LoadHook> hooks, const Exchange& exchange, const std::function<void()>& await_all) {
  bool told = false;
  const auto tell = [&](const std::optional<std::string>& own) {
    told = true;
    const std::vector<std::string> outcomes = exchange(own);
    if (is_same_everywhere(outcomes)) return;
    await_all();
    raise_difference(outcomes);
  };
  if (replicas.empty()) return tell(std::nullopt);
  try {
    load_model_bank(replicas, sources, hooks, tell);
  } catch (...) {
    if (!told) tell(std::string(kFailed) + text_of(std::current_exception()));
    throw;
  }
}

}  // namespace

void load_model_bank_together(GradientSync& sync, std::span<Module* const> replicas,
                              std::span<const ModelBankSource> sources, std::span<const LoadHook> hooks) {
  if (sync.world().processes == 1) {
    load_model_bank(replicas, sources, hooks);
    return;
  }
  load_together(
      replicas, sources, hooks,
      [&](const std::optional<std::string>& own) { return gather_from_processes(sync, own.value_or(""), kPurpose); },
      [&] { await_gathered_from_processes(sync); });
}

void load_model_bank_together(GradientSync& sync, Device device, std::span<Module* const> replicas,
                              std::span<const ModelBankSource> sources, std::span<const LoadHook> hooks) {
  if (sync.world().processes == 1) {
    if (!replicas.empty()) load_model_bank(replicas, sources, hooks);
    return;
  }
  load_together(
      replicas, sources, hooks,
      [&](const std::optional<std::string>& own) { return gather_texts(sync, device, own, kPurpose); },
      [&] { await_gathered(sync, device); });
}

}  // namespace tutti
