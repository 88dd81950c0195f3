// SPDX-License-Identifier: Apache-2.0
// Random runs of the Promela model (distributed/model) are replayed: its decisions and the ledger's must be the same.
// TUTTI_SYNC_TRAILS names a file of them; without it some that are kept are taken.
#include <tutti/tests/distributed/ledger/ledger_driver.h>

#include <tutti/backend/process/environment.h>

#include <doctest/doctest.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

TEST_SUITE_BEGIN("cpu");

using namespace tutti;
using namespace tutti::testing;

namespace {

struct Trail {
  std::uint32_t devices = 0;
  std::uint32_t parameters = 0;
  std::vector<std::string> lines;  ///< a message each, with what the model decided and its state then
};

std::vector<Trail> read_trails() {
  std::ifstream file(environment_text("TUTTI_SYNC_TRAILS").value_or("tests/distributed/ledger/sync_trails.txt"));
  REQUIRE(file.good());
  std::vector<Trail> trails;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    if (std::string word; words >> word && word == "trail") {
      Trail& trail = trails.emplace_back();
      words >> trail.devices >> trail.parameters;
    } else {
      REQUIRE(!trails.empty());
      trails.back().lines.push_back(line);
    }
  }
  return trails;
}

/// The ledger as the server asks it, speaking the model's language.
class Replay {
 public:
  explicit Replay(const Trail& trail)
      : devices_(trail.devices), parameters_(trail.parameters), driver_(trail.devices, trail.parameters) {}

  /// What the ledger decides about the message at the beginning of the line, as the model would print it.
  std::string line(const std::string& said) {
    std::istringstream words(said);
    std::string kind;
    MemberIndex device = 0;
    std::int64_t generation = 0;
    std::uint32_t value = 0;
    words >> kind >> device >> generation >> value;
    driver_.actions.clear();
    tell(kind, device, generation, value);
    std::ostringstream line;
    line << kind << ' ' << device << ' ' << generation << ' ' << value << decisions() << state();
    return line.str();
  }

 private:
  using Kind = Fault::Kind;

  void tell(const std::string& kind, MemberIndex device, std::int64_t generation, std::uint32_t value) {
    if (kind == "register") driver_.begin(device, generation, set_of(value));
    if (kind == "submit") driver_.submit(device, generation, value);
    if (kind == "sync") driver_.sync(device, generation);
    if (kind == "device_failed")
      driver_.ledger.fail({.kind = Kind::device_failed, .member = device, .generation = generation}, driver_.actions);
    if (kind == "check_deadlines" && synced() != 0)  // the server's clock runs while somebody waits
      driver_.ledger.fail({.kind = Kind::deadline}, driver_.actions);
    if (kind == "close") driver_.ledger.close(driver_.actions);
  }

  static Ids set_of(std::uint32_t bits) {
    Ids ids;
    for (std::uint32_t id = 0; id < 32; ++id)
      if ((bits >> id & 1U) != 0) ids.push_back(id);
    return ids;
  }

  std::string decisions() const {
    std::uint32_t launches = 0;
    for (const Launch& launch : driver_.all<Launch>())
      for (const std::uint32_t id : ids_of(launch)) launches |= 1U << id;
    return " launches " + std::to_string(launches) + " releases " + std::to_string(driver_.all<Release>().size());
  }

  std::string state() {
    if (!driver_.ledger.fault()) {  // a failed ledger no longer says what it waits for: the model's stands still, too
      registered_ = registered();
      synced_ = synced();
      launched_ = 0;
      for (std::uint32_t id = 0; id < parameters_; ++id) launched_ |= driver_.ledger.is_launched({id}) ? 1U << id : 0U;
    }
    std::ostringstream text;
    text << " fault " << fault() << " now " << driver_.ledger.current_generation() << " registered " << registered_
         << " synced " << synced_ << " launched " << launched_;
    return text.str();
  }

  std::uint32_t all_but(const std::vector<MemberIndex>& members) const {
    std::uint32_t set = (1U << devices_) - 1;
    for (const MemberIndex member : members) set &= ~(1U << member);
    return set;
  }
  std::uint32_t registered() const { return all_but(driver_.ledger.missing().registrations); }
  std::uint32_t synced() const {
    return driver_.ledger.fault() ? 0 : registered() & all_but(driver_.ledger.missing().syncs);
  }

  std::string fault() const {
    if (!driver_.ledger.fault()) return "none";
    switch (driver_.ledger.fault()->kind) {
      case Kind::device_failed: return "device_failed";
      case Kind::deadline: return "deadline";
      case Kind::closed: return "closed";
      default: return "another";
    }
  }

  std::uint32_t devices_;
  std::uint32_t parameters_;
  std::uint32_t registered_ = 0;
  std::uint32_t synced_ = 0;
  std::uint32_t launched_ = 0;
  LedgerDriver driver_;
};

/// Where the two part, if they do.
std::optional<std::size_t> first_difference(const Trail& trail) {
  Replay replay(trail);
  for (std::size_t i = 0; i < trail.lines.size(); ++i)
    if (replay.line(trail.lines[i]) != trail.lines[i]) return i;
  return std::nullopt;
}

/// The line with the number (or, of a fault, the word) after `field` changed.
std::string altered(const std::string& line, const std::string& field) {
  const std::size_t begin = line.find(' ' + field + ' ') + field.size() + 2;
  const std::size_t end = std::min(line.find(' ', begin), line.size());
  const std::string value = line.substr(begin, end - begin);
  const std::string other = field == "fault" ? (value == "none" ? "deadline" : "none") : value == "0" ? "1" : "0";
  return line.substr(0, begin) + other + line.substr(end);
}

}  // namespace

TEST_CASE("sync_model: the ledger decides what the model decides") {
  const std::vector<Trail> trails = read_trails();
  std::size_t messages = 0;
  for (std::size_t number = 0; number < trails.size(); ++number) {
    const auto difference = first_difference(trails[number]);
    messages += trails[number].lines.size();
    if (!difference) continue;
    Replay replay(trails[number]);
    std::string decided;
    for (std::size_t i = 0; i <= *difference; ++i) decided = replay.line(trails[number].lines[i]);
    FAIL_CHECK("trail " << number + 1 << ", message " << *difference + 1 << ": the model says\n"
                        << trails[number].lines[*difference] << "\nand the ledger\n"
                        << decided);
  }
  REQUIRE(!trails.empty());
  CHECK(messages > 10 * trails.size());
  MESSAGE(trails.size() << " trails, " << messages << " messages");
}

TEST_CASE("sync_model: a decision that is changed is noticed") {
  for (const Trail& trail : read_trails())
    for (const std::string field : {"launches", "releases", "fault", "now", "registered", "synced", "launched"}) {
      const std::size_t place = trail.lines.size() / 2;
      Trail changed = trail;
      changed.lines[place] = altered(trail.lines[place], field);
      CAPTURE(changed.lines[place]);
      CHECK(first_difference(changed) == place);
    }
}

TEST_CASE("sync_model: a message that is lost or turned round is noticed") {
  const std::vector<Trail> trails = read_trails();
  Trail lost = trails.front();
  lost.lines.erase(lost.lines.begin() + 2);
  CHECK(first_difference(lost).has_value());
  Trail turned = trails.front();
  std::swap(turned.lines[0], turned.lines[1]);
  CHECK(first_difference(turned).has_value());
}

TEST_SUITE_END();
