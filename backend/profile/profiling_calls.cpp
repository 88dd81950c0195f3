// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/profile/profiling_calls.h>

#include <tutti/backend/calls/gradient_of.h>
#include <tutti/backend/error.h>
#include <tutti/backend/forwarding_backend.h>
#include <tutti/backend/profile/kernel_words.h>
#include <tutti/backend/profile/kernel_work.h>

#include <chrono>
#include <utility>

namespace tutti {
namespace {

class ProfilingCalls final : public ForwardingBackend<ProfilingCalls> {
 public:
  ProfilingCalls(Backend& inner, ProfiledRun& run, bool& within)
      : ForwardingBackend(inner), run_(run), within_(within) {}

  template <class Kernel, class... Arguments> void call(Kernel kernel, const Arguments&... arguments) {
    ProfiledKernel noted;
    bool has_device = false;
    if (!within_)
      for_each_array<Kernel>(
          [&](const Array& array, bool, bool) {
            if (!std::exchange(has_device, true)) noted.device = array.device();
            noted.operands.push_back({array.dtype(), array.shape()});
          },
          arguments...);
    if (!has_device) return Kernel::run(inner(), arguments...);
    time(noted, [&] { Kernel::run(inner(), arguments...); });
    noted.name = name_of<Kernel>(arguments...);
    noted.flops = flops_of(kernel, arguments...);
    add(std::move(noted), traffic_of(kernel, arguments...));
  }

  void copy_from_host(const void* from, const Array& to) override {
    note_copy("copy_from_host", to, {0.0, distinct_bytes(to)}, [&] { inner().copy_from_host(from, to); });
  }
  void copy_to_host(const Array& from, void* to) override {
    note_copy("copy_to_host", from, {distinct_bytes(from), 0.0}, [&] { inner().copy_to_host(from, to); });
  }
  void copy_from_device(const Array& from, const Array& to) override {
    note_copy("copy_from_device", to, {distinct_bytes(from), distinct_bytes(to)},
              [&] { inner().copy_from_device(from, to); });
  }

 private:
  template <class Work> void note_copy(const char* name, const Array& array, Traffic traffic, const Work& work) {
    if (within_) return work();
    ProfiledKernel noted;
    noted.name = name;
    noted.device = array.device();
    noted.operands.push_back({array.dtype(), array.shape()});
    time(noted, work);
    add(std::move(noted), traffic);
  }

  /// Runs the work while the stream has nothing else, and waits for it.
  template <class Work> void time(ProfiledKernel& noted, const Work& work) {
    struct Within {
      explicit Within(bool& set) : flag(set) { flag = true; }
      ~Within() { flag = false; }
      bool& flag;
    };
    Stream& stream = inner().compute_stream(noted.device);
    stream.synchronize();
    const Within within(within_);
    const auto begin = steady_now();
    work();
    stream.synchronize();
    noted.duration = steady_now() - begin;
    noted.begin = begin - run_.begin;
  }

  void add(ProfiledKernel noted, Traffic traffic) {
    noted.bytes_read = traffic.read;
    noted.bytes_written = traffic.written;
    noted.backward = detail::gradient_of != nullptr;
    noted.operation = noted.backward ? *detail::gradient_of : detail::operation_called("");
    run_.kernels.push_back(std::move(noted));
  }

  ProfiledRun& run_;
  bool& within_;
};

}  // namespace

std::unique_ptr<Backend> profiling_calls(Backend& registered, ProfiledRun& run, bool& within) {
  return std::make_unique<ProfilingCalls>(registered, run, within);
}

}  // namespace tutti
