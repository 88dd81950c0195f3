// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/calls/matrix_defect.h>

#include <tutti/backend/raise.h>

#include <span>

namespace tutti {

std::string to_string(const MatrixDefect& defect) {
  switch (defect.kind) {
    case MatrixDefect::Kind::singular: return fmt::format("is singular: pivot {} is 0", defect.pivot);
    case MatrixDefect::Kind::not_positive_definite: return "is not positive definite";
    case MatrixDefect::Kind::not_finite: return "has elements that are not finite";
    case MatrixDefect::Kind::no_convergence: return "has values that the iterations did not reach";
    case MatrixDefect::Kind::none: break;
  }
  return "has no defect";
}

void raise_defect(std::string_view operation, const MatrixDefect& defect, std::int64_t place, const Shape& operand) {
  Shape position(std::span(operand.data(), operand.size() - 2));
  if (position.empty()) raise<LinearAlgebraError>("[{}] the matrix {}", operation, to_string(defect));
  for (std::size_t axis = position.size(); axis-- > 0; place /= operand[axis]) position[axis] = place % operand[axis];
  raise<LinearAlgebraError>("[{}] matrix {} of {} {}", operation, to_string(position), to_string(operand),
                            to_string(defect));
}

}  // namespace tutti
