// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::testing {

class CudaMachine;

struct RecordedCall {
  std::string name;  ///< "cudaMalloc"
  std::string text;  ///< what it was about
};

struct KernelLaunch {
  std::string name;  ///< demangled: "tutti::cuda_kernels::fill<float>(...)"
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
  void** arguments;  ///< valid during the launch only
};

/// A pointer among a kernel's arguments: where it is, and what the kernel does with what it points to.
struct KernelPointer {
  std::size_t argument;
  std::size_t offset = 0;  ///< of the pointer, within an argument that is a struct
  std::size_t bytes = 0;   ///< 0: all of the allocation, from there on
  bool write = false;
};

/// What one launch of a kernel reads or writes.
struct KernelUse {
  const void* data;
  std::size_t bytes;
  bool write = false;
};

struct MachineOptions {
  int devices = 2;
  bool peers = true;      ///< kernels may use memory of other devices, once that is enabled
  bool deferred = false;  ///< queued work runs when the test advances its stream, or when the host waits for it
  std::size_t memory = std::size_t{1} << 30U;  ///< bytes that cudaMalloc may hand out on each device
  std::size_t pinned = std::size_t{1} << 30U;  ///< bytes that cudaHostAlloc may hand out
  bool driver = true;                          ///< false: there is none, and no devices
  bool workspace_fits = true;  ///< false: the workspaces that cuSOLVER's functions ask for are beyond their 32 bits
};

/// A machine with CUDA devices, for code that is linked with this library in place of the CUDA runtime. Device memory
/// is host memory, so copies move bytes; kernels do nothing, unless a test says what. Every call is recorded, and these
/// mistakes are found, each once, with what led to it:
///  - a stream, event or pointer that is destroyed, out of bounds or of another device; the default stream;
///  - a kernel or copy queued while another device is current; a kernel that uses another device's memory unasked;
///  - a wait for an event that was never recorded;
///  - two uses of memory on two streams, one of them a write, that neither events nor the host put in order;
///  - memory freed, or a stream destroyed, before the host knows that what was queued is done;
///  - writes beyond either end of an allocation; when the machine goes: what nobody destroyed or freed.
/// The destructor fails the test case for each. The host counts as one thread: what one of its threads has waited for
/// orders what another queues. One machine at a time; without one there is no device.
class RecordingCuda {
 public:
  explicit RecordingCuda(MachineOptions = {});
  ~RecordingCuda();
  RecordingCuda(const RecordingCuda&) = delete;
  RecordingCuda& operator=(const RecordingCuda&) = delete;

  // --- what was called
  std::vector<RecordedCall> calls() const;
  std::size_t count(std::string_view name = "*") const;
  std::size_t alive(std::string_view what) const;  ///< of "stream", "event", "device memory", "pinned memory"
  int priority(cudaStream_t) const;
  bool has_context(int device) const;

  // --- what was wrong
  std::vector<std::string> faults() const;
  std::vector<std::string> take_faults();  ///< and the destructor does not complain of them
  std::vector<std::string> leaks() const;

  // --- queued work
  std::size_t queued(cudaStream_t) const;
  bool advance(cudaStream_t);  ///< runs one piece; false if there is none, or it has to wait for another stream
  /// For work that the library cannot see into.
  void note_use(cudaStream_t, const void* data, std::size_t bytes, bool write);

  /// From now on nothing that is queued there runs, until `resume`; a host that waits for it makes a mistake.
  void hang(cudaStream_t);
  void resume(cudaStream_t);

  // --- failures. The nth call from now on, of that name; "*" for any. One failure at a time.
  void fail_call(std::string_view name, std::size_t nth, cudaError_t);
  bool failed() const;  ///< whether that has happened
  /// The next piece of work queued by such a call, or kernel of that name, goes wrong when it runs: whoever waits next
  /// is told; with `sticky` every later call on the device is, too.
  void fail_work(std::string_view name, cudaError_t, bool sticky = false);

  // --- kernels, by a part of their names
  void declare_kernel(std::string_view name, std::vector<KernelPointer>);
  void declare_kernel(std::string_view name, std::function<std::vector<KernelUse>(const KernelLaunch&)>);
  /// `prepare` reads the arguments when the kernel is launched; what it returns runs in its place, in order.
  void on_kernel(std::string_view name, std::function<std::function<void()>(const KernelLaunch&)> prepare);
  std::vector<std::string> kernels() const;  ///< launched so far, in order of launching

 private:
  std::unique_ptr<CudaMachine> machine_;
};

}  // namespace tutti::testing
