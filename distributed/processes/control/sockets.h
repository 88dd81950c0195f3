// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/processes/control/wire.h>

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace tutti::control {

/// A context of libzmq: the thread that carries its sockets. Ends when its sockets are closed and have lingered.
class SocketContext {
 public:
  SocketContext();  ///< throws Error if the system has no thread or no descriptors for it
  ~SocketContext();
  SocketContext(const SocketContext&) = delete;
  SocketContext& operator=(const SocketContext&) = delete;
  void* get() const { return context_; }

 private:
  void* context_;
};

/// One message of several parts, as libzmq has them.
struct Parts {
  std::vector<Bytes> parts;  ///< parts up to kMost; what came behind them is dropped
  std::string user;          ///< whom the key gate took the sender for; empty inside the process
  bool too_many = false;
  static constexpr std::size_t kMost = 8;
};

/// A socket of libzmq, for one thread at a time. Never blocks. Errors that only our own faults explain throw Error.
class Socket {
 public:
  Socket(const SocketContext&, int type);
  ~Socket() { close(); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void set(int option, int value);
  void set(int option, std::span<const std::uint8_t> value);
  void set(int option, const std::string& value);
  void bind(const std::string& endpoint);  ///< throws Error naming endpoint and cause
  void connect(const std::string& endpoint);
  std::string last_endpoint() const;
  void monitor(const std::string& endpoint, int events);  ///< sends its events to a pair socket of this context
  void stop_monitor() noexcept;

  enum class Sent { sent, full, gone };
  Sent send(std::initializer_list<ByteView> parts);
  bool receive(Parts&);           ///< false: nothing is there
  void forget_unsent() noexcept;  ///< drops what `close` would still send
  void close();
  bool is_open() const { return socket_ != nullptr; }
  void* get() const { return socket_; }

 private:
  void* socket_;
};

}  // namespace tutti::control
