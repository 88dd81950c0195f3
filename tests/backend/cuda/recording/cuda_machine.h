// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/tests/backend/cuda/recording/recording_cuda.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

namespace tutti::testing {

/// How far each stream had come, by the stream's number, at what happens before some point.
class VectorClock {
 public:
  std::uint64_t of(std::size_t stream) const { return stream < passed_.size() ? passed_[stream] : 0; }
  std::uint64_t tick(std::size_t stream);
  void join(const VectorClock&);

 private:
  std::vector<std::uint64_t> passed_;
};

/// One use of memory by queued work.
struct MemoryUse {
  const void* data;
  std::size_t bytes;
  bool write;
};

/// Memory that was handed out; kept when freed, so that later uses are recognised.
class Allocation {
 public:
  static constexpr std::size_t kGuard = 256;
  struct Access {
    std::string what;
    std::size_t stream;
    std::uint64_t stamp;
    std::size_t begin;
    std::size_t end;
    bool write;
  };

  Allocation(std::size_t number, int device, std::size_t bytes);
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  bool pinned() const { return device_ < 0; }
  int device() const { return device_; }  ///< -1: pinned host memory
  std::byte* data() const { return memory_ + kGuard; }
  std::size_t bytes() const { return bytes_; }
  bool holds(const void* pointer) const;
  bool guards_intact() const;
  std::string name() const;

  bool freed = false;
  std::vector<Access> accesses;

 private:
  std::size_t number_;
  int device_;
  std::size_t bytes_;
  std::byte* memory_;
};

struct SimulatedStream;

/// A place in a stream's queue that an event was recorded at.
struct QueuePoint {
  SimulatedStream* stream;
  VectorClock clock;
  bool reached = false;
};

struct QueuedWork {
  std::string name;
  std::function<void()> run;
  std::shared_ptr<QueuePoint> reaches;
  std::shared_ptr<QueuePoint> awaits;
};

/// What was queued on a stream while it was captured.
struct SimulatedGraph {
  struct Piece {
    QueuedWork work;
    std::vector<MemoryUse> uses;
  };
  std::size_t number;
  int device;
  bool executable = false;  // else as captured
  bool destroyed = false;
  std::vector<Piece> pieces;
  std::string name() const;
};

struct SimulatedStream {
  std::size_t number;
  int device;
  int priority;
  bool destroyed = false;
  bool running = false;  // one thread at a time runs its work
  bool hangs = false;
  SimulatedGraph* captured = nullptr;  // into which what is queued goes
  VectorClock clock;
  std::deque<QueuedWork> queue;
  std::string name() const;
};

struct SimulatedEvent {
  std::size_t number;
  int device;
  bool destroyed = false;
  std::shared_ptr<QueuePoint> point;
  std::string name() const;
};

/// What stands behind RecordingCuda: the functions of the runtime act on it, under its mutex.
class CudaMachine {
 public:
  using Lock = std::unique_lock<std::mutex>;

  explicit CudaMachine(const MachineOptions& options) : options(options) {}

  static CudaMachine* current();
  static void make_current(CudaMachine*);

  // --- one call
  cudaError_t enter(const char* name, std::string text, bool releases);  ///< records it; an error it is to give
  cudaError_t leave(cudaError_t);                                        ///< remembers an error
  struct HostThread {
    int device = 0;
    cudaError_t error = cudaSuccess;
  };
  HostThread& thread() { return threads_[std::this_thread::get_id()]; }
  void fault(std::string text);

  // --- memory
  void* allocate(int device, std::size_t bytes);  ///< -1: pinned; nullptr when there is no room
  cudaError_t free(const char* call, void*, bool pinned);
  Allocation* find(const void*);  ///< freed or not
  void use(SimulatedStream&, const std::string& what, const MemoryUse&);
  bool check_use(SimulatedStream&, const std::string& what, const MemoryUse&);

  // --- streams and events
  cudaStream_t make_stream(int priority);
  cudaEvent_t make_event();
  SimulatedStream* stream(const char* call, cudaStream_t);  ///< nullptr, and a fault, if there is none
  SimulatedEvent* event(const char* call, cudaEvent_t);
  void check_device(const char* call, const SimulatedStream&);
  void enqueue(Lock&, SimulatedStream&, QueuedWork, const std::vector<MemoryUse>& = {});
  SimulatedGraph& make_graph(int device);
  SimulatedGraph* graph(const char* call, void* handle, bool executable);  ///< nullptr, and a fault, if there is none
  /// A fault, and true, if a stream is captured that may not be: the device's, or this one.
  bool refuses_capture(const char* call, int device, const SimulatedStream* = nullptr);
  bool step(Lock&, SimulatedStream&, bool follow);
  void drain(Lock&, SimulatedStream&);
  void reach(Lock&, const std::shared_ptr<QueuePoint>&);
  /// Waits, behind one of these, for other processes (threads of the test) that a machine that runs by itself needs.
  void wait_for_others(Lock&, SimulatedStream&, const std::function<bool()>& done);
  void check_waited(const char* call, const SimulatedStream&, bool done);  ///< of a host that would wait for good
  void host_waited_for(const VectorClock& clock) { host_.join(clock); }
  cudaError_t asynchronous_error(int device);

  // --- handles of libraries above the runtime
  void* make_handle(std::string what);
  bool check_handle(const char* call, const void*);  ///< false, and a fault, if there is none
  void destroy_handle(const char* call, const void*);

  // --- kernels
  static constexpr std::size_t kMostShared = 227U << 10U;  // bytes a block
  cudaError_t launch(Lock&, const KernelLaunch&);

  std::vector<std::string> leaks();

  const MachineOptions options;
  std::mutex mutex;  // guards all that follows
  std::vector<RecordedCall> calls;
  std::vector<std::string> faults;
  std::vector<std::string> kernels;
  std::deque<Allocation> allocations;
  std::deque<SimulatedStream> streams;
  std::deque<SimulatedEvent> events;
  std::deque<SimulatedGraph> graphs;
  struct LibraryHandle {
    std::string what;
    bool destroyed = false;
  };
  std::deque<LibraryHandle> handles;
  std::set<int> contexts;                     // devices that a thread has made current, or used
  std::set<std::pair<int, int>> peer_access;  // the first device's kernels may use the second's memory

  struct CallFailure {
    std::string name;
    std::size_t left;
    cudaError_t error;
  };
  std::optional<CallFailure> call_failure;
  struct WorkFailure {
    std::string name;
    cudaError_t error;
    bool sticky;
  };
  std::optional<WorkFailure> work_failure;
  struct DeclaredKernel {
    std::string name;
    std::vector<KernelPointer> pointers;
    std::function<std::vector<KernelUse>(const KernelLaunch&)> uses;
  };
  std::vector<DeclaredKernel> declared;
  struct KernelBody {
    std::string name;
    std::function<std::function<void()>(const KernelLaunch&)> prepare;
  };
  std::vector<KernelBody> bodies;

 private:
  void run(Lock&, SimulatedStream&);
  std::vector<MemoryUse> declared_uses(const KernelLaunch&);
  bool fails(SimulatedStream&, const std::string& work);
  void report_unordered(const Allocation&, const Allocation::Access& earlier, const Allocation::Access& later);

  struct DeviceError {
    cudaError_t error = cudaSuccess;
    bool sticky = false;
  };
  std::map<int, DeviceError> errors_;
  std::map<int, std::size_t> handed_out_;  // bytes, by device
  std::map<std::thread::id, HostThread> threads_;
  std::condition_variable changed_;
  VectorClock host_;
};

/// One function of the runtime: `body(machine, lock)` does it, unless the test makes it fail.
template <class F> cudaError_t recorded_call(const char* name, std::string text, F&& body) {
  CudaMachine* machine = CudaMachine::current();
  if (machine == nullptr) return cudaErrorNoDevice;
  CudaMachine::Lock lock(machine->mutex);
  cudaError_t error = machine->enter(name, std::move(text), false);
  if (error == cudaSuccess) error = body(*machine, lock);
  return machine->leave(error);
}

/// One that gives something back: that happens also when it returns an error, which may be an earlier one.
template <class F> cudaError_t recorded_release(const char* name, std::string text, F&& body) {
  CudaMachine* machine = CudaMachine::current();
  if (machine == nullptr) return cudaErrorNoDevice;
  CudaMachine::Lock lock(machine->mutex);
  const cudaError_t earlier = machine->enter(name, std::move(text), true);
  const cudaError_t error = body(*machine, lock);
  return machine->leave(earlier == cudaSuccess ? error : earlier);
}

}  // namespace tutti::testing
