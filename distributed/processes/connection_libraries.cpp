// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/processes/connection_libraries.h>

#include <fmt/format.h>

#include <sodium.h>
#include <zmq.h>

namespace tutti {

std::vector<ThirdParty> connection_libraries() {
  int major = 0;
  int minor = 0;
  int patch = 0;
  zmq_version(&major, &minor, &patch);
  return {{"libzmq", fmt::format("{}.{}.{}", major, minor, patch), zmq_has("curve") != 0 ? "" : "it lacks CURVE"},
          {"libsodium", sodium_version_string(), ""}};
}

}  // namespace tutti
