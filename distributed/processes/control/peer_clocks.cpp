// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/control/peer_clocks.h>

#include <algorithm>
#include <utility>

namespace tutti::control {

std::optional<PeerClocks::Duration> PeerClocks::heard(int rank, Time now) {
  const auto found = peers_.find(rank);
  if (found == peers_.end()) return std::nullopt;
  Peer& peer = found->second;
  const Time before = std::exchange(peer.heard, now);
  if (!std::exchange(peer.silent, false)) return std::nullopt;
  return now - before;
}

void PeerClocks::progress(int rank, std::uint64_t progress, Time now) {
  const auto found = peers_.find(rank);
  if (found == peers_.end() || found->second.progress == progress) return;
  found->second.progress = progress;
  found->second.progressed = now;
}

std::vector<PeerLost> PeerClocks::silent(Time now) {
  std::vector<PeerLost> lost;
  for (auto& [rank, peer] : peers_)
    if (!peer.silent && now - peer.heard > deadline_) {
      peer.silent = true;
      lost.push_back({rank, PeerLost::Reason::silent, peer.heard});
    }
  return lost;
}

void PeerClocks::skip(Duration pause, Time now) {
  for (auto& [rank, peer] : peers_) {
    peer.heard = std::min(peer.heard + pause, now);
    peer.progressed = std::min(peer.progressed + pause, now);
  }
}

std::vector<PeerClock> PeerClocks::read(Time now) const {
  std::vector<PeerClock> all;
  for (const auto& [rank, peer] : peers_)
    all.push_back({rank, now - peer.heard, peer.progress, now - peer.progressed, false});
  return all;
}

}  // namespace tutti::control
