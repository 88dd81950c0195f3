// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/processes/control/wire.h>

#include <optional>
#include <string>
#include <vector>

namespace tutti::control {

/// Rank 0's book of who has come, pure: no sockets, no clocks.
class Admission {
 public:
  explicit Admission(const Hello& own);  ///< own: rank 0's, with whose fields all others' must agree

  /// A hello from whoever holds the key of rank `key`. None: admitted, or known already. Otherwise why the rendezvous
  /// fails: the field that differs with both values, or both processes that say that they are one rank.
  std::optional<std::string> arrive(std::uint32_t key, const Hello&);

  bool complete() const { return come_ == members_.size(); }
  bool has_come(std::uint32_t rank) const { return members_[rank].has_value(); }
  std::vector<Member> members() const;         ///< ranks that have come, ascending
  std::string missing() const;                 ///< "ranks 1, 3 are missing; ranks 0, 2 have come"
  std::string name(std::uint32_t rank) const;  ///< "rank 2 on host b (pid 7)"; "rank 2" if it has not come

 private:
  std::optional<std::string> difference(std::uint32_t key, const Hello&) const;

  Hello own_;
  std::vector<std::optional<Hello>> members_;
  std::size_t come_ = 1;
};

}  // namespace tutti::control
