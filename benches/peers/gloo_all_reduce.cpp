// SPDX-License-Identifier: Apache-2.0
// gloo_all_reduce ALGORITHM WAITING BINDING WRITTEN CALLS: all-reduce between two processes by Gloo over TCP on the
// loopback. A sample is the mean of CALLS calls.
#include <tutti/benches/peers/all_reduce_rounds.h>
#include <tutti/benches/peers/two_processes.h>

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace tutti::bench;

namespace {

std::shared_ptr<gloo::rendezvous::Context> connect(int rank, const std::string& folder) {
  const auto context = std::make_shared<gloo::rendezvous::Context>(rank, 2);
  context->setTimeout(std::chrono::seconds(30));
  gloo::rendezvous::FileStore store(folder);
  auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
  context->connectFullMesh(store, device);
  return context;
}

template <class Algorithm>
AllReduceRounds::Reduce older(const std::shared_ptr<gloo::Context>& context, float* data, std::size_t count) {
  const auto algorithm = std::make_shared<Algorithm>(context, std::vector<float*>{data}, static_cast<int>(count));
  return [algorithm] { algorithm->run(); };
}

AllReduceRounds::Reduce newer(const std::shared_ptr<gloo::Context>& context, gloo::AllreduceOptions::Algorithm which,
                              float* data, std::size_t count) {
  const auto options = std::make_shared<gloo::AllreduceOptions>(context);
  options->setAlgorithm(which);
  options->setOutput(data, count);
  options->setReduceFunction([](void* out, const void* a, const void* b, std::size_t n) {
    auto* __restrict result = static_cast<float*>(out);
    const auto* lhs = static_cast<const float*>(a);
    const auto* rhs = static_cast<const float*>(b);
    for (std::size_t i = 0; i < n; ++i) result[i] = lhs[i] + rhs[i];
  });
  return [options] { gloo::allreduce(*options); };
}

AllReduceRounds::Prepare algorithm_of(const std::string& name, const std::shared_ptr<gloo::Context>& context) {
  using gloo::AllreduceOptions;
  return [=](float* data, std::size_t count) -> AllReduceRounds::Reduce {
    if (name == "ring_chunked") return older<gloo::AllreduceRingChunked<float>>(context, data, count);
    if (name == "halving_doubling") return older<gloo::AllreduceHalvingDoubling<float>>(context, data, count);
    if (name == "ring") return newer(context, AllreduceOptions::Algorithm::RING, data, count);
    if (name == "bcube") return newer(context, AllreduceOptions::Algorithm::BCUBE, data, count);
    throw std::runtime_error("no algorithm " + name);
  };
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return std::fputs("usage: gloo_all_reduce ALGORITHM block|poll bound|free 0|1 CALLS\n", stderr), 2;
  const std::string name = argv[1];
  const std::string waiting = argv[2];
  const std::string binding = argv[3];
  const RendezvousFolder folder;
  return run_two_processes(120, binding == "bound", [&](int rank, SharedPage& page) {
    const auto context = connect(rank, folder.path());
    if (waiting == "poll") context->getPair(1 - rank)->setSync(true, true);  // older algorithms only
    AllReduceRounds rounds(rank, argv[4] == std::string("1"), std::atoi(argv[5]), name + " " + waiting + " " + binding,
                           [&] { page.barrier.arrive_and_wait(); });
    rounds.run(algorithm_of(name, context));
    page.barrier.arrive_and_wait();  // neither closes a connection that the other still uses
  });
}
