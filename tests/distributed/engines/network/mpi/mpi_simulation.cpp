// SPDX-License-Identifier: Apache-2.0
#include <tutti/tests/distributed/engines/network/mpi/mpi_simulation.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti::testing {

namespace {

constexpr std::size_t kShort = 1500;  // bytes that are copied when they are sent
constexpr int kMostLooks = 20;

}  // namespace

/// The calls of one rank, which one thread at a time makes. A request's handle is the place of its message, from 1.
class MpiSimulation::Rank final : public MpiCalls {
 public:
  Rank(MpiSimulation& world, std::size_t number) : world_(world), number_(number) {}

  State state() const noexcept override { return State::running; }
  Threads threads() const noexcept override { return Threads::multiple; }
  int start(Threads) noexcept override { return 0; }
  void finish() noexcept override {}
  int world_size() const noexcept override { return static_cast<int>(world_.ranks_.size()); }
  int world_rank() const noexcept override { return static_cast<int>(number_); }
  void abort() noexcept override {
    const std::lock_guard lock(world_.mutex_);
    world_.aborted_ = true;
  }

  int begin_communicator(MpiHandle& communicator, MpiRequest& request) noexcept override {
    const std::lock_guard lock(world_.mutex_);
    const std::uint64_t number = communicators_++;
    if (world_.joined_.size() <= number) world_.joined_.resize(number + 1);
    ++world_.joined_[number];
    std::memcpy(communicator.bytes, &number, sizeof number);
    joining_ = number;
    set(request, 0);
    return 0;
  }
  int return_errors(MpiHandle&) noexcept override { return 0; }

  int send(const MpiHandle& communicator, int rank, int tag, std::span<const std::byte> data,
           MpiRequest& request) noexcept override {
    const std::lock_guard lock(world_.mutex_);
    if (fails_) return 1;
    messages_.push_back(world_.send(
        {number_, static_cast<std::size_t>(rank), value_of(communicator), tag, data.data(), nullptr, data.size()}));
    set(request, messages_.size());
    return 0;
  }
  int receive(const MpiHandle& communicator, int rank, int tag, std::span<std::byte> data,
              MpiRequest& request) noexcept override {
    const std::lock_guard lock(world_.mutex_);
    messages_.push_back(world_.receive(
        {static_cast<std::size_t>(rank), number_, value_of(communicator), tag, nullptr, data.data(), data.size()}));
    set(request, messages_.size());
    return 0;
  }
  int test(MpiRequest& request) noexcept override {
    const std::lock_guard lock(world_.mutex_);
    const std::uint64_t place = value_of(request.handle);
    if (place == 0) {
      request.active = world_.joined_[joining_] < world_.ranks_.size();
      return 0;
    }
    Message& message = *messages_[place - 1];
    if (message.matched && message.looks > 0) --message.looks;
    request.active = !message.cancelled && (!message.matched || message.looks > 0);
    return 0;
  }
  int test_some(std::span<MpiRequest* const> requests) noexcept override {
    for (MpiRequest* each : requests) test(*each);
    return 0;
  }
  void cancel(MpiRequest& request) noexcept override {
    const std::lock_guard lock(world_.mutex_);
    const auto& message = messages_[value_of(request.handle) - 1];
    if (message->matched) return;
    message->cancelled = true;
    world_.received_.remove(message);
  }
  void describe(int, std::span<char> text) const noexcept override {
    std::strncpy(text.data(), "a simulated error", text.size());
  }

 private:
  static std::uint64_t value_of(const MpiHandle& handle) {
    std::uint64_t value = 0;
    std::memcpy(&value, handle.bytes, sizeof value);
    return value;
  }
  static void set(MpiRequest& request, std::uint64_t place) {
    std::memcpy(request.handle.bytes, &place, sizeof place);
    request.active = true;
  }

  MpiSimulation& world_;
  std::size_t number_;
  std::uint64_t communicators_ = 0;
  std::uint64_t joining_ = 0;
  bool fails_ = false;
  friend class MpiSimulation;
  std::vector<std::shared_ptr<Message>> messages_;
};

MpiSimulation::MpiSimulation(std::size_t ranks) {
  for (std::size_t number = 0; number < ranks; ++number) ranks_.push_back(std::make_unique<Rank>(*this, number));
}
MpiSimulation::~MpiSimulation() = default;

MpiCalls& MpiSimulation::rank(std::size_t number) { return *ranks_[number]; }

void MpiSimulation::fail(std::size_t rank) {
  const std::lock_guard lock(mutex_);
  ranks_[rank]->fails_ = true;
}

bool MpiSimulation::aborted() const {
  const std::lock_guard lock(mutex_);
  return aborted_;
}

std::size_t MpiSimulation::unreceived() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(sent_, [](const auto& each) { return each->bytes > kShort; }));
}

bool MpiSimulation::fits(const Message& sent, const Message& received) {
  return sent.from == received.from && sent.to == received.to && sent.communicator == received.communicator &&
         sent.tag == received.tag;
}

void MpiSimulation::deliver(Message& sent, Message& received) {
  if (sent.bytes > 0) std::memcpy(received.in, sent.out, sent.bytes);
  received.matched = true;
  if (sent.bytes > kShort) sent.looks = static_cast<int>(random_() % kMostLooks);
  sent.matched = true;
}

std::shared_ptr<MpiSimulation::Message> MpiSimulation::send(Message message) {
  auto sent = std::make_shared<Message>(std::move(message));
  if (sent->bytes <= kShort) {
    sent->copy.assign(sent->out, sent->out + sent->bytes);
    sent->out = sent->copy.data();
    sent->matched = true;
  }
  const auto found = std::ranges::find_if(received_, [&](const auto& each) { return fits(*sent, *each); });
  if (found == received_.end()) {
    sent_.push_back(sent);
  } else {
    deliver(*sent, **found);
    received_.erase(found);
  }
  return sent;
}

std::shared_ptr<MpiSimulation::Message> MpiSimulation::receive(Message message) {
  auto received = std::make_shared<Message>(std::move(message));
  const auto found = std::ranges::find_if(sent_, [&](const auto& each) { return fits(*each, *received); });
  if (found == sent_.end()) {
    received_.push_back(received);
  } else {
    deliver(**found, *received);
    sent_.erase(found);
  }
  return received;
}

}  // namespace tutti::testing
