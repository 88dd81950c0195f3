// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/replicas/division_check.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/train/replicas/group_texts.h>
#include <tutti/train/replicas/joined_texts.h>

#include <algorithm>
#include <array>
#include <vector>

namespace tutti {
namespace {

std::string text_of_share(const ReadShare& share) {
  const std::array<std::string, 4> words{share.name, std::to_string(share.devices), share.division, share.position};
  return join_texts(words);
}

ReadShare share_of(const std::string& text) {
  const std::vector<std::string> words = split_texts(text);
  return {words.at(0), std::stoull(words.at(1)), words.at(2), words.at(3)};
}

}  // namespace

// Data of which nothing is known are not compared.
void check_division(GradientSync& group, Device device, const char* what, const std::optional<ReadShare>& own) {
  const bool known = own && !own->division.empty();
  std::vector<ReadShare> shares;
  for (const std::string& text : gather_texts(group, device, known ? std::optional(text_of_share(*own)) : std::nullopt,
                                              fmt::format("the division of the {}", what)))
    shares.push_back(share_of(text));
  if (shares.empty()) return;
  const ReadShare& first = shares.front();
  const auto other = std::ranges::find_if(shares, [&](const ReadShare& share) {
    return share.division != first.division || share.position != first.position;
  });
  const bool divided = std::ranges::any_of(shares, [](const ReadShare& share) { return share.devices > 1; });
  const bool alike = other == shares.end();
  const bool all_read_the_same = !divided && alike && shares.size() == group.world().devices;
  if ((divided && !alike) || all_read_the_same) await_gathered(group, device);
  if (divided && !alike)
    raise<Error>("[learner] the {} of {} and {} are not of one division: {} at {}, and {} at {}", what, first.name,
                 other->name, first.division, first.position, other->division, other->position);
  if (all_read_the_same)
    raise<Error>(
        "[learner] {} and {} would read the same {}, {}, as do all {} devices: BatchOptions::world = sync.world() "
        "divides them; where each device has data of its own, say so by BatchOptions::world = {{.devices = 1}}",
        first.name, shares.back().name, what, first.division, shares.size());
}

}  // namespace tutti
