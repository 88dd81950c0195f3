// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/epochs/group_control.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/train/checkpoints/json_text.h>
#include <tutti/train/replicas/group_texts.h>

#include <nlohmann/json.hpp>

#include <optional>

namespace tutti {
namespace {

constexpr const char* kAsk = "ask";
constexpr const char* kPurpose = "what the driver says";

std::string text_of_message(const DriverMessage& message) {
  return write_json(nlohmann::json{{"kind", static_cast<int>(message.kind)},
                                   {"learning_rates", message.learning_rates},
                                   {"takes_model", message.takes_model}});
}

DriverMessage message_of(const std::string& text) try {
  const auto json = parse_json<nlohmann::json>(text);
  return {.kind = static_cast<DriverMessage::Kind>(json.at("kind").get<int>()),
          .learning_rates = json.at("learning_rates"),
          .takes_model = json.at("takes_model")};
} catch (const nlohmann::json::exception& error) {
  raise<SyncError>("[control] the driver sent no message: {}", error.what());
}

}  // namespace

void GroupControlRoot::send(const DriverMessage& message) {
  if (message.error.empty()) gather_texts(group_, device_, text_of_message(message), kPurpose);
}

void GroupControlRoot::ask() { gather_texts(group_, device_, std::string(kAsk), kPurpose); }

DriverMessage GroupControlFollower::receive() {
  for (;;) {
    const auto texts = gather_texts(group_, device_, std::nullopt, kPurpose);
    if (texts.empty()) raise<SyncError>("[control] the driver sent nothing");
    if (texts.front() != kAsk) return message_of(texts.front());
    asked_();
  }
}

}  // namespace tutti
