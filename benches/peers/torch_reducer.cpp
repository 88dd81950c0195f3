// SPDX-License-Identifier: Apache-2.0
// torch_reducer MODEL BLOCKS STEPS FIRST_MB CAP_MB GRADIENTS BINDING: the training step of benches/models.h in
// libtorch, by two processes of one thread whose gradients libtorch's own Reducer averages over Gloo. Rank 0 prints a
// line of JSON.
#include <tutti/benches/peers/two_processes.h>
#include <tutti/benches/samples.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace tutti::bench;

namespace {

struct Settings {
  std::string model;
  int blocks = 0;
  int steps = 0;
  int first_bucket_bytes = 0;
  int bucket_bytes = 0;
  std::string gradients;  // "views" of buckets, set to zero; "taken" into buckets, then views; or "copied" in and out
  bool bound = false;
};

// Widths, batches and optimizers as in benches/models.h.
struct Workload {
  std::vector<std::int64_t> widths;
  std::int64_t batch = 0;
  bool adamw = false;
};

Workload workload_of(const std::string& model) {
  if (model == "mlp_784_512_512_10") return {{784, 512, 512, 10}, 64, false};
  if (model == "mlp_784_4x1024_10") return {{784, 1024, 1024, 1024, 1024, 10}, 256, true};
  throw std::runtime_error("no model " + model);
}

torch::nn::Sequential make_model(const Workload& workload) {
  torch::nn::Sequential model;
  const auto& widths = workload.widths;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    model->push_back(torch::nn::Linear(widths[i], widths[i + 1]));
    if (i + 2 < widths.size()) model->push_back(torch::nn::ReLU());
  }
  return model;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Workload& workload, std::vector<at::Tensor> parameters) {
  if (workload.adamw)
    return std::make_unique<torch::optim::AdamW>(std::move(parameters), torch::optim::AdamWOptions(1e-3));
  return std::make_unique<torch::optim::SGD>(std::move(parameters), torch::optim::SGDOptions(0.01).momentum(0.9));
}

c10::intrusive_ptr<c10d::ProcessGroup> connect(int rank, const std::string& file) {
  auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(30));
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  options->threads = 2;  // as PyTorch
  return c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::FileStore>(file, 2), rank, 2, options);
}

/// What DistributedDataParallel of Python does with the Reducer.
class Replica {
 public:
  Replica(const Settings& settings, int rank, c10::intrusive_ptr<c10d::ProcessGroup> group) {
    const Workload workload = workload_of(settings.model);
    keep_gradients_ = settings.gradients == "views";
    torch::manual_seed(1);
    model_ = make_model(workload);
    parameters_ = model_->parameters();
    torch::manual_seed(3 + rank);
    input_ = torch::randn({workload.batch, workload.widths.front()});
    classes_ = torch::randint(10, {workload.batch}, torch::kLong);
    optimizer_ = make_optimizer(workload, parameters_);
    make_reducer(settings, std::move(group));
  }

  double step() {
    if (reducer_->should_rebuild_buckets()) reducer_->rebuild_buckets();
    reducer_->prepare_for_forward();
    clear_gradients();
    const at::Tensor loss = torch::cross_entropy_loss(model_->forward(input_), classes_);
    reducer_->prepare_for_backward({loss});
    loss.backward();
    optimizer_->step();
    return loss.item<double>();
  }

  double checksum() const {
    double sum = 0.0;
    for (const at::Tensor& parameter : parameters_)
      sum += parameter.detach().to(torch::kDouble).abs().sum().item<double>();
    return sum;
  }

 private:
  // The optimizer's own zero_grad refuses gradients that are views.
  void clear_gradients() {
    for (at::Tensor& parameter : parameters_)
      if (!keep_gradients_)
        parameter.mutable_grad() = at::Tensor();
      else if (parameter.grad().defined())
        parameter.mutable_grad().zero_();
  }

  void make_reducer(const Settings& settings, c10::intrusive_ptr<c10d::ProcessGroup> group) {
    const std::vector<size_t> limits{static_cast<size_t>(settings.first_bucket_bytes),
                                     static_cast<size_t>(settings.bucket_bytes)};
    const std::vector<bool> sparse(parameters_.size(), false);
    auto [buckets, bucket_limits] = c10d::compute_bucket_assignment_by_size(parameters_, limits, sparse);
    std::ranges::reverse(buckets);  // backward ends with the first parameters
    std::ranges::reverse(bucket_limits);
    reducer_ = std::make_unique<c10d::Reducer>(parameters_, buckets, bucket_limits, std::move(group), sparse,
                                               settings.bucket_bytes, /*find_unused_parameters=*/false,
                                               /*gradient_as_bucket_view=*/settings.gradients != "copied",
                                               std::unordered_map<size_t, std::string>{}, settings.first_bucket_bytes);
  }

  bool keep_gradients_ = false;
  torch::nn::Sequential model_;
  std::vector<at::Tensor> parameters_;
  at::Tensor input_;
  at::Tensor classes_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::unique_ptr<c10d::Reducer> reducer_;
};

/// Milliseconds per step of each block, until the slower rank has done it. A step in front is not timed.
std::vector<double> time_blocks(const Settings& settings, int rank, SharedPage& page, Replica& replica) {
  std::vector<double> milliseconds;
  for (int block = 0; block < settings.blocks; ++block) {
    replica.step();
    page.barrier.arrive_and_wait();
    const auto start = Clock::now();
    for (int i = 0; i < settings.steps; ++i) replica.step();
    page.seconds[rank] = seconds_since(start);
    page.barrier.arrive_and_wait();
    milliseconds.push_back(1e3 * std::max(page.seconds[0], page.seconds[1]) / settings.steps);
    page.barrier.arrive_and_wait();
  }
  return milliseconds;
}

void train(const Settings& settings, int rank, SharedPage& page, const std::string& rendezvous) {
  torch::set_num_threads(1);
  Replica replica(settings, rank, connect(rank, rendezvous));
  const double first = replica.step();
  for (int i = 0; i < 3; ++i) replica.step();  // the buckets are built again after the first
  const double ms = median(time_blocks(settings, rank, page, replica));
  const double last = replica.step();
  page.seconds[rank] = replica.checksum();
  page.barrier.arrive_and_wait();
  if (page.seconds[0] != page.seconds[1]) throw std::runtime_error("the replicas differ");
  if (!std::isfinite(last) || last >= first) throw std::runtime_error("the loss has not fallen");
  if (rank != 0) return;
  std::printf("{\"variant\": \"buckets of %d and %d MB, %s, %s\", \"model\": \"%s\", \"ms\": %.4f}\n",
              settings.first_bucket_bytes >> 20, settings.bucket_bytes >> 20, settings.gradients.c_str(),
              settings.bound ? "bound" : "free", settings.model.c_str(), ms);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fputs("usage: torch_reducer MODEL BLOCKS STEPS FIRST_MB CAP_MB views|taken|copied bound|free\n", stderr);
    return 2;
  }
  const Settings settings{.model = argv[1],
                          .blocks = std::atoi(argv[2]),
                          .steps = std::atoi(argv[3]),
                          .first_bucket_bytes = std::atoi(argv[4]) << 20,
                          .bucket_bytes = std::atoi(argv[5]) << 20,
                          .gradients = argv[6],
                          .bound = std::string(argv[7]) == "bound"};
  const RendezvousFolder folder;
  return run_two_processes(120, settings.bound,
                           [&](int rank, SharedPage& page) { train(settings, rank, page, folder.file("store")); });
}
