// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/replicas/sent_checkpoint.h>

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/gradient_sync.h>
#include <tutti/train/checkpoints/json_text.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>

namespace tutti {
namespace {

/// Goes through the bytes of spans, one after the other.
class SpanCursor {
 public:
  explicit SpanCursor(std::span<const std::span<std::byte>> spans) : spans_(spans) {}

  /// Calls `use(bytes of a span, their offset in the piece)` for each span that the next `bytes` bytes lie in.
  template <class Use> void advance(std::size_t bytes, const Use& use) {
    for (std::size_t done = 0; done < bytes;) {
      const std::span<std::byte> rest = spans_.front().subspan(used_);
      const std::size_t now = std::min(rest.size(), bytes - done);
      if (now > 0) use(rest.first(now), done);
      done += now;
      used_ += now;
      if (now == rest.size()) next();
    }
  }

 private:
  void next() {
    spans_ = spans_.subspan(1);
    used_ = 0;
  }

  std::span<const std::span<std::byte>> spans_;
  std::size_t used_ = 0;  // bytes of the first that are behind
};

Array empty_bytes(std::size_t count) {
  Array bytes = Array::empty({static_cast<std::int64_t>(count)}, DType::u8, cpu());
  synchronize(cpu());
  return bytes;
}

/// The first device's bytes on all devices, of which the result is this process's first one's. Each device gets a
/// share, which it then gives all: the sender does not have to send all of it to each process.
Array spread(GradientSync& group, const Array& own, const std::string& purpose) {
  const std::vector<Device>& devices = group.devices();
  std::vector<PendingTensor> shares;
  for (std::size_t d = 0; d < devices.size(); ++d)
    shares.push_back(group.all_to_all(devices[d], Tensor((d == 0 ? own : empty_bytes(0)).to(devices[d])), {}, purpose));
  std::vector<PendingTensor> wholes;
  for (std::size_t d = 0; d < devices.size(); ++d)
    wholes.push_back(group.all_gather(devices[d], shares[d].resolve(), purpose));
  std::vector<Tensor> results;
  for (PendingTensor& whole : wholes) results.push_back(whole.resolve());
  Array first = results.front().array().to(cpu()).contiguous();
  synchronize(first.device());
  return first;
}

// Paths, which errors tell, need not be UTF-8, and texts of JSON have to.
std::vector<std::uint8_t> numbers_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of_numbers(const nlohmann::json& json) {
  const auto numbers = json.get<std::vector<std::uint8_t>>();
  return {numbers.begin(), numbers.end()};
}

}  // namespace

std::string head_of(const ReadCheckpoint& checkpoint) {
  const CheckpointProgress& progress = checkpoint.contents.progress;
  nlohmann::json parts = nlohmann::json::array();
  for (const auto& [name, state] : checkpoint.contents.parts) {
    nlohmann::json arrays = nlohmann::json::array();
    for (const auto& [array_name, array] : state.arrays)
      arrays.push_back({array_name, static_cast<int>(array.dtype()),
                        std::vector<std::int64_t>(array.shape().begin(), array.shape().end())});
    parts.push_back({name, state.text, state.left_out, std::move(arrays)});
  }
  std::vector<std::vector<std::uint8_t>> damaged;
  for (const std::string& text : checkpoint.damaged) damaged.push_back(numbers_of(text));
  return write_json(nlohmann::json{
      {progress.step, progress.epoch, progress.window}, std::move(parts), numbers_of(checkpoint.path), damaged});
}

ReadCheckpoint checkpoint_of_head(const std::string& head) {
  const auto json = parse_json<nlohmann::json>(head);
  const auto progress = json.at(0).get<std::vector<std::int64_t>>();
  ReadCheckpoint checkpoint{text_of_numbers(json.at(2)), {}, {}, false};
  for (const auto& text : json.at(3)) checkpoint.damaged.push_back(text_of_numbers(text));
  checkpoint.contents.progress = {progress.at(0), progress.at(1), progress.at(2)};
  for (const auto& part : json.at(1)) {
    PartState state{{}, part.at(1).get<std::string>(), part.at(2).get<std::set<std::string>>()};
    for (const auto& array : part.at(3))
      state.arrays.emplace_back(array.at(0).get<std::string>(),
                                Array::empty(array.at(2).get<std::vector<std::int64_t>>(),
                                             static_cast<DType>(array.at(1).get<int>()), cpu()));
    checkpoint.contents.parts.emplace_back(part.at(0).get<std::string>(), std::move(state));
  }
  return checkpoint;
}

std::vector<std::span<std::byte>> bytes_of_arrays(const ReadCheckpoint& checkpoint) {
  std::vector<std::span<std::byte>> bytes;
  for (const auto& [part, state] : checkpoint.contents.parts)
    for (const auto& [name, array] : state.arrays) {
      if (array.device().kind != DeviceKind::cpu || !array.is_contiguous())
        raise<Error>("[checkpoint] {}/{} does not lie in one piece on the CPU", part, name);
      bytes.emplace_back(array.raw_data(), array.bytes());
    }
  synchronize(cpu());
  return bytes;
}

void send_from_first(GradientSync& group, std::span<const std::span<std::byte>> spans, std::size_t piece_bytes) {
  std::size_t total = 0;
  for (const auto& span : spans) total += span.size();
  const bool sends = group.world().first == 0;
  SpanCursor cursor(spans);
  for (std::size_t begin = 0; begin < total; begin += piece_bytes) {
    const std::size_t count = std::min(piece_bytes, total - begin);
    Array piece = empty_bytes(sends ? count : 0);
    if (sends)
      cursor.advance(count, [&](std::span<const std::byte> bytes, std::size_t offset) {
        std::memcpy(piece.raw_data() + offset, bytes.data(), bytes.size());
      });
    piece = spread(group, piece, fmt::format("a checkpoint, from byte {} of {} on", begin, total));
    if (piece.bytes() != count)
      raise<SyncError>("[checkpoint] {} bytes came from rank 0 in place of {}", piece.bytes(), count);
    if (!sends)
      cursor.advance(count, [&](std::span<std::byte> bytes, std::size_t offset) {
        std::memcpy(bytes.data(), piece.raw_data() + offset, bytes.size());
      });
  }
}

}  // namespace tutti
