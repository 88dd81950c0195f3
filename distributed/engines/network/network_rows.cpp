// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/network_rows.h>

#include <tutti/backend/raise.h>

#include <utility>
#include <vector>

namespace tutti {

namespace {

using Stage = NetworkTask::Stage;

std::vector<Stage> stages_of_rows() {
  return {{Stage::Kind::fill, Stage::kLast, 1}, {Stage::Kind::combine, Stage::kLast, 1}, {Stage::Kind::rest, 0, 1}};
}

Announcement announcement_for(const SparseReduction& request) {
  Announcement own;
  own.kind = Announcement::Kind::rows;
  own.dtype = request.parameter.dtype;
  own.elements = static_cast<std::uint64_t>(columns_of(request.parameter.shape));
  own.denominator = request.denominator;
  own.set_name(request.parameter.name);
  own.slices = static_cast<std::uint32_t>(request.contributions.size());
  for (std::uint32_t i = 0; i < own.slices; ++i)
    own.slice[i] = {0, static_cast<std::uint32_t>(request.contributions[i].number), true};
  return own;
}

}  // namespace

std::shared_ptr<NetworkRows> NetworkRows::make(std::shared_ptr<NetworkFlight> flight, std::uint32_t number,
                                               SparseReduction request, std::span<const Member> members) {
  if (request.contributions.size() > kMostSharedSlices)
    raise<SyncError>("[network] {} contributions of one process: {} are possible", request.contributions.size(),
                     kMostSharedSlices);
  const NetworkLines& lines = flight->lines;
  auto exchange =
      std::make_shared<RowsExchange>(number, announcement_for(request), lines.size(),
                                     PackedRows("network", request.parameter, members), lines.piece_bytes());
  return std::shared_ptr<NetworkRows>(new NetworkRows(std::move(flight), std::move(exchange), std::move(request)));
}

NetworkRows::NetworkRows(std::shared_ptr<NetworkFlight> flight, std::shared_ptr<RowsExchange> exchange,
                         SparseReduction request)
    : NetworkTask(std::move(flight), exchange, stages_of_rows(), std::move(request.ready), request.receivers),
      rows_(std::move(exchange)),
      request_(std::move(request)) {}

void NetworkRows::run_stage(const Stage& stage, std::int64_t) {
  if (stage.kind == Stage::Kind::fill) rows_->fill(request_.contributions, rank());
  if (stage.kind == Stage::Kind::combine) combine();
}

void NetworkRows::combine() {
  for (std::size_t place = 0; place < processes(); ++place)
    if (place != this->place())
      for (auto& contribution : rows_->contributions_of(place))
        request_.contributions.push_back(std::move(contribution));
  rows_->packed().order(request_.contributions);
  tutti::reduce_sparse(request_);
}

void NetworkRows::drop_chunks() noexcept {
  request_.contributions.clear();
  rows_->drop();
  NetworkTask::drop_chunks();
}

}  // namespace tutti
