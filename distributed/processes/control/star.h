// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/processes/control/address.h>
#include <tutti/distributed/processes/control/key_gate.h>
#include <tutti/distributed/processes/job_secret.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::control {

/// The connections of one rank: a door at which it listens, and, but for rank 0, a line to rank 0's door. CURVE
/// encrypts both; only members' keys pass. One thread at a time, after the constructor the channel's.
class Star {
 public:
  struct Plan {
    int rank = 0;
    int size = 1;
    std::vector<Address>
        listen_at;  ///< addresses of the door: rank 0's with `port`; others have one, and a port of the system's choice
    std::optional<Address> coordinator;  ///< none: this is rank 0
    int port = 0;
  };

  /// Listens and begins to connect. Throws Error naming the address that cannot be had.
  Star(const Plan&, const JobSecret&, const std::string& job);
  ~Star();
  Star(const Star&) = delete;
  Star& operator=(const Star&) = delete;

  /// A sender: the rank whose key it has, and the connection.
  struct Origin {
    int rank = 0;
    Bytes connection;  ///< empty: the line
  };
  struct Incoming {
    Origin from;
    Bytes bytes;
  };

  /// Sockets that the thread waits for.
  std::vector<void*> sockets();
  /// Answers the gate and reads what became of connections.
  void serve();
  /// The next message of a member; false: nothing is there. On ranks other than 0 of the line alone: who knocks at
  /// their doors is counted as garbage.
  bool receive(Incoming&);
  Socket::Sent send(const Origin& to, ByteView);

  bool line_is_up() const { return line_is_up_; }
  bool take_ended() { return std::exchange(ended_, false); }  ///< whether a connection has ended since the last call
  void close_line();

  const std::string& address() const { return address_; }  ///< address of the door, "host:port"
  std::uint64_t strangers() const { return strangers_ + gate_.refused(); }
  std::uint64_t garbage() const { return garbage_; }
  /// The last thing that kept the line from coming up; empty: nothing did.
  const std::string& trouble() const { return trouble_; }

 private:
  static void guard(Socket&);
  static void listen_to_events(Socket& monitor, const char* endpoint);
  bool receive_at_door(Incoming&);
  void read_events(Socket& monitor, bool of_line);

  int rank_;
  int size_;
  SocketContext context_;
  KeyGate gate_;
  Socket door_;
  Socket door_events_;
  std::unique_ptr<Socket> line_;
  std::unique_ptr<Socket> line_events_;
  std::string address_;
  std::string trouble_;
  bool line_is_up_ = false;
  bool ended_ = false;
  std::uint64_t strangers_ = 0;
  std::uint64_t garbage_ = 0;
};

}  // namespace tutti::control
