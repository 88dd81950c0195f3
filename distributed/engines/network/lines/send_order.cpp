// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/lines/send_order.h>

#include <algorithm>

namespace tutti {

void SendOrder::launch(const std::shared_ptr<NetworkExchange>& exchange) {
  Row& row = rows_[static_cast<std::size_t>(exchange->sequence())];
  const std::lock_guard lock(row.mutex);
  row.launched.push_back({exchange});
}

void SendOrder::ready(const NetworkExchange& exchange, std::uint32_t ready, const Send& send) {
  Row& row = rows_[static_cast<std::size_t>(exchange.sequence())];
  const std::lock_guard lock(row.mutex);
  for (Launched& each : row.launched)
    if (each.exchange.get() == &exchange) each.ready = std::max(each.ready, ready);
  while (!row.launched.empty()) {
    Launched& first = row.launched.front();
    if (first.ready > first.sent) send({first.exchange, first.sent, first.ready});
    first.sent = first.ready;
    if (first.sent < first.exchange->pieces_out()) return;
    row.launched.pop_front();
  }
}

void SendOrder::clear() {
  for (Row& row : rows_) {
    const std::lock_guard lock(row.mutex);
    row.launched.clear();
  }
}

}  // namespace tutti
