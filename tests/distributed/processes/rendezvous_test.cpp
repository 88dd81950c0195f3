// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/control/sockets.h>
#include <tutti/distributed/processes/control/wire.h>
#include <tutti/tests/distributed/processes/control/job.h>

#include <fmt/format.h>

#include <doctest/doctest.h>
#include <zmq.h>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr ControlOptions kShort{.rendezvous = std::chrono::milliseconds(2500)};

void check_errors(const std::vector<Started>& job, const std::string& text) {
  for (const Started& each : job) {
    CHECK(each.channel == nullptr);
    CHECK_MESSAGE(each.error.find(text) != std::string::npos, each.error);
  }
}

// A member that speaks for itself: sends a frame, and returns rank 0's answer.
std::optional<control::Frame> answer_to(const control::Bytes& frame, int rank, int port,
                                        std::chrono::seconds patience) {
  const JobSecret secret = secret_of(kSecret);
  const std::string job = place_of(0, 2, port).job;
  const control::SocketContext context;
  control::Socket line(context, ZMQ_DEALER);
  const CurveKeys keys = secret.keys(job, rank);
  line.set(ZMQ_LINGER, 0);
  line.set(ZMQ_CURVE_PUBLICKEY, keys.public_key);
  line.set(ZMQ_CURVE_SECRETKEY, keys.secret_key);
  line.set(ZMQ_CURVE_SERVERKEY, secret.keys(job, 0).public_key);
  line.connect(fmt::format("tcp://127.0.0.1:{}", port));
  line.send({frame});
  control::Parts parts;
  for (const auto until = std::chrono::steady_clock::now() + patience; std::chrono::steady_clock::now() < until;
       std::this_thread::sleep_for(10ms))
    if (line.receive(parts)) return control::decode(parts.parts.at(0));
  return std::nullopt;
}

}  // namespace

TEST_CASE("rendezvous: another world size is an error on both sides, with both values") {
  const int port = free_port();
  const auto job = start_all({{place_of(0, 2, port)}, {place_of(1, 3, port)}});
  check_errors(job, fmt::format("(pid {}) says world size 3, rank 0 on ", getpid()));
  check_errors(job, fmt::format("(pid {}) says 2", getpid()));
}

TEST_CASE("rendezvous: other options are an error on both sides") {
  const int port = free_port();
  ControlOptions other;
  other.digest[0] = std::byte{1};
  const auto job = start_all({{place_of(0, 2, port)}, {place_of(1, 2, port), other}});
  check_errors(job, "says digest of options 0100000000000000, rank 0");
}

TEST_CASE("rendezvous: another version of the protocol is an error on both sides") {
  const int port = free_port();
  control::Hello hello;
  hello.protocol = control::kProtocol + 1;
  hello.rank = 1;
  hello.host = "b";
  hello.pid = 7;
  std::optional<control::Frame> answer;
  std::thread member([&] { answer = answer_to(control::encode(hello), 1, port, 30s); });
  const auto job = start_all({{place_of(0, 2, port)}});
  member.join();
  const std::string text = "rank 1 on b (pid 7) says protocol version 2, rank 0 on ";
  check_errors(job, text);
  REQUIRE(answer.has_value());
  const auto* refusal = std::get_if<control::Refusal>(&*answer);
  REQUIRE(refusal != nullptr);
  CHECK(refusal->reason.starts_with(text));
}

TEST_CASE("rendezvous: garbage of a member is counted, and nobody is disturbed") {
  const int port = free_port();
  control::Bytes large(2000, std::byte{0});  // a hello by its kind, over a handshake's limit
  std::thread member([&] { CHECK_FALSE(answer_to(large, 1, port, 2s).has_value()); });
  const auto job = start_all({{place_of(0, 2, port), kShort}});
  member.join();
  check_errors(job, "rank 1 is missing; rank 0 has come");
}

TEST_CASE("rendezvous: two processes of one rank: both are told") {
  const int port = free_port();
  const auto job = start_all({{place_of(0, 3, port)}, {place_of(1, 3, port)}, {place_of(1, 3, port)}});
  check_errors(job, "two processes say that they are rank 1: on ");
  // Two of rank 0 find each other at the address.
  auto running = start_job(1);
  REQUIRE(running[0].channel != nullptr);
  const std::string address = running[0].channel->members()[0].address;
  const auto second = start_all({{place_of(0, 1, std::stoi(address.substr(address.rfind(':') + 1)))}});
  check_errors(second, "cannot listen at tcp://" + address + ": Address already in use");
}

TEST_CASE("rendezvous: a rank that does not come is named to all others") {
  const int port = free_port();
  const auto job =
      start_all({{place_of(0, 4, port), kShort}, {place_of(1, 4, port), kShort}, {place_of(3, 4, port), kShort}});
  check_errors(job, "rank 2 is missing; ranks 0, 1, 3 have come");
  check_errors(job, "(job \"");
}

TEST_CASE("rendezvous: without rank 0 the others say where they waited") {
  const auto job = start_all({{place_of(1, 2, free_port()), kShort}});
  check_errors(job, "[rendezvous] rank 1 has waited 2.5 s for rank 0");
  check_errors(job, "nobody listens there");
}

TEST_CASE("rendezvous: another secret or job is turned away") {
  const int port = free_port();
  const auto secrets =
      start_all({{place_of(0, 2, port), kShort}, {place_of(1, 2, port), kShort, "another secret of sixteen"}});
  CHECK_MESSAGE(secrets[0].error.find("rank 1 is missing; rank 0 has come; ") != std::string::npos, secrets[0].error);
  CHECK_MESSAGE(secrets[0].error.find("connections were turned away: do all have the same secret") != std::string::npos,
                secrets[0].error);
  CHECK_MESSAGE(secrets[1].error.find("has another secret or job") != std::string::npos, secrets[1].error);
  for (const Started& each : secrets) CHECK(each.error.find("another secret of sixteen") == std::string::npos);
  LaunchPlace other = place_of(1, 2, port);
  other.job = "other";
  const auto jobs = start_all({{place_of(0, 2, port), kShort}, {other, kShort}});
  CHECK_MESSAGE(jobs[1].error.find("has another secret or job") != std::string::npos, jobs[1].error);
}

TEST_CASE("rendezvous: a rank beyond rank 0's world has no key there") {
  const int port = free_port();
  const auto job = start_all({{place_of(0, 2, port), kShort}, {place_of(2, 3, port), kShort}});
  CHECK_MESSAGE(job[1].error.find("does not know this rank's key") != std::string::npos, job[1].error);
}

TEST_CASE("rendezvous: who comes to a running job is refused, and the job goes on") {
  auto job = start_job(2);
  REQUIRE(job[0].channel != nullptr);
  const std::string address = job[0].channel->members()[0].address;
  const auto late = start_all({{place_of(1, 2, std::stoi(address.substr(address.rfind(':') + 1)))}});
  check_errors(late, "the job has begun without this process");
  job[1].channel->send(0, bytes_of("on"));
  CHECK(next<ControlMessage>(*job[0].channel).has_value());
}

TEST_SUITE_END();
