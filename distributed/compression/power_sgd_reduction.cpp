// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/compression/power_sgd_reduction.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace tutti {

namespace {

bool is_finite(float value) { return (std::bit_cast<std::uint32_t>(value) & 0x7F800000U) != 0x7F800000U; }

// Rows of length 1, so that P has the size of M and not of its square, which might not survive 16 bits. A row without a
// direction (a gradient of lower rank, zeros, NaN) stays as it was: zeros would stay for ever.
void keep_factor(LowRankMatrix& matrix) {
  const auto columns = static_cast<std::size_t>(matrix.size.columns);
  const float* right = matrix.right[0].data<float>();
  std::vector<float> row(columns);
  for (std::int64_t k = 0; k < matrix.size.rank; ++k) {
    std::copy_n(right + k * matrix.size.columns, columns, row.begin());
    if (low_rank::normalize(row.data(), matrix.size.columns))
      std::copy_n(row.begin(), columns, matrix.factor.begin() + k * matrix.size.columns);
  }
}

}  // namespace

PowerSgdReduction::PowerSgdReduction(const CompressionRequest& request, const GroupMembers& group,
                                     std::vector<Part> parts, std::atomic<int>& running)
    : group_(group),
      members_(request.members),
      parts_(std::move(parts)),
      denominator_(request.denominator),
      wire_(request.wire),
      wire_scale_(request.wire_scale),
      running_(running) {
  running_.fetch_add(1, std::memory_order_relaxed);
}

PowerSgdReduction::~PowerSgdReduction() { running_.fetch_sub(1, std::memory_order_release); }

void PowerSgdReduction::encode(std::size_t round, std::size_t member) {
  for (const Part& part : parts_) {
    if (part.matrix == nullptr) continue;
    if (round == 0)
      encode_left(part, member);
    else
      encode_right(part, member);
  }
}

std::vector<AllReduceRequest> PowerSgdReduction::factors(std::size_t round) {
  std::vector<AllReduceRequest> requests;
  for (const Part& part : parts_)
    if (part.matrix != nullptr)
      requests.push_back(factor_request(*part.matrix, round == 0 ? part.matrix->left : part.matrix->right));
    else if (round == 0)
      requests.push_back(whole_request(part));
  return requests;
}

void PowerSgdReduction::decode(std::size_t member) {
  for (const Part& part : parts_) {
    if (part.matrix == nullptr) continue;
    decode_matrix(part, member);
    if (member == 0) keep_factor(*part.matrix);
  }
}

float* PowerSgdReduction::gradient(const Part& part, std::size_t member) const {
  return members_[member].gradient.data<float>() + part.offset;
}

// M = N g / denominator + e, made where e lies; P = M Q.
void PowerSgdReduction::encode_left(const Part& part, std::size_t member) {
  LowRankMatrix& matrix = *part.matrix;
  float* kept = matrix.kept[member].data<float>();
  if (members_[member].contributes) {
    const auto scale = static_cast<float>(static_cast<double>(group_.group().size()) / denominator_);
    const float* gradients = gradient(part, member);
    for (std::int64_t i = 0; i < part.size; ++i) kept[i] += scale * gradients[i];
  }
  low_rank::project_rows(matrix.size, kept, matrix.factor.data(), matrix.left[member].data<float>());
}

// Every device makes its copy of the mean orthonormal: the same bits, for less than what sending it would cost.
void PowerSgdReduction::encode_right(const Part& part, std::size_t member) {
  LowRankMatrix& matrix = *part.matrix;
  float* left = matrix.left[member].data<float>();
  low_rank::orthonormalize(left, matrix.size.rank, matrix.size.rows);
  low_rank::project_columns(matrix.size, matrix.kept[member].data<float>(), left, matrix.right[member].data<float>());
}

// The result is P Q^T; e = M - P Q^T.
void PowerSgdReduction::decode_matrix(const Part& part, std::size_t member) {
  const LowRankMatrix& matrix = *part.matrix;
  const std::int64_t columns = matrix.size.columns;
  std::vector<float> result(static_cast<std::size_t>(columns));
  for (std::int64_t row = 0; row < matrix.size.rows; ++row) {
    low_rank::expand_row(matrix.size, matrix.left[member].data<float>(), matrix.right[member].data<float>(), row,
                         result.data());
    float* kept = matrix.kept[member].data<float>() + row * columns;
    for (std::size_t i = 0; i < result.size(); ++i) {
      const float lost = kept[i] - result[i];
      kept[i] = is_finite(lost) ? lost : 0.0F;  // one NaN would stay for ever
    }
    if (receives(member)) std::copy(result.begin(), result.end(), gradient(part, member) + row * columns);
  }
}

AllReduceRequest PowerSgdReduction::factor_request(const LowRankMatrix& matrix,
                                                   const std::vector<Array>& by_member) const {
  AllReduceRequest request{.slices = {},
                           .ready = {},
                           .denominator = static_cast<double>(group_.group().size()),
                           .wire = wire_,
                           .wire_scale = 1.0,
                           .parameter = matrix.name};
  for (std::size_t member = 0; member < members_.size(); ++member) {
    request.slices.push_back({by_member[member], true});
    request.numbers.push_back(group_.number(member));
  }
  return request;
}

AllReduceRequest PowerSgdReduction::whole_request(const Part& part) const {
  AllReduceRequest request{
      .slices = {}, .ready = {}, .denominator = denominator_, .wire = wire_, .wire_scale = wire_scale_};
  for (std::size_t member = 0; member < members_.size(); ++member)
    if (receives(member)) {
      request.slices.push_back(
          {members_[member].gradient.slice(0, part.offset, part.offset + part.size), members_[member].contributes});
      request.numbers.push_back(group_.number(member));
    }
  if (request.slices.empty()) {  // nothing of this process, with which others reduce
    request.slices.push_back({Array::empty({part.size}, DType::f32, group_.devices().front()), false});
    request.numbers.push_back(group_.number(0));
  }
  return request;
}

}  // namespace tutti
