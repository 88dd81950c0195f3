// SPDX-License-Identifier: Apache-2.0
// One rank of a job, killed or stopped by control_processes_test.cpp: control_process RANK SIZE PORT. Sends back what
// comes, and "pause" when it stood still; ends when rank 0 does, or after a minute.
#include <tutti/tests/distributed/processes/control/job.h>

#include <cstdio>

using namespace tutti;
using namespace tutti::testing;

namespace {

int work(int rank, int size, int port) {
  ControlChannel channel(place_of(rank, size, port), secret_of(kSecret), {.silence = 1s, .heartbeat = 100ms});
  const int peer = rank == 0 ? 1 : 0;
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (auto event = channel.receive(until)) {
    if (const auto* message = std::get_if<ControlMessage>(&*event)) {
      if (text_of(*message) == "end") return 0;
      channel.send(peer, message->bytes);
    } else if (std::holds_alternative<OwnPause>(*event)) {
      channel.send(peer, bytes_of("pause"));
    } else if (std::holds_alternative<PeerDied>(*event)) {
      return 0;
    } else if (const auto* lost = std::get_if<PeerLost>(&*event)) {
      if (lost->reason != PeerLost::Reason::silent) return 0;
      channel.send(peer, bytes_of("accused"));
    }
  }
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  try {
    return work(std::stoi(arguments[1]), std::stoi(arguments[2]), std::stoi(arguments[3]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "control_process: %s\n", error.what());
    return 3;
  }
}
