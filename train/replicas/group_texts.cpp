// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/replicas/group_texts.h>

#include <tutti/autodiff/tensor.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/gradient_sync.h>

#include <charconv>
#include <cstdint>
#include <system_error>

namespace tutti {
namespace {

constexpr const char* kAwaiting = "what differs to be known by all";

// A text behind its length: of what devices send nothing but the order is known.
PendingTensor post(GradientSync& sync, Device device, const std::optional<std::string>& text,
                   const std::string& purpose) {
  const std::string framed = text ? fmt::format("{}:{}", text->size(), *text) : "";
  const std::vector<std::uint8_t> bytes(framed.begin(), framed.end());
  return sync.all_gather(device, Tensor(Array::from(bytes, {static_cast<std::int64_t>(bytes.size())}, device)),
                         purpose);
}

std::vector<std::string> texts_of(const Tensor& gathered) {
  const auto bytes = gathered.to_vector<std::uint8_t>();
  const std::string all(bytes.begin(), bytes.end());
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size();) {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(all.data() + at, all.data() + all.size(), length);
    const auto begin = static_cast<std::size_t>(end - all.data()) + 1;
    if (error != std::errc() || begin > all.size() || length > all.size() - begin)
      raise<SyncError>("[training] what the devices told each other has no length at byte {} of {}", at, all.size());
    texts.push_back(all.substr(begin, length));
    at = begin + length;
  }
  return texts;
}

}  // namespace

std::vector<std::string> gather_texts(GradientSync& sync, Device device, const std::optional<std::string>& own,
                                      const std::string& purpose) {
  return texts_of(post(sync, device, own, purpose).resolve());
}

void attend_gathering(GradientSync& sync, Device device, const std::string& purpose) {
  post(sync, device, std::nullopt, purpose).resolve();
}

std::vector<std::string> gather_from_processes(GradientSync& sync, const std::string& own, const std::string& purpose) {
  std::vector<PendingTensor> pending;
  for (const Device device : sync.devices())
    pending.push_back(post(sync, device, pending.empty() ? std::optional(own) : std::nullopt, purpose));
  std::vector<std::string> texts;
  for (PendingTensor& each : pending) texts = texts_of(each.resolve());
  return texts;
}

// Where another one has thrown already, it had seen this one come.
void await_gathered(GradientSync& sync, Device device) noexcept {
  try {
    attend_gathering(sync, device, kAwaiting);
  } catch (...) {
  }
}

void await_gathered_from_processes(GradientSync& sync) noexcept {
  try {
    gather_from_processes(sync, "", kAwaiting);
  } catch (...) {
  }
}

}  // namespace tutti
