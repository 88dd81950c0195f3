// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/tests/references/operations.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tutti::testing {

/// A call of an operation whose integers may be exchanged: those of its attributes, and one element of each operand of
/// integers.
class VariedCall {
 public:
  explicit VariedCall(const ReferenceCase&);

  std::size_t arguments() const noexcept;  ///< integers among the attributes
  std::size_t integers() const noexcept { return arguments() + operands_.size(); }
  void set(std::size_t which, std::int64_t value);
  Call call() const;
  std::string describe() const;  ///< "widths=1,0,9223372036854775807,2"

 private:
  /// An attribute, between[0] numbers[0] between[1] ...
  struct Text {
    std::string name;
    std::vector<std::string> between;
    std::vector<std::int64_t> numbers;

    Text(std::string attribute, const std::string& text);
    std::string joined() const;
  };

  const ReferenceCase* reference_;
  std::vector<Text> texts_;
  std::vector<std::pair<std::size_t, std::int64_t>> operands_;  // those of integers, with their last element
};

/// What is wrong with how an operation takes a call; "" where it gives a result of the right shape, or refuses it by an
/// error of ours that names it and no other operation. Large is wrong too, where it takes memory, and slow.
std::string complaint_about(const Operation&, const Call&);

/// Lets the device have little more memory than it has, so that no call takes gigabytes.
class SmallMemory {
 public:
  SmallMemory();
  ~SmallMemory();
  SmallMemory(const SmallMemory&) = delete;
  SmallMemory& operator=(const SmallMemory&) = delete;
};

/// Operations with some of their references: what is varied.
struct VariedOperation {
  Operation operation;
  std::vector<const ReferenceCase*> cases;
};
const std::vector<VariedOperation>& varied_operations();

}  // namespace tutti::testing
