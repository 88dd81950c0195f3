// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/lines/network_exchange.h>

#include <utility>

namespace tutti {

NetworkExchange::NetworkExchange(Sequence sequence, std::uint32_t number, Announcement announcement,
                                 std::size_t processes, std::uint32_t pieces, bool has_results)
    : sequence_(sequence),
      number_(number),
      pieces_(pieces),
      has_results_(has_results),
      announcement_(std::move(announcement)),
      peers_(std::make_unique<Peer[]>(processes)) {
  for (std::size_t place = 0; place < processes; ++place) peers_[place].blocks.resize(pieces);
}

}  // namespace tutti
