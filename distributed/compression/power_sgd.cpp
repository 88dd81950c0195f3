// SPDX-License-Identifier: Apache-2.0
#include <tutti/distributed/power_sgd.h>

#include <tutti/backend/raise.h>
#include <tutti/backend/random.h>
#include <tutti/backend/registry.h>
#include <tutti/distributed/compression/power_sgd_reduction.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

namespace tutti {

namespace {

constexpr const char* kSteps = "power_sgd:steps";

}  // namespace

PowerSgd::PowerSgd(const PowerSgdOptions& options) : options_(options) {
  if (options.rank < 1 || options.start_after < 0 || !(options.minimum_rate >= 0.0))
    raise<SyncError>("[PowerSgd] rank {} must be at least 1, start_after {} and minimum_rate {} at least 0",
                     options.rank, options.start_after, options.minimum_rate);
}

PowerSgd::~PowerSgd() = default;

// Null: it travels whole.
std::unique_ptr<LowRankMatrix> PowerSgd::matrix_for(const SyncParameter& parameter, std::size_t id,
                                                    std::span<const Device> devices) const {
  if (parameter.sparse) return nullptr;  // its rows travel as they are
  const std::int64_t elements = element_count(parameter.shape);
  if (parameter.shape.size() < 2 || elements == 0) return nullptr;
  const std::int64_t rows = parameter.shape[0];
  const std::int64_t columns = elements / rows;
  const std::int64_t rank = std::min({options_.rank, rows, columns});
  const double factors = static_cast<double>(rank) * static_cast<double>(rows + columns);
  if (factors * options_.minimum_rate >= static_cast<double>(elements)) return nullptr;
  auto matrix = std::make_unique<LowRankMatrix>();
  matrix->name = parameter.name;
  matrix->random_stream = id;
  matrix->size = {rows, columns, rank};
  for (const Device device : devices) {
    matrix->kept.push_back(Array::zeros({rows, columns}, DType::f32, device));
    matrix->left.push_back(Array::zeros({rank, rows}, DType::f32, device));
    matrix->right.push_back(Array::zeros({rank, columns}, DType::f32, device));
  }
  return matrix;
}

void PowerSgd::prepare(std::span<const SyncParameter> parameters, const GroupMembers& members) {
  if (members_)
    raise<SyncError>("[PowerSgd] has a group already, of {} devices: each needs one of its own",
                     members_->group().size());
  const std::vector<Device>& devices = members.devices();
  for (const Device device : devices)
    if (device.kind != DeviceKind::cpu) raise<SyncError>("[PowerSgd] runs on CPU devices, not {}", to_string(device));
  for (const SyncParameter& parameter : parameters)
    if (!parameter.sparse && parameter.dtype != DType::f32)
      raise<SyncError>("[PowerSgd] parameter \"{}\" is {}: only f32 can be compressed", parameter.name,
                       to_string(parameter.dtype));
  std::vector<std::unique_ptr<LowRankMatrix>> matrices;
  std::vector<std::size_t> bytes;
  for (const SyncParameter& parameter : parameters) {
    bytes.push_back(parameter.sparse ? 0
                                     : static_cast<std::size_t>(element_count(parameter.shape)) * size_of(DType::f32));
    matrices.push_back(matrix_for(parameter, matrices.size(), devices));
  }
  for (const Device device : devices) synchronize(device);  // from here on written on any thread, outside of streams
  members_.emplace(members);
  for (const auto& matrix : matrices)
    if (matrix) restart(*matrix);
  plain_bytes_ = std::move(bytes);
  matrices_ = std::move(matrices);
}

// The factors as a digest: what was loaded into one process alone is told before anything is reduced with it.
std::string PowerSgd::shared_settings() const {
  std::uint64_t digest = 0xcbf29ce484222325;
  for (const auto& matrix : matrices_)
    if (matrix)
      for (const float value : matrix->factor) digest = (digest ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3;
  return fmt::format("PowerSgd of rank {}, start_after {}, minimum_rate {}, seed {}, {} steps taken, factors {:016x}",
                     options_.rank, options_.start_after, options_.minimum_rate, options_.seed, steps_, digest);
}

void PowerSgd::restart(LowRankMatrix& matrix) const {
  Generator random(options_.seed, matrix.random_stream);
  matrix.factor.resize(static_cast<std::size_t>(matrix.size.rank * matrix.size.columns));
  for (float& value : matrix.factor) value = static_cast<float>(random.next_u64() >> 40U) * 0x1p-23F - 1.0F;
  for (std::int64_t k = 0; k < matrix.size.rank; ++k)
    low_rank::normalize(matrix.factor.data() + k * matrix.size.columns, matrix.size.columns);
  for (const Array& kept : matrix.kept) std::fill_n(kept.data<float>(), kept.size(), 0.0F);
}

std::shared_ptr<CompressedReduction> PowerSgd::begin(const CompressionRequest& request) {
  if (steps_ < options_.start_after) return nullptr;
  std::vector<PowerSgdReduction::Part> parts;
  const std::size_t before = uncommitted_.size();
  for (const GradientLayout::Place& place : request.places) {
    LowRankMatrix* matrix = matrices_[place.parameter.value].get();
    parts.push_back({matrix, place.offset - request.places.front().offset, place.size});
    if (matrix != nullptr) uncommitted_.push_back(matrix);
  }
  if (uncommitted_.size() == before) return nullptr;
  return std::make_shared<PowerSgdReduction>(request, *members_, std::move(parts), running_);
}

void PowerSgd::commit() {
  uncommitted_.clear();
  ++steps_;
}

void PowerSgd::roll_back() {
  for (LowRankMatrix* matrix : uncommitted_) restart(*matrix);
  uncommitted_.clear();
}

PowerSgd::Traffic PowerSgd::traffic(ParameterId id) const {
  const LowRankMatrix* matrix = matrices_.at(id.value).get();
  if (matrix == nullptr) return {plain_bytes_[id.value], plain_bytes_[id.value]};
  return {
      static_cast<std::size_t>(matrix->size.rank * (matrix->size.rows + matrix->size.columns)) * size_of(DType::f32),
      plain_bytes_[id.value]};
}

// --- state

std::vector<PowerSgd::StateArray> PowerSgd::state_arrays() const {
  if (!members_) raise<SyncError>("[PowerSgd] has no group yet: attach the replicas first");
  if (running_.load(std::memory_order_acquire) > 0)
    raise<SyncError>("[PowerSgd] a reduction is running: state is read and set between steps, after flush if buffered");
  std::vector<StateArray> arrays;
  for (const auto& matrix : matrices_) {
    if (!matrix) continue;
    const auto& size = matrix->size;
    arrays.push_back({fmt::format("power_sgd:{}:factor", matrix->name), {size.rank, size.columns}, matrix->factor});
    for (std::size_t number = 0; number < members_->group().size(); ++number) {
      const auto place = members_->place_of(number);
      const auto elements = static_cast<std::size_t>(size.rows * size.columns);
      arrays.push_back({fmt::format("power_sgd:{}:kept:{}", matrix->name, number),
                        {size.rows, size.columns},
                        place ? std::span(matrix->kept[*place].data<float>(), elements) : std::span<float>()});
    }
  }
  return arrays;
}

GradientCompression::State PowerSgd::state() const {
  if (!uncommitted_.empty())
    raise<SyncError>("[PowerSgd] step {} has not been committed: {} first", steps_ + 1,
                     members_ && members_->outside() > 0 ? "load a checkpoint" : "rejoin");
  State state;
  state.emplace_back(kSteps, Array::from(std::vector<std::int64_t>{steps_}, {1}, cpu()));
  for (const StateArray& array : state_arrays())
    if (!array.values.empty())
      state.emplace_back(array.name, Array::from(std::span<const float>(array.values), array.shape, cpu()));
  return state;
}

void PowerSgd::load_state(const State& state) {
  const std::vector<StateArray> wanted = state_arrays();
  std::unordered_map<std::string, Array> given(state.begin(), state.end());
  const auto take = [&](const std::string& name, const Shape& shape, DType dtype) {
    const auto found = given.find(name);
    if (found == given.end()) raise<SyncError>("[PowerSgd] the state has no \"{}\"", name);
    const Array array = std::move(given.extract(found).mapped());
    if (array.shape() != shape || array.dtype() != dtype)
      raise<SyncError>("[PowerSgd] \"{}\" is {} {} in the state, {} {} here", name, to_string(array.shape()),
                       to_string(array.dtype()), to_string(shape), to_string(dtype));
    return array;
  };
  const auto steps = take(kSteps, {1}, DType::i64).item<std::int64_t>();
  std::vector<std::vector<float>> values;
  for (const StateArray& array : wanted)
    if (!array.values.empty())
      values.push_back(take(array.name, array.shape, DType::f32).to_vector<float>());
    else if (given.contains(array.name))
      take(array.name, array.shape, DType::f32);  // another process's
  if (!given.empty())
    raise<SyncError>("[PowerSgd] the state has \"{}\", which this group has not", given.begin()->first);
  steps_ = steps;
  uncommitted_.clear();  // what is loaded is of no failed step
  auto next = values.begin();
  for (const StateArray& array : wanted)
    if (!array.values.empty()) std::ranges::copy(*next++, array.values.begin());
}

}  // namespace tutti
