// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/processes/launch_environment.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace tutti {

/// A pair of Curve25519 keys of one rank. The secret one is wiped when the pair goes.
struct CurveKeys {
  std::array<std::uint8_t, 32> public_key{};
  std::array<std::uint8_t, 32> secret_key{};

  explicit CurveKeys(std::array<std::uint8_t, 32>& secret);  ///< wipes what it is given
  CurveKeys(const CurveKeys&) = delete;
  CurveKeys& operator=(const CurveKeys&) = delete;
  ~CurveKeys();
};

/// The secret that the processes of a job share. Keys and tokens of every rank follow from it, so that members know
/// each other's without an exchange. What is held is a hash of it, wiped when it goes. Anybody who can read the secret
/// is a member. It must be random: it is hashed once, which does not make a poor password good.
class JobSecret {
 public:
  static constexpr std::size_t kLeastBytes = 16;
  static constexpr std::size_t kMostBytes = 4096;

  /// Reads the file that TUTTI_SECRET_FILE names, or else TUTTI_SECRET; unset or empty, there is none. Ends of lines at
  /// its end are not part of it. Throws Error: if the file cannot be read, is no regular file, is another user's or
  /// others may read it (naming path and mode); if the secret is shorter than kLeastBytes or longer than kMostBytes.
  explicit JobSecret(const EnvironmentReader&);
  JobSecret();  ///< reads this process's environment
  JobSecret(const JobSecret&) = delete;
  JobSecret& operator=(const JobSecret&) = delete;
  ~JobSecret();

  /// False: keys follow from nothing that is secret, and protect from accidents alone.
  bool given() const noexcept { return given_; }

  CurveKeys keys(std::string_view job, int rank) const;

  using Token = std::array<std::uint8_t, 32>;
  /// A hash that only members can know, of a purpose (at most 16 bytes), a job and a rank.
  Token token(std::string_view purpose, std::string_view job, int rank) const;

 private:
  void take(std::string_view secret, const std::string& where);
  void take_file(const std::string& path);

  bool given_ = false;
  std::array<std::uint8_t, 32> master_{};
};

}  // namespace tutti
