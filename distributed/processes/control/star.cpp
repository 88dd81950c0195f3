// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/control/star.h>

#include <tutti/backend/raise.h>

#include <fmt/format.h>
#include <zmq.h>

#include <charconv>
#include <cstring>

namespace tutti::control {

namespace {

constexpr int kHandshakeMilliseconds = 2000;
constexpr int kBacklog = 64;
constexpr int kMostWaiting = 1000;  // messages in a connection's queue, each way
constexpr int kLingerMilliseconds = 300;
constexpr int kEvents = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_ACCEPT_FAILED |
                        ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                        ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

std::vector<PublicKey> public_keys(const JobSecret& secret, const std::string& job, int size) {
  std::vector<PublicKey> keys;
  for (int rank = 0; rank < size; ++rank) keys.push_back(secret.keys(job, rank).public_key);
  return keys;
}

}  // namespace

Star::Star(const Plan& plan, const JobSecret& secret, const std::string& job)
    : rank_(plan.rank),
      size_(plan.size),
      gate_(context_, public_keys(secret, job, plan.size)),
      door_(context_, ZMQ_ROUTER),
      door_events_(context_, ZMQ_PAIR) {
  const CurveKeys keys = secret.keys(job, rank_);
  guard(door_);
  door_.set(ZMQ_CURVE_SERVER, 1);
  door_.set(ZMQ_CURVE_SECRETKEY, keys.secret_key);
  door_.set(ZMQ_ZAP_DOMAIN, KeyGate::kDomain);
  door_.set(ZMQ_ROUTER_MANDATORY, 1);
  door_.monitor("inproc://door", kEvents);
  listen_to_events(door_events_, "inproc://door");
  for (const Address& each : plan.listen_at) {
    door_.set(ZMQ_IPV6, each.is_ipv6() ? 1 : 0);
    const std::string port = plan.coordinator ? "*" : std::to_string(plan.port);
    door_.bind(fmt::format("tcp://{}{}{}:{}", each.is_ipv6() ? "[" : "", each.text, each.is_ipv6() ? "]" : "", port));
    if (address_.empty()) address_ = door_.last_endpoint().substr(std::strlen("tcp://"));
  }
  if (!plan.coordinator) return;
  line_ = std::make_unique<Socket>(context_, ZMQ_DEALER);
  guard(*line_);
  line_->set(ZMQ_CURVE_PUBLICKEY, keys.public_key);
  line_->set(ZMQ_CURVE_SECRETKEY, keys.secret_key);
  line_->set(ZMQ_CURVE_SERVERKEY, secret.keys(job, 0).public_key);
  line_->set(ZMQ_RECONNECT_IVL, 50);
  line_->set(ZMQ_RECONNECT_IVL_MAX, 1000);
  line_->set(ZMQ_IPV6, plan.coordinator->is_ipv6() ? 1 : 0);
  line_->monitor("inproc://line", kEvents);
  line_events_ = std::make_unique<Socket>(context_, ZMQ_PAIR);
  listen_to_events(*line_events_, "inproc://line");
  line_->connect("tcp://" + host_and_port(*plan.coordinator, plan.port));
}

// A monitor that nobody reads any more would stop libzmq's thread.
Star::~Star() {
  door_.stop_monitor();
  close_line();
}

void Star::close_line() {
  if (!line_ || !line_->is_open()) return;
  line_->stop_monitor();
  if (!line_is_up_) line_->forget_unsent();  // a rank 0 that comes after is none of ours
  line_->close();
  line_is_up_ = false;
}

// Without a limit, for the same reason: the thread that reads may be late.
void Star::listen_to_events(Socket& monitor, const char* endpoint) {
  monitor.set(ZMQ_LINGER, 0);
  monitor.set(ZMQ_RCVHWM, 0);
  monitor.connect(endpoint);
}

void Star::guard(Socket& socket) {
  socket.set(ZMQ_LINGER, kLingerMilliseconds);
  socket.set(ZMQ_HANDSHAKE_IVL, kHandshakeMilliseconds);
  socket.set(ZMQ_BACKLOG, kBacklog);
  socket.set(ZMQ_SNDHWM, kMostWaiting);
  socket.set(ZMQ_RCVHWM, kMostWaiting);
  const auto most = static_cast<std::int64_t>(kMostWireBytes);
  if (zmq_setsockopt(socket.get(), ZMQ_MAXMSGSIZE, &most, sizeof most) != 0)
    raise<Error>("[control channel] no limit on messages: {}", zmq_strerror(zmq_errno()));
}

std::vector<void*> Star::sockets() {
  std::vector<void*> all{gate_.socket().get(), door_.get(), door_events_.get()};
  if (line_ && line_->is_open()) {
    all.push_back(line_->get());
    all.push_back(line_events_->get());
  }
  return all;
}

void Star::serve() {
  gate_.answer();
  read_events(door_events_, false);
  if (line_ && line_->is_open()) read_events(*line_events_, true);
}

void Star::read_events(Socket& monitor, bool of_line) {
  for (Parts event; monitor.receive(event);) {
    std::uint16_t what = 0;
    if (event.parts.empty() || event.parts[0].size() < sizeof what) continue;
    std::memcpy(&what, event.parts[0].data(), sizeof what);
    switch (what) {
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        if (of_line) line_is_up_ = true, trouble_.clear();
        break;
      case ZMQ_EVENT_DISCONNECTED:
        // Members come to rank 0's door alone; to the others' doors, strangers.
        ended_ = ended_ || (of_line ? line_is_up_ : rank_ == 0);
        if (of_line) line_is_up_ = false;
        break;
      case ZMQ_EVENT_CONNECT_RETRIED:
        if (of_line && trouble_.empty()) trouble_ = "nobody listens there, or it cannot be reached";
        break;
      case ZMQ_EVENT_ACCEPT_FAILED: ++strangers_; break;
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        if (of_line)
          trouble_ = "it does not know this rank's key: its world is smaller, or it has another secret or job";
        break;
      default:  // a handshake failed; at the door of a stranger whom the gate did not see
        if (of_line) trouble_ = "who listens there has another secret or job, is no rank 0 of ours, or is stopped";
        if (!of_line) ++strangers_;
    }
  }
}

bool Star::receive_at_door(Incoming& incoming) {
  for (Parts message; door_.receive(message);) {
    int rank = -1;
    std::from_chars(message.user.data(), message.user.data() + message.user.size(), rank);
    if (rank_ != 0 || message.parts.size() != 2 || message.too_many || rank <= 0 || rank >= size_) {
      ++garbage_;
      continue;
    }
    incoming = {{rank, std::move(message.parts[0])}, std::move(message.parts[1])};
    return true;
  }
  return false;
}

bool Star::receive(Incoming& incoming) {
  if (receive_at_door(incoming)) return true;
  if (!line_ || !line_->is_open()) return false;
  for (Parts message; line_->receive(message);) {
    if (message.parts.size() != 1 || message.too_many) {
      ++garbage_;
      continue;
    }
    incoming = {{0, {}}, std::move(message.parts[0])};
    return true;
  }
  return false;
}

// To a rank 0 that has shown its key, or nowhere. ZMQ_IMMEDIATE would do that, too, and drop what has come and is not
// read yet when the connection ends.
Socket::Sent Star::send(const Origin& to, ByteView bytes) {
  if (!to.connection.empty()) return door_.send({to.connection, bytes});
  if (!line_ || !line_->is_open()) return Socket::Sent::gone;
  return line_is_up_ ? line_->send({bytes}) : Socket::Sent::full;
}

}  // namespace tutti::control
