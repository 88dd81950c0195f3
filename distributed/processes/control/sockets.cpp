// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/control/sockets.h>

#include <tutti/backend/raise.h>

#include <zmq.h>

#include <array>
#include <cerrno>
#include <utility>

namespace tutti::control {

namespace {

[[noreturn]] void raise_last(const char* what, const std::string& on = "") {
  const int error = zmq_errno();
  const char* const remedy = error == EMFILE ? " (the limit of open files, ulimit -n, is too low)" : "";
  raise<Error>("[control channel] {}{}{}: {}{}", what, on.empty() ? "" : " ", on, zmq_strerror(error), remedy);
}

/// A part while it is libzmq's.
class Part {
 public:
  Part() { zmq_msg_init(&message_); }
  ~Part() { zmq_msg_close(&message_); }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  zmq_msg_t* get() { return &message_; }
  ByteView bytes() { return {static_cast<const std::byte*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)}; }

 private:
  zmq_msg_t message_;
};

}  // namespace

SocketContext::SocketContext() : context_(zmq_ctx_new()) {
  if (context_ == nullptr) raise_last("no context");
}

SocketContext::~SocketContext() {
  while (zmq_ctx_term(context_) != 0 && zmq_errno() == EINTR) {
  }
}

Socket::Socket(const SocketContext& context, int type) : socket_(zmq_socket(context.get(), type)) {
  if (socket_ == nullptr) raise_last("no socket");
}

void Socket::set(int option, int value) {
  if (zmq_setsockopt(socket_, option, &value, sizeof value) != 0) raise_last("option", std::to_string(option));
}

void Socket::set(int option, std::span<const std::uint8_t> value) {
  if (zmq_setsockopt(socket_, option, value.data(), value.size()) != 0) raise_last("option", std::to_string(option));
}

void Socket::set(int option, const std::string& value) {
  if (zmq_setsockopt(socket_, option, value.data(), value.size()) != 0) raise_last("option", std::to_string(option));
}

void Socket::bind(const std::string& endpoint) {
  if (zmq_bind(socket_, endpoint.c_str()) != 0) raise_last("cannot listen at", endpoint);
}

void Socket::connect(const std::string& endpoint) {
  if (zmq_connect(socket_, endpoint.c_str()) != 0) raise_last("cannot connect to", endpoint);
}

std::string Socket::last_endpoint() const {
  std::array<char, 512> text{};
  std::size_t size = text.size();
  if (zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, text.data(), &size) != 0) raise_last("no endpoint");
  return text.data();
}

void Socket::monitor(const std::string& endpoint, int events) {
  if (zmq_socket_monitor(socket_, endpoint.c_str(), events) != 0) raise_last("cannot monitor", endpoint);
}

void Socket::forget_unsent() noexcept {
  const int none = 0;
  zmq_setsockopt(socket_, ZMQ_LINGER, &none, sizeof none);
}

void Socket::stop_monitor() noexcept { zmq_socket_monitor(socket_, nullptr, 0); }

Socket::Sent Socket::send(std::initializer_list<ByteView> parts) {
  std::size_t left = parts.size();
  for (const ByteView part : parts) {
    const int flags = ZMQ_DONTWAIT | (--left > 0 ? ZMQ_SNDMORE : 0);
    int result = 0;
    while ((result = zmq_send(socket_, part.data(), part.size(), flags)) < 0 && zmq_errno() == EINTR) {
    }
    if (result >= 0) continue;
    if (zmq_errno() == EAGAIN) return Sent::full;
    if (zmq_errno() == EHOSTUNREACH) return Sent::gone;
    raise_last("cannot send");
  }
  return Sent::sent;
}

bool Socket::receive(Parts& message) {
  message = {};
  for (bool more = true; more;) {
    Part part;
    int result = 0;
    while ((result = zmq_msg_recv(part.get(), socket_, ZMQ_DONTWAIT)) < 0 && zmq_errno() == EINTR) {
    }
    if (result < 0) {
      if (zmq_errno() == EAGAIN) return false;
      raise_last("cannot receive");
    }
    more = zmq_msg_more(part.get()) != 0;
    if (message.parts.size() == Parts::kMost) {
      message.too_many = true;
      continue;
    }
    if (const char* user = zmq_msg_gets(part.get(), "User-Id")) message.user = user;
    const ByteView bytes = part.bytes();
    message.parts.emplace_back(bytes.begin(), bytes.end());
  }
  return true;
}

void Socket::close() {
  if (socket_ != nullptr) zmq_close(std::exchange(socket_, nullptr));
}

}  // namespace tutti::control
