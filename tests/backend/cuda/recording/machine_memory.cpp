// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/backend/cuda/recording/cuda_machine.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace tutti::testing {

namespace {

constexpr std::align_val_t kAlignment{256};
constexpr std::byte kGuardByte{0xA5};
constexpr int kFreshByte = 0xCB;  // what nobody has written yet

}  // namespace

std::uint64_t VectorClock::tick(std::size_t stream) {
  if (passed_.size() <= stream) passed_.resize(stream + 1);
  return ++passed_[stream];
}

void VectorClock::join(const VectorClock& other) {
  if (passed_.size() < other.passed_.size()) passed_.resize(other.passed_.size());
  for (std::size_t i = 0; i < other.passed_.size(); ++i) passed_[i] = std::max(passed_[i], other.passed_[i]);
}

Allocation::Allocation(std::size_t number, int device, std::size_t bytes)
    : number_(number),
      device_(device),
      bytes_(bytes),
      memory_(static_cast<std::byte*>(::operator new(bytes + 2 * kGuard, kAlignment))) {
  std::fill_n(memory_, kGuard, kGuardByte);
  std::memset(data(), kFreshByte, bytes);
  std::fill_n(data() + bytes, kGuard, kGuardByte);
}

Allocation::~Allocation() { ::operator delete(memory_, kAlignment); }

bool Allocation::holds(const void* pointer) const {
  const auto* place = static_cast<const std::byte*>(pointer);
  return !std::less<>()(place, data()) && std::less<>()(place, data() + std::max<std::size_t>(bytes_, 1));
}

bool Allocation::guards_intact() const {
  const auto intact = [](std::byte b) { return b == kGuardByte; };
  return std::all_of(memory_, memory_ + kGuard, intact) &&
         std::all_of(data() + bytes_, data() + bytes_ + kGuard, intact);
}

std::string Allocation::name() const {
  const std::string place = pinned() ? "pinned memory" : fmt::format("memory of cuda:{}", device_);
  return fmt::format("allocation {} ({} bytes, {})", number_, bytes_, place);
}

void* CudaMachine::allocate(int device, std::size_t bytes) {
  std::size_t& held = handed_out_[device];
  const std::size_t most = device < 0 ? options.pinned : options.memory;
  if (bytes > most || held > most - bytes) return nullptr;
  held += bytes;
  return allocations.emplace_back(allocations.size() + 1, device, bytes).data();
}

cudaError_t CudaMachine::free(const char* call, void* data, bool pinned) {
  if (data == nullptr) return cudaSuccess;
  Allocation* found = find(data);
  if (found == nullptr || found->data() != data || found->pinned() != pinned) {
    fault(fmt::format("{} of a pointer that was not allocated for it", call));
    return cudaErrorInvalidValue;
  }
  if (found->freed) {
    fault(fmt::format("{} of {}, a second time", call, found->name()));
    return cudaErrorInvalidValue;
  }
  for (const Allocation::Access& access : found->accesses)
    if (access.stamp > host_.of(access.stream)) {
      fault(fmt::format("{} of {}, which {} may still use", call, found->name(), access.what));
      break;
    }
  if (!found->guards_intact()) fault(fmt::format("{} was written beyond its ends", found->name()));
  found->freed = true;
  handed_out_[found->device()] -= found->bytes();
  return cudaSuccess;
}

Allocation* CudaMachine::find(const void* pointer) {
  for (Allocation& each : allocations)
    if (each.holds(pointer)) return &each;
  return nullptr;
}

bool CudaMachine::check_use(SimulatedStream& stream, const std::string& what, const MemoryUse& used) {
  if (used.bytes == 0) return true;
  const Allocation* memory = find(used.data);
  if (memory == nullptr) {
    fault(fmt::format("{} on {} uses memory that CUDA does not know", what, stream.name()));
    return false;
  }
  if (memory->freed) fault(fmt::format("{} on {} uses {}, which was freed", what, stream.name(), memory->name()));
  const auto begin = static_cast<std::size_t>(static_cast<const std::byte*>(used.data) - memory->data());
  if (used.bytes > memory->bytes() - begin)
    fault(fmt::format("{} on {} uses {} bytes from byte {} of {}", what, stream.name(), used.bytes, begin,
                      memory->name()));
  return !memory->freed && used.bytes <= memory->bytes() - begin;
}

void CudaMachine::report_unordered(const Allocation& memory, const Allocation::Access& earlier,
                                   const Allocation::Access& later) {
  const auto verb = [](const Allocation::Access& access) { return access.write ? "writes" : "reads"; };
  fault(fmt::format("{} {} bytes {} to {} of {}, which {} {}: nothing orders the two", later.what, verb(later),
                    later.begin, later.end, memory.name(), earlier.what, verb(earlier)));
}

void CudaMachine::use(SimulatedStream& stream, const std::string& what, const MemoryUse& used) {
  if (used.bytes == 0 || !check_use(stream, what, used)) return;
  Allocation& memory = *find(used.data);
  const auto begin = static_cast<std::size_t>(static_cast<const std::byte*>(used.data) - memory.data());
  const Allocation::Access later{fmt::format("{} on {}", what, stream.name()),
                                 stream.number,
                                 stream.clock.of(stream.number),
                                 begin,
                                 begin + used.bytes,
                                 used.write};
  for (const Allocation::Access& earlier : memory.accesses) {
    const bool overlap = earlier.begin < later.end && later.begin < earlier.end;
    const bool ordered = earlier.stamp <= stream.clock.of(earlier.stream);
    if (overlap && !ordered && (earlier.write || later.write)) report_unordered(memory, earlier, later);
  }
  // Whatever conflicts with what was overtaken in order conflicts with this one, too.
  std::erase_if(memory.accesses, [&](const Allocation::Access& earlier) {
    return earlier.begin >= later.begin && earlier.end <= later.end && (later.write || !earlier.write) &&
           earlier.stamp <= stream.clock.of(earlier.stream);
  });
  memory.accesses.push_back(later);
}

}  // namespace tutti::testing
