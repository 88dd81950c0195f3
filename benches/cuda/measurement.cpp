// SPDX-License-Identifier: Apache-2.0
#include <tutti/benches/cuda/measurement.h>

#include <tutti/backend/raise.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace tutti::bench {

void BenchResults::add(BenchRow row) {
  const double beside = row.peer.empty() ? 0 : (row.work / row.seconds) / (row.peer_work / row.peer_seconds);
  fmt::print("{:<11}{:<44}{:>12.4f} ms{:>12.1f} G/s", row.table, row.name, row.seconds * 1e3,
             row.work / row.seconds / 1e9);
  fmt::print("{}\n", row.peer.empty() ? "" : fmt::format("{:>8.1f} % of {}", 100 * beside, row.peer));
  std::fflush(stdout);
  rows_.push_back(std::move(row));
  if (options_.output.empty()) return;
  auto document = nlohmann::json::array();
  for (const BenchRow& each : rows_)
    document.push_back({{"table", each.table},
                        {"name", each.name},
                        {"seconds", each.seconds},
                        {"work", each.work},
                        {"peer", each.peer},
                        {"peer_seconds", each.peer_seconds},
                        {"peer_work", each.peer_work},
                        {"device", to_string(options_.device)}});
  std::ofstream file(options_.output);
  file << document.dump(1) << '\n';
  if (!file) raise("[bench] cannot write {}", options_.output);
}

double seconds_of(Device device, double seconds, const std::function<void()>& queue_work) {
  const auto sample = [&](int calls) {
    synchronize(device);
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) queue_work();
    synchronize(device);
    return seconds_since(start) / calls;
  };
  sample(1);  // memory is taken, plans are made
  const double once = sample(2);
  constexpr int kSamples = 5;
  const int calls = std::clamp(static_cast<int>(seconds / kSamples / std::max(once, 1e-7)), 1, 10'000);
  double best = once;
  for (int i = 0; i < kSamples; ++i) best = std::min(best, sample(calls));
  return best;
}

}  // namespace tutti::bench
