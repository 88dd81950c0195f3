// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/replicas/compression_states.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/train/checkpoints/json_text.h>
#include <tutti/train/replicas/group_texts.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace tutti {
namespace {

using KeptState = GradientCompression::State;

std::string purpose_of_gathering(std::int64_t iteration) {
  return fmt::format("what the compression keeps, for a checkpoint at step {}", iteration);
}

// Names, types and shapes in JSON, a line's end, and the arrays' bytes. The processes of a group have one byte order.
std::string compression_bytes(const KeptState& state) {
  nlohmann::json head = nlohmann::json::array();
  std::string bytes;
  for (const auto& [name, array] : state) {
    const Array local = array.to(cpu(0)).contiguous();
    synchronize(local.device());
    const std::vector<std::int64_t> shape(local.shape().begin(), local.shape().end());
    head.push_back({name, static_cast<int>(local.dtype()), shape});
    bytes.append(reinterpret_cast<const char*>(local.raw_data()), local.bytes());
  }
  return write_json(head) + "\n" + bytes;
}

KeptState compression_state(const std::string& bytes) {
  std::size_t at = bytes.find('\n') + 1;
  KeptState state;
  for (const auto& each : parse_json<nlohmann::json>(bytes.substr(0, at - 1))) {
    const auto dtype = static_cast<DType>(each.at(1).get<int>());
    const auto shape = each.at(2).get<std::vector<std::int64_t>>();
    Array array = Array::empty(shape, dtype, cpu(0));
    synchronize(cpu(0));
    if (array.bytes() > bytes.size() - at)
      raise<SyncError>("[training] what a process's compression keeps ends at byte {}", bytes.size());
    std::memcpy(array.raw_data(), bytes.data() + at, array.bytes());
    at += array.bytes();
    state.emplace_back(each.at(0).get<std::string>(), std::move(array));
  }
  return state;
}

}  // namespace

void CompressionStates::gather(GradientSync& group, Device device, const GradientCompression* own,
                               std::int64_t iteration) {
  if (own == nullptr) return attend_gathering(group, device, purpose_of_gathering(iteration));
  by_rank_.clear();  // before there are new ones
  own_ = compression_bytes(own->state());
  by_rank_ = gather_texts(group, device, own_, purpose_of_gathering(iteration));
  iteration_ = iteration;
}

void CompressionStates::gather(GradientSync& group, const GradientCompression& own, std::int64_t iteration) {
  own_ = compression_bytes(own.state());
  by_rank_ = gather_from_processes(group, own_, purpose_of_gathering(iteration));
  iteration_ = iteration;
}

KeptState CompressionStates::all(const GradientCompression& own, std::int64_t iteration) const {
  if (iteration != iteration_ || compression_bytes(own.state()) != own_)
    raise<Error>(
        "[learner] what the processes' compression keeps was not gathered at step {}, or has changed since: all call "
        "gather_parts before one saves",
        iteration);
  KeptState all;
  for (const std::string& bytes : by_rank_)
    for (auto& array : compression_state(bytes))
      if (std::ranges::find(all, array.first, &KeptState::value_type::first) == all.end())
        all.push_back(std::move(array));
  return all;
}

}  // namespace tutti
