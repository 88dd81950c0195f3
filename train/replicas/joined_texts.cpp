// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/replicas/joined_texts.h>

#include <tutti/backend/raise.h>
#include <tutti/train/checkpoints/json_text.h>

#include <nlohmann/json.hpp>

namespace tutti {

std::string join_texts(std::span<const std::string> texts) {
  return write_json(nlohmann::json(std::vector<std::string>(texts.begin(), texts.end())));
}

std::vector<std::string> split_texts(const std::string& text) try {
  return parse_json<nlohmann::json>(text).get<std::vector<std::string>>();
} catch (const nlohmann::json::exception& error) {
  raise<DataError>("[checkpoint] these are no texts of devices: {}", error.what());
}

}  // namespace tutti
