// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/capture/capture.h>

#include <tutti/backend/capture/recording_calls.h>
#include <tutti/backend/raise.h>
#include <tutti/backend/registry.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <unordered_set>

namespace tutti {
namespace {

constinit thread_local Capture* active = nullptr;
constinit thread_local bool host_constants = false;

/// The same places, which nobody owns. `over` takes no negative strides: it begins at the lowest.
Array unowned(const Array& array) {
  Strides forwards = array.strides();
  std::int64_t first = 0;
  for (std::size_t axis = 0; axis < array.rank(); ++axis) {
    if (forwards[axis] >= 0) continue;
    forwards[axis] = -forwards[axis];
    if (array.size() > 0) first += (array.shape()[axis] - 1) * forwards[axis];
  }
  auto* const lowest =
      static_cast<std::byte*>(array.raw_data()) - static_cast<std::size_t>(first) * size_of(array.dtype());
  return as_strided(Array::over(lowest, nullptr, array.dtype(), array.shape(), forwards, array.device()), array.shape(),
                    array.strides(), first);
}

}  // namespace

/// A pool within the device's own. Storages keep it.
class CaptureMemory final : public RawMemory {
 public:
  CaptureMemory(Device device, Backend& backend) : from_(backend.pool(device)), pool_(device, *this) {}

  void* allocate(std::size_t bytes) override {
    void* block = from_.allocate(bytes);
    const std::lock_guard lock(mutex_);
    blocks_.insert(block);
    return block;
  }
  void release(void* data, std::size_t bytes) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      blocks_.erase(data);
    }
    from_.release(data, bytes);
  }
  bool holds(const void* block) const {
    const std::lock_guard lock(mutex_);
    return blocks_.contains(block);
  }
  MemoryPool& pool() noexcept { return pool_; }

 private:
  MemoryPool& from_;
  mutable std::mutex mutex_;  // guards blocks_: storages may end on any thread
  std::unordered_set<const void*> blocks_;
  MemoryPool pool_;  // ends first: it gives its blocks back
};

Capture::Capture(Device device)
    : device_(device),
      inner_(registered_backend(device.kind)),
      memory_(std::make_shared<CaptureMemory>(device, inner_)),
      scratch_(std::make_shared<CaptureMemory>(device, inner_)),
      recording_(recording_calls(*this)) {
  memory_->pool().keep_by(memory_);
  scratch_->pool().keep_by(scratch_);
}

// Replays that are queued hold no reference to the memory.
Capture::~Capture() {
  try {
    inner_.compute_stream(device_).record().wait();
  } catch (...) {  // nothing runs on a device that has failed
  }
}

Backend& Capture::device_backend() const { return decorated_backend(device_.kind); }
MemoryPool& Capture::pool() noexcept { return memory_->pool(); }
std::size_t Capture::memory_bytes() const {
  return memory_->pool().statistics().reserved + scratch_->pool().statistics().reserved;
}
std::size_t Capture::live_storages() const { return static_cast<std::size_t>(memory_.use_count()) - 1; }

bool Capture::is_constant(const Array& array) const {
  const std::byte* base = array.storage()->data();
  return array.size() == 0 || (!memory_->holds(base) && !written_.contains(base));
}

TapeOperand Capture::operand(const Array& array, bool written) {
  if (!array.defined()) return {};
  const std::byte* base = array.storage()->data();
  if (const auto literal = literals_.find(base); literal != literals_.end())
    return {unowned(array), {true, literal->second, TapeOperand::Source::kLiteral}};
  const bool own = array.size() == 0 || memory_->holds(base);
  if (!own && std::ranges::find(trusted_, array.storage().get()) == trusted_.end())
    kept_.try_emplace(base, array.storage());
  TapeOperand operand{unowned(array), {!own, 0, array.offset()}};
  if (!own)
    operand.source.number = reinterpret_cast<std::uintptr_t>(base);
  else if (const auto writer = writers_.find(base); !written && writer != writers_.end())
    operand.source.number = writer->second;
  return operand;
}

void Capture::note_literal(const Array& array, const Scalar& value) {
  const std::byte* base = array.storage()->data();
  kept_.try_emplace(base, array.storage());
  literals_[base] = is_floating(value.default_dtype()) ? std::bit_cast<std::uint64_t>(value.to<double>())
                                                       : static_cast<std::uint64_t>(value.to<std::int64_t>());
}

void Capture::note_written(const Array& array) {
  if (!array.defined() || array.size() == 0) return;
  const std::byte* base = array.storage()->data();
  if (memory_->holds(base))
    writers_[base] = ++writes_;
  else
    written_.try_emplace(base, array.storage());
}

void Capture::begin_replay() {
  draws_.begin(inner_, device_);
  chained_calls_ = 0;
  for (const auto& [base, storage] : written_)
    if (const auto alive = storage.lock()) alive->count_write("a captured step");
}

void Capture::run(std::size_t begin, std::size_t end) {
  Backend& backend = device_backend();
  if (&backend != &inner_) return tape_.run(backend, begin, end);
  while (begin < end) {
    const std::size_t until = use_graphs_ ? std::max(tape_.constant_until(begin, end), begin + 1) : end;
    if (DeviceGraph* graph = graph_of(begin, until))
      graph->launch();
    else if (use_graphs_)
      tape_.run(inner_, begin, until);  // too few for a graph
    else if (until < end)
      continue;  // this kind of device has none
    else
      run_chains(begin, end);
    begin = until;
  }
}

// Null: the calls are to be made.
DeviceGraph* Capture::graph_of(std::size_t begin, std::size_t end) {
  if (!use_graphs_ || end - begin < kFewestInGraph) return nullptr;
  const auto [place, added] = graphs_.try_emplace({begin, end});
  if (added) try {
      place->second = inner_.make_graph(device_, scratch_->pool(), [&] { tape_.run(inner_, begin, end); });
    } catch (...) {
      graphs_.erase(place);
      throw;
    }
  if (place->second != nullptr) return place->second.get();
  graphs_.erase(place);
  use_graphs_ = false;  // nor will there be another time
  return nullptr;
}

void Capture::run_chains(std::size_t begin, std::size_t end) {
  const auto [place, added] = chains_.try_emplace({begin, end});
  if (added) place->second = ElementwiseChains::of(tape_, begin, end);
  if (place->second == nullptr) return tape_.run(inner_, begin, end);
  place->second->run(inner_);
  chained_calls_ += place->second->calls();
}

Capture* active_capture() noexcept { return active; }

CaptureScope::CaptureScope(Capture& capture) {
  if (active != nullptr) raise<CaptureError>("[capture] this thread captures a step already");
  active = &capture;
  redirect_backend(capture.device().kind, &capture.recording());
}

CaptureScope::~CaptureScope() {
  active = nullptr;
  redirect_backend({}, nullptr);
}

CaptureSuspension::CaptureSuspension() : suspended_(std::exchange(active, nullptr)) {
  if (suspended_ != nullptr) redirect_backend({}, nullptr);
}

CaptureSuspension::~CaptureSuspension() {
  if (suspended_ == nullptr) return;
  active = suspended_;
  redirect_backend(suspended_->device().kind, &suspended_->recording());
}

HostConstants::HostConstants() : previous_(std::exchange(host_constants, true)) {}
HostConstants::~HostConstants() { host_constants = previous_; }
bool HostConstants::declared() noexcept { return host_constants; }

}  // namespace tutti
