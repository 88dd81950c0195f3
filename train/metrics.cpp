// SPDX-License-Identifier: Apache-2.0
#include <tutti/train/metrics.h>

#include <tutti/autodiff/operations.h>
#include <tutti/backend/error.h>

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>

namespace tutti {

std::int64_t count_correct(const Tensor& logits, const Tensor& targets) {
  if (logits.rank() != 2 || targets.rank() != 1 || logits.length(0) != targets.length(0))
    raise<ShapeError>("[count_correct] needs logits [n, classes] and targets [n], got {} and {}",
                      to_string(logits.shape()), to_string(targets.shape()));
  if (targets.size() == 0) return 0;
  const NoGrad no_grad;
  return sum(cast(argmax(logits, 1) == targets, DType::i64)).item<std::int64_t>();
}

MetricsWriter::MetricsWriter(std::string path, Mode mode) : path_(std::move(path)) {
  errno = 0;
  file_.reset(std::fopen(path_.c_str(), mode == Mode::append ? "ab" : "wb"));
  if (!file_) raise<DataError>("[metrics] cannot open {}: {}", path_, std::strerror(errno));
}

void MetricsWriter::write(std::initializer_list<Field> fields) {
  auto object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : fields)
    std::visit([&, key = std::string(name)](const auto& known) { object[key] = known; }, value.variant());
  // Text that is not UTF-8 is replaced, not refused: a metric must not end a training run.
  const std::string line = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  errno = 0;
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() || std::fflush(file_.get()) != 0)
    raise<DataError>("[metrics] cannot write to {}: {}", path_, std::strerror(errno));
}

}  // namespace tutti
