// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/network_collective.h>

#include <tutti/backend/raise.h>
#include <tutti/distributed/engines/local/chunks.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

using Stage = NetworkTask::Stage;

// Calls `f` with each array of this process.
template <class F> void for_own_arrays(const CollectiveRequest& request, F&& f) {
  for (const auto* arrays : {&request.outputs, &request.inputs})
    for (const Array& array : *arrays)
      if (array.defined()) f(array);
}

DType type_of_arrays(const CollectiveRequest& request) {
  if (request.dtype) return *request.dtype;
  const Array* first = nullptr;
  for_own_arrays(request, [&](const Array& array) { first = first == nullptr ? &array : first; });
  if (first == nullptr) raise<SyncError>("[network] {} has no array of this process", request.name);
  return first->dtype();
}

std::vector<Device> devices_for(const CollectiveRequest& request) {
  std::vector<Device> devices = request.devices;
  if (devices.empty())
    for_own_arrays(request, [&](const Array& array) {
      if (std::ranges::find(devices, array.device()) == devices.end()) devices.push_back(array.device());
    });
  if (devices.empty()) devices.push_back(cpu(0));  // the work is for whoever comes by
  return devices;
}

Announcement announcement_for(const CollectiveRequest& request, DType dtype) {
  Announcement own;
  own.kind = Announcement::Kind::collective;
  own.dtype = dtype;
  for (const CollectivePart& part : request.parts) own.elements += static_cast<std::uint64_t>(part.count);
  own.parts = hash_of(request.operation, request.parts);
  own.denominator = request.denominator;
  own.set_name(request.name);
  return own;
}

}  // namespace

std::shared_ptr<NetworkCollective> NetworkCollective::make(std::shared_ptr<NetworkFlight> flight, std::uint32_t number,
                                                           CollectiveRequest request,
                                                           const CollectiveExchange::ProcessOf& process_of) {
  const NetworkLines& lines = flight->lines;
  const DType dtype = type_of_arrays(request);
  const std::size_t element = size_of(dtype);
  const std::vector<Device> devices = devices_for(request);
  const CollectiveCut cut(request.parts, lines.size(), process_of, element, lines.piece_bytes());
  auto plan = CollectiveExchange::plan(request, cut, lines.size(), lines.place(), element, process_of);
  std::vector<Stage> stages{{Stage::Kind::fill, static_cast<std::uint32_t>(plan.pieces.size() - 1), 1}};
  std::vector<std::vector<Work>> work;
  for (const auto& piece : plan.pieces) {
    const auto number_of_piece = static_cast<std::uint32_t>(work.size());
    auto& chunks = work.emplace_back();
    for (std::size_t part = 0; part < piece.parts.size(); ++part) {
      const std::int64_t count = piece.parts[part].count;
      const std::int64_t size = chunk_size(count, devices.size());
      for (std::int64_t begin = 0; begin < count; begin += size)
        chunks.push_back({part, begin, std::min(size, count - begin)});
    }
    stages.push_back({Stage::Kind::look_up, number_of_piece, 1});
    stages.push_back({Stage::Kind::combine, number_of_piece, std::max<std::int64_t>(1, std::ssize(chunks))});
  }
  stages.push_back({Stage::Kind::rest, 0, 1});
  auto exchange = std::make_shared<CollectiveExchange>(request.sequence, number, announcement_for(request, dtype),
                                                       lines.size(), std::move(plan));
  return std::shared_ptr<NetworkCollective>(new NetworkCollective(
      std::move(flight), std::move(exchange), std::move(stages), std::move(request), std::move(work), devices));
}

NetworkCollective::NetworkCollective(std::shared_ptr<NetworkFlight> flight,
                                     std::shared_ptr<CollectiveExchange> exchange, std::vector<Stage> stages,
                                     CollectiveRequest request, std::vector<std::vector<Work>> work,
                                     std::span<const Device> devices)
    : NetworkTask(std::move(flight), exchange, std::move(stages), std::move(request.ready), devices),
      collective_(std::move(exchange)),
      request_(std::move(request)),
      own_arrays_(request_.inputs.size()),
      work_(std::move(work)) {}

void NetworkCollective::run_stage(const Stage& stage, std::int64_t chunk) {
  if (stage.kind == Stage::Kind::look_up) return look_up(stage.piece);
  if (stage.kind != Stage::Kind::combine || work_[stage.piece].empty()) return;
  const Work& work = work_[stage.piece][static_cast<std::size_t>(chunk)];
  combine(request_, collective_->parts(stage.piece)[work.part], work.begin, work.count);
}

void NetworkCollective::look_up(std::uint32_t piece) {
  request_.inputs.resize(own_arrays_);
  const auto dtype = collective_->announcement().dtype;
  for (std::size_t place = 0; place < processes(); ++place) {
    Array& block = request_.inputs.emplace_back();
    if (place == this->place()) continue;
    const auto count = static_cast<std::int64_t>(collective_->bytes_from(place, piece) / size_of(dtype));
    std::byte* const data = collective_->peer(place).blocks[piece].get();
    if (data != nullptr) block = Array::over(data, nullptr, dtype, {count}, {1}, cpu(0));
  }
}

void NetworkCollective::drop_chunks() noexcept {
  request_ = {};
  work_.clear();
  NetworkTask::drop_chunks();
}

}  // namespace tutti
