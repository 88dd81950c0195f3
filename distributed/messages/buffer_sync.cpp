// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/messages/buffer_sync.h>

#include <algorithm>
#include <utility>

namespace tutti {

namespace {

// Of the members whose buffers count.
std::vector<std::size_t> sources_of(std::span<const BufferShare> shares) {
  std::vector<std::size_t> with_examples;
  std::vector<std::size_t> all;
  for (std::size_t member = 0; member < shares.size(); ++member) {
    if (shares[member].arrays.empty() || !shares[member].reads) continue;
    all.push_back(member);
    if (shares[member].examples) with_examples.push_back(member);
  }
  return with_examples.empty() ? all : with_examples;
}

CollectiveRequest& request_for(DType dtype, std::vector<CollectiveRequest>& requests) {
  for (CollectiveRequest& request : requests)
    if (request.outputs.front().dtype() == dtype) return request;
  CollectiveRequest& added = requests.emplace_back();
  added.operation = CollectiveOperation::mean;
  added.name = "the replicas' buffers";
  return added;
}

}  // namespace

std::vector<CollectiveRequest> plan_buffers(BufferPolicy policy, std::span<const BufferShare> shares) {
  std::vector<CollectiveRequest> requests;
  const std::vector<std::size_t> sources = sources_of(shares);
  const auto targets = std::ranges::count_if(shares, [](const auto& share) { return !share.arrays.empty(); });
  if (policy == BufferPolicy::synchronised || sources.empty() || targets < 2) return requests;
  const std::vector<Array>& pattern = shares[sources.front()].arrays;
  for (std::size_t buffer = 0; buffer < pattern.size(); ++buffer) {
    const DType dtype = pattern[buffer].dtype();
    CollectiveRequest& request = request_for(dtype, requests);
    const bool averaged = policy == BufferPolicy::mean && is_floating(dtype) && sources.size() > 1;
    CollectivePart part{.count = pattern[buffer].size(), .sources = {}, .targets = {}};
    for (std::size_t member = 0; member < shares.size(); ++member) {
      if (shares[member].arrays.empty()) continue;
      const CollectivePart::Place place{request.outputs.size(), 0, member};
      request.inputs.push_back(shares[member].arrays[buffer]);
      request.outputs.push_back(shares[member].arrays[buffer]);
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
