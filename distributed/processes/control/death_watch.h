// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/backend/process/owned_descriptor.h>
#include <tutti/distributed/processes/job_secret.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tutti::control {

/// A proof of death between rank 0 and those of its host: a connection over an abstract unix socket, of which the
/// kernel says whose it is, and the process's pidfd. A process is proven dead when its pidfd says so, or, where it can
/// have none (another pid namespace), when its end of the connection closes without a farewell. Both ends watch each
/// other. One thread. Nobody waits in it, and nothing that others send makes it throw.
class DeathWatch {
 public:
  /// `tokens`: of all ranks, by which both ends show that they are members. `name`: of the socket, the same for all.
  DeathWatch(int rank, std::string name, std::vector<JobSecret::Token> tokens);
  ~DeathWatch();  ///< says farewell
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;

  /// Looks for rank 0, unless it has been found. It may be on another host, or not have come yet.
  void reach();
  bool watches(int rank) const { return watched_.contains(rank); }
  int descriptor() const { return events_.get(); }  ///< readable when look() has something to do
  /// The ranks that have just been proven dead, each once.
  std::vector<int> look();

 private:
  using Time = std::chrono::steady_clock::time_point;
  /// Somebody of our user who has not told a token yet.
  struct Stranger {
    OwnedDescriptor connection;
    Time until;
  };
  struct Watched {
    OwnedDescriptor connection;
    OwnedDescriptor process;  // none: only the connection's end tells
  };

  void listen();
  void accept_all();
  void greet(const OwnedDescriptor& connection);
  void meet(int connection);
  bool hear(int rank);
  void drop_late();
  bool add(const OwnedDescriptor&, std::uint64_t what);

  int rank_;
  std::string name_;
  std::vector<JobSecret::Token> tokens_;
  OwnedDescriptor events_;
  OwnedDescriptor listener_;
  std::map<int, Stranger> strangers_;  // keys: numbers of connections
  std::map<int, Watched> watched_;     // keys: ranks
  bool reached_ = false;
};

}  // namespace tutti::control
