// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/control_channel.h>

#include <tutti/backend/process/deadline.h>
#include <tutti/backend/process/start_thread.h>
#include <tutti/backend/processor/instruction_sets.h>
#include <tutti/backend/raise.h>
#include <tutti/distributed/processes/control/address.h>
#include <tutti/distributed/processes/control/death_watch.h>
#include <tutti/distributed/processes/control/loop.h>
#include <tutti/distributed/processes/control/mailbox.h>
#include <tutti/distributed/processes/control/star.h>
#include <tutti/version.h>

#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

namespace tutti::control {

namespace {

std::uint64_t random_number() {
  std::uint64_t number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number)
    if (errno != EINTR) raise<Error>("[control channel] no random number: {}", std::strerror(errno));
  return number;
}

ControlOptions checked(ControlOptions options) {
  using std::chrono::milliseconds;
  options.rendezvous = bounded_wait("ControlOptions::rendezvous", options.rendezvous, milliseconds(1));
  options.silence = bounded_wait("ControlOptions::silence", options.silence, milliseconds(10));
  options.heartbeat = bounded_wait("ControlOptions::heartbeat", options.heartbeat, milliseconds(1));
  if (options.heartbeat >= options.silence)
    raise<Error>("[control channel] ControlOptions::heartbeat is {} ms: it must be below `silence`, {} ms",
                 options.heartbeat.count(), options.silence.count());
  return options;
}

void check(const LaunchPlace& place) {
  if (place.size < 1 || place.rank < 0 || place.rank >= place.size)
    raise<Error>("[control channel] rank {} of {} processes", place.rank, place.size);
  if (place.job.size() > kMostTextBytes)
    raise<Error>("[control channel] the job's name has {} bytes: at most {}", place.job.size(), kMostTextBytes);
}

void check_secret(const LaunchPlace& place, const JobSecret& secret, const std::vector<Address>& addresses) {
  if (secret.given()) return;
  for (const Address& each : addresses)
    if (!each.loopback)
      raise<Error>(
          "[rendezvous] \"{}\" is {}, which other hosts reach, and the job has no secret: write one into a file of "
          "mode "
          "0600 (head -c 32 /dev/urandom | base64) and name it in TUTTI_SECRET_FILE, or set TUTTI_SECRET, the same for "
          "all processes",
          place.address, each.text);
}

Star::Plan plan_of(const LaunchPlace& place, const JobSecret& secret) {
  Star::Plan plan{.rank = place.rank, .size = place.size, .listen_at = {}, .coordinator = {}, .port = place.port};
  const std::vector<Address> resolved = resolve(place);
  if (place.rank == 0) {
    plan.listen_at = own_addresses(place, resolved);
    check_secret(place, secret, plan.listen_at);
  } else {
    const Route route = route_to(place, resolved);
    check_secret(place, secret, {route.coordinator, route.own});
    plan.listen_at = {route.own};
    plan.coordinator = route.coordinator;
  }
  return plan;
}

// Two jobs of one host that have neither secret nor name differ in their ports.
std::unique_ptr<DeathWatch> make_watch(const LaunchPlace& place, const JobSecret& secret) {
  std::string name = "tutti-";
  for (const std::uint8_t each : secret.token("tutti watch name", fmt::format("{}:{}", place.port, place.job), 0))
    name += fmt::format("{:02x}", each);
  std::vector<JobSecret::Token> tokens;
  for (int rank = 0; rank < place.size; ++rank) tokens.push_back(secret.token("tutti watch rank", place.job, rank));
  return std::make_unique<DeathWatch>(place.rank, std::move(name), std::move(tokens));
}

Hello hello_of(const LaunchPlace& place, const ControlOptions& options, const std::string& address) {
  Hello hello;
  hello.rank = static_cast<std::uint32_t>(place.rank);
  hello.pid = static_cast<std::uint64_t>(getpid());
  hello.host = host_name();
  hello.instance = random_number();
  hello.world_size = static_cast<std::uint32_t>(place.size);
  hello.job = place.job;
  hello.library = TUTTI_VERSION;
  hello.instructions = instruction_level;
  if (products_of_bf16() == Bf16Products::pairs) hello.instructions += control::kWithPairs;
  if (products_of_bf16() == Bf16Products::tiles) hello.instructions += control::kWithTiles;
  if (!uses_winograd()) hello.instructions += control::kWithoutWinograd;
  hello.address = address;
  hello.options = options.digest;
  return hello;
}

}  // namespace

}  // namespace tutti::control

namespace tutti {

class ControlChannel::Impl {
 public:
  Impl(const LaunchPlace& place, const JobSecret& secret, const ControlOptions& options)
      : rank(place.rank), size(place.size) {
    auto watch = control::make_watch(place, secret);  // first: who reaches the door finds it, too
    auto star = std::make_unique<control::Star>(control::plan_of(place, secret), secret, place.job);
    const control::Hello hello = control::hello_of(place, options, star->address());
    loop_ = std::make_unique<control::Loop>(std::move(star), std::move(watch), hello, options, mailbox);
    thread_ = start();
    try {
      members = mailbox.wait_until_open();
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Impl() { stop(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  int rank;
  int size;
  control::Mailbox mailbox;
  std::vector<ControlMember> members;

 private:
  // Signals go to the program's threads: this one inherits that it takes none.
  std::thread start() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread thread = start_thread("control channel", [this] { loop_->run(); });
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      return thread;
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
  }
  void stop() {
    mailbox.stop();
    if (thread_.joinable()) thread_.join();
  }

  std::unique_ptr<control::Loop> loop_;
  std::thread thread_;  // runs loop_; joined before it goes
};

ControlChannel::ControlChannel(const LaunchPlace& place, const JobSecret& secret, const ControlOptions& options) {
  control::check(place);
  impl_ = std::make_unique<Impl>(place, secret, control::checked(options));
}

ControlChannel::~ControlChannel() = default;

int ControlChannel::rank() const noexcept { return impl_->rank; }
int ControlChannel::size() const noexcept { return impl_->size; }
const std::vector<ControlMember>& ControlChannel::members() const noexcept { return impl_->members; }

void ControlChannel::send(int rank, std::span<const std::byte> bytes) {
  static_assert(kMostBytes == control::kMostDataBytes);
  if (bytes.size() > kMostBytes)
    raise<Error>("[control channel] a message of {} bytes to rank {}: at most {}", bytes.size(), rank, kMostBytes);
  const bool connected = impl_->rank == 0 ? rank > 0 && rank < impl_->size : rank == 0;
  if (!connected)
    raise<Error>("[control channel] rank {} of {} has no connection to rank {}: all are connected to rank 0",
                 impl_->rank, impl_->size, rank);
  impl_->mailbox.post({rank, {bytes.begin(), bytes.end()}});
}

std::optional<ControlEvent> ControlChannel::receive(std::chrono::steady_clock::time_point deadline) {
  return impl_->mailbox.receive(deadline);
}

void ControlChannel::set_progress(std::uint64_t progress) noexcept {
  impl_->mailbox.progress.store(progress, std::memory_order_relaxed);
}

std::vector<PeerClock> ControlChannel::clocks() const { return impl_->mailbox.clocks(); }

ControlChannel::Refused ControlChannel::refused() const {
  const auto counts = impl_->mailbox.counts();
  return {counts.strangers, counts.garbage};
}

}  // namespace tutti
