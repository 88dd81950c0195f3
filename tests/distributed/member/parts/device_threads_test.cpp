// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/member/parts/device_threads.h>

#include <tutti/backend/error.h>
#include <tutti/distributed/threads/thread_number.h>

#include <doctest/doctest.h>

#include <thread>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using Phase = DeviceThread::Phase;
using Taken = DeviceThread::Taken;

namespace {
const GroupMembers kMembers({cpu(0), cpu(1)});

Taken taken_elsewhere(DeviceThread& thread) {
  Taken taken = Taken::first;
  std::thread([&] { taken = thread.take(); }).join();
  return taken;
}
}  // namespace

TEST_CASE("device_threads: a device is one thread's at a time, which may take it again") {
  DeviceThread thread;
  CHECK(thread.take() == Taken::first);
  CHECK(thread.take() == Taken::again);
  CHECK(taken_elsewhere(thread) == Taken::refused);
  thread.give_back();
  CHECK(taken_elsewhere(thread) == Taken::first);
}

TEST_CASE("device_threads: who opened a step is told while it is open, who opened the last one afterwards too") {
  DeviceThread thread;
  CHECK(thread.last_driver() == 0);
  thread.enter(Phase::open, 3);
  CHECK(thread.open_in() == this_thread_number());
  CHECK(thread.open_generation() == 3);
  thread.enter(Phase::posted, 3);
  CHECK(thread.open_in() == 0);
  CHECK(thread.last_driver() == this_thread_number());
  CHECK(thread.phase() == Phase::posted);
}

TEST_CASE("device_threads: a thread may not wait for a step that it has itself opened") {
  DeviceThreads threads(kMembers);
  threads.refuse_waiting_for_own(0, 9);
  threads[1].enter(Phase::open, 4);
  CHECK_THROWS_WITH_AS(threads.refuse_waiting_for_own(0, 4),
                       "[sync] cpu:0 would wait for cpu:1 in step 4, which this same thread drives and has not posted: "
                       "call backward_async on every device of a thread, then join_all",
                       SyncError);
  threads.refuse_waiting_for_own(0, 3);                               // a step before it
  threads.refuse_waiting_for_own(1, 4);                               // its own
  std::thread([&] { threads.refuse_waiting_for_own(0, 4); }).join();  // another thread's to wait
  threads[1].enter(Phase::posted, 4);
  threads.refuse_waiting_for_own(0, 4);
}
