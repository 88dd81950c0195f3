// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/job_secret.h>

#include <tutti/backend/raise.h>

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

namespace {

using Hash = std::array<std::uint8_t, 32>;

/// A hash with a personal context string, and a key where there is one.
Hash hash(std::string_view context, std::string_view text, const Hash* key) {
  static_assert(crypto_generichash_blake2b_PERSONALBYTES == 16);
  std::array<std::uint8_t, 16> personal{};
  std::copy_n(context.begin(), std::min(context.size(), personal.size()), personal.begin());
  Hash result;
  if (crypto_generichash_blake2b_salt_personal(
          result.data(), result.size(), reinterpret_cast<const std::uint8_t*>(text.data()), text.size(),
          key == nullptr ? nullptr : key->data(), key == nullptr ? 0 : key->size(), nullptr, personal.data()) != 0)
    raise<Error>("[secret] libsodium could not hash");
  return result;
}

/// Bytes that are wiped when they go.
struct Wiped {
  std::vector<char> bytes;
  explicit Wiped(std::size_t size) : bytes(size) {}
  explicit Wiped(std::string_view text) : bytes(text.begin(), text.end()) {}
  Wiped(const Wiped&) = delete;
  Wiped& operator=(const Wiped&) = delete;
  ~Wiped() { sodium_memzero(bytes.data(), bytes.size()); }
};

struct OpenFile {
  int descriptor;
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  // Neither waits for the other end of a pipe nor is left to programs that the process starts.
  explicit OpenFile(const std::string& path) : descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor < 0) raise<Error>("[secret] TUTTI_SECRET_FILE: {} cannot be read: {}", path, std::strerror(errno));
  }
  ~OpenFile() { close(descriptor); }
};

}  // namespace

CurveKeys::CurveKeys(std::array<std::uint8_t, 32>& secret) : secret_key(secret) {
  sodium_memzero(secret.data(), secret.size());
  if (crypto_scalarmult_curve25519_base(public_key.data(), secret_key.data()) != 0)
    raise<Error>("[secret] libsodium could not derive a key");
}

CurveKeys::~CurveKeys() { sodium_memzero(secret_key.data(), secret_key.size()); }

JobSecret::JobSecret(const EnvironmentReader& read) {
  if (sodium_init() < 0) raise<Error>("[secret] libsodium could not begin");
  const auto text = [&](const char* name) {
    auto value = read(name);
    if (value && value->empty()) value.reset();
    return value;
  };
  if (const auto path = text("TUTTI_SECRET_FILE")) {
    take_file(*path);
  } else if (auto secret = text("TUTTI_SECRET")) {
    const Wiped held(*secret);
    sodium_memzero(secret->data(), secret->size());
    take({held.bytes.data(), held.bytes.size()}, "TUTTI_SECRET");
  } else {
    master_ = hash("tutti job secret", "", nullptr);
  }
}

JobSecret::JobSecret()
    : JobSecret([](const std::string& name) -> std::optional<std::string> {
        const char* value = std::getenv(name.c_str());
        return value == nullptr ? std::nullopt : std::optional<std::string>(value);
      }) {}

JobSecret::~JobSecret() { sodium_memzero(master_.data(), master_.size()); }

void JobSecret::take_file(const std::string& path) {
  const OpenFile file(path);
  struct stat status {};
  if (fstat(file.descriptor, &status) != 0)
    raise<Error>("[secret] TUTTI_SECRET_FILE: {}: {}", path, std::strerror(errno));
  const unsigned mode = status.st_mode & 07777U;
  if (!S_ISREG(status.st_mode)) raise<Error>("[secret] TUTTI_SECRET_FILE: {} is no regular file", path);
  if (status.st_uid != geteuid())
    raise<Error>("[secret] TUTTI_SECRET_FILE: {} is the file of user {}, this process is user {}", path, status.st_uid,
                 geteuid());
  if ((mode & ~0600U) != 0)
    raise<Error>("[secret] TUTTI_SECRET_FILE: {} has mode {:04o}: others may use it; say chmod 600 {}", path, mode,
                 path);
  Wiped held(kMostBytes + 3);  // the longest secret, an end of line, and one byte that shows what is longer
  std::size_t size = 0;
  while (size < held.bytes.size()) {
    const ssize_t got = ::read(file.descriptor, held.bytes.data() + size, held.bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) raise<Error>("[secret] TUTTI_SECRET_FILE: {} cannot be read: {}", path, std::strerror(errno));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  take({held.bytes.data(), size}, "TUTTI_SECRET_FILE: " + path);
}

void JobSecret::take(std::string_view secret, const std::string& where) {
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.remove_suffix(1);
  if (secret.size() < kLeastBytes)
    raise<Error>("[secret] {}: a secret of {} bytes: it must have {} or more", where, secret.size(), kLeastBytes);
  if (secret.size() > kMostBytes) raise<Error>("[secret] {}: the secret is longer than {} bytes", where, kMostBytes);
  master_ = hash("tutti job secret", secret, nullptr);
  given_ = true;
}

JobSecret::Token JobSecret::token(std::string_view purpose, std::string_view job, int rank) const {
  return hash(purpose, fmt::format("{}:{}:{}", job.size(), job, rank), &master_);
}

CurveKeys JobSecret::keys(std::string_view job, int rank) const {
  Token seed = token("tutti curve key", job, rank);
  return CurveKeys(seed);
}

}  // namespace tutti
