// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/messages/buffer_sync.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

bool takes_part(const BufferShare& share) { return share.outside || !share.arrays.empty(); }

// Of the members whose buffers count.
std::vector<std::size_t> sources_of(std::span<const BufferShare> shares) {
  std::vector<std::size_t> with_examples;
  std::vector<std::size_t> all;
  for (std::size_t member = 0; member < shares.size(); ++member) {
    if (!takes_part(shares[member]) || !shares[member].reads) continue;
    all.push_back(member);
    if (shares[member].examples) with_examples.push_back(member);
  }
  return with_examples.empty() ? all : with_examples;
}

CollectiveRequest& request_for(DType dtype, std::vector<CollectiveRequest>& requests) {
  for (CollectiveRequest& request : requests)
    if (request.dtype == dtype) return request;
  CollectiveRequest& added = requests.emplace_back();
  added.operation = CollectiveOperation::mean;
  added.name = "the replicas' buffers";
  added.sequence = Sequence::round;
  added.dtype = dtype;
  return added;
}

}  // namespace

std::vector<CollectiveRequest> plan_buffers(BufferPolicy policy, std::span<const SyncParameter> buffers,
                                            std::span<const BufferShare> shares) {
  std::vector<CollectiveRequest> requests;
  const std::vector<std::size_t> sources = sources_of(shares);
  const auto targets = std::ranges::count_if(shares, takes_part);
  if (policy == BufferPolicy::synchronised || sources.empty() || targets < 2) return requests;
  for (std::size_t buffer = 0; buffer < buffers.size(); ++buffer) {
    const DType dtype = buffers[buffer].dtype;
    CollectiveRequest& request = request_for(dtype, requests);
    const bool averaged = policy == BufferPolicy::mean && is_floating(dtype) && sources.size() > 1;
    CollectivePart part{.count = element_count(buffers[buffer].shape), .sources = {}, .targets = {}};
    for (std::size_t member = 0; member < shares.size(); ++member) {
      if (!takes_part(shares[member])) continue;
      const CollectivePart::Place place{request.outputs.size(), 0, member};
      const Array array = shares[member].outside ? Array() : shares[member].arrays[buffer];
      request.inputs.push_back(array);
      request.outputs.push_back(array);
      const bool counts = averaged ? std::ranges::find(sources, member) != sources.end() : member == sources.front();
      if (counts) part.sources.push_back(place);
      if (averaged || !counts) part.targets.push_back(place);
    }
    request.parts.push_back(std::move(part));
  }
  for (CollectiveRequest& request : requests)
    for (const BufferShare& share : shares)
      if (share.ready.recorded()) request.ready.push_back(share.ready);
  return requests;
}

}  // namespace tutti
