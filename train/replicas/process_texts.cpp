// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/replicas/process_texts.h>

#include <tutti/backend/raise.h>
#include <tutti/train/replicas/group_texts.h>
#include <tutti/train/replicas/joined_texts.h>

#include <optional>
#include <utility>

namespace tutti {
namespace {

std::string purpose_at(std::int64_t iteration) {
  return fmt::format("the parts of a checkpoint at step {}", iteration);
}

}  // namespace

void ProcessTexts::gather(GradientSync& group, Device device, const std::vector<std::string>& own,
                          std::int64_t iteration) {
  const auto all =
      gather_texts(group, device, own.empty() ? std::nullopt : std::optional(join_texts(own)), purpose_at(iteration));
  if (!own.empty()) take(all, own, iteration);
}

void ProcessTexts::gather(GradientSync& group, const std::vector<std::string>& own, std::int64_t iteration) {
  take(gather_from_processes(group, join_texts(own), purpose_at(iteration)), own, iteration);
}

void ProcessTexts::take(const std::vector<std::string>& by_rank, const std::vector<std::string>& own,
                        std::int64_t iteration) {
  by_rank_.clear();
  for (const std::string& text : by_rank) by_rank_.push_back(split_texts(text));
  own_ = own;
  iteration_ = iteration;
}

std::vector<std::string> ProcessTexts::of(std::size_t which, std::int64_t iteration, const std::string& own) const {
  if (iteration != iteration_)
    raise<Error>(
        "[learner] what other processes keep was not gathered at step {}: all call gather_parts before one saves",
        iteration);
  if (own_.at(which) != own)
    raise<Error>(
        "[learner] what the processes keep has changed since it was gathered at step {}: all call gather_parts before "
        "one saves",
        iteration);
  std::vector<std::string> texts;
  for (const auto& texts_of_rank : by_rank_) texts.push_back(texts_of_rank.at(which));
  return texts;
}

std::string concatenated_texts(const std::vector<std::string>& lists) {
  std::vector<std::string> all;
  for (const std::string& list : lists)
    for (std::string& text : split_texts(list)) all.push_back(std::move(text));
  return join_texts(all);
}

}  // namespace tutti
