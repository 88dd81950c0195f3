// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/engines/network/collective_exchange.h>

#include <tutti/backend/raise.h>

#include <algorithm>
#include <string>
#include <utility>

namespace tutti {

namespace {

const Array& own_array(const std::vector<Array>& arrays, const CollectivePart::Place& place, const std::string& name) {
  if (place.member >= arrays.size() || !arrays[place.member].defined())
    raise<SyncError>("[network] {} has no array {} of this process", name, place.member);
  return arrays[place.member];
}

}  // namespace

CollectiveExchange::CollectiveExchange(Sequence sequence, std::uint32_t number, Announcement announcement,
                                       std::size_t processes, Plan plan)
    : NetworkExchange(sequence, number, std::move(announcement), processes,
                      static_cast<std::uint32_t>(plan.pieces.size()), false),
      plan_(std::move(plan)) {}

// Sender and receiver go through the same ranges and sources in the same order, so that both know what lies where.
CollectiveExchange::Plan CollectiveExchange::plan(const CollectiveRequest& request, const CollectiveCut& cut,
                                                  std::size_t processes, std::size_t own, std::size_t element,
                                                  const ProcessOf& process_of) {
  Plan all;
  for (const auto& ranges : cut.pieces) {
    Plan::Piece& piece = all.pieces.emplace_back();
    piece.gives.resize(processes);
    piece.gets.resize(processes, 0);
    for (const CollectiveCut::Range& range : ranges) {
      const CollectivePart& whole = request.parts[range.part];
      const auto bytes = static_cast<std::size_t>(range.count) * element;
      std::vector<bool> receives(processes, false);
      CollectivePart part{range.count, {}, {}};
      for (const CollectivePart::Place& target : whole.targets) {
        receives[process_of(target.number)] = true;
        if (process_of(target.number) != own) continue;
        (void)own_array(request.outputs, target, request.name);
        part.targets.push_back({target.member, target.offset + range.begin, target.number});
      }
      for (const CollectivePart::Place& source : whole.sources) {
        const std::size_t process = process_of(source.number);
        if (process == own) {
          const std::byte* const data = own_array(request.inputs, source, request.name).raw_data() +
                                        static_cast<std::size_t>(source.offset + range.begin) * element;
          for (std::size_t place = 0; place < processes; ++place)
            if (place != own && receives[place]) piece.gives[place].emplace_back(data, bytes);
          part.sources.push_back({source.member, source.offset + range.begin, source.number});
        } else if (receives[own]) {
          part.sources.push_back({request.inputs.size() + process,
                                  static_cast<std::int64_t>(piece.gets[process] / element), source.number});
          piece.gets[process] += bytes;
        }
      }
      if (!part.targets.empty()) piece.parts.push_back(std::move(part));
    }
  }
  return all;
}

}  // namespace tutti
