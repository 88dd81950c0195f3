// SPDX-License-Identifier: Apache-2.0
#include <tutti/backend/forwarding_backend.h>

#include <tutti/backend/cpu/cpu_backend.h>
#include <tutti/backend/error.h>
#include <tutti/backend/operations.h>
#include <tutti/backend/registry.h>
#include <tutti/tests/backend/counting_backend.h>

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

TEST_SUITE_BEGIN("cpu");

namespace tutti {

/// All that is asked for: never defined, as only its type counts.
class DeclaredByList : public Backend {
 public:
  void check(Device) const override;
  MemoryPool& pool(Device) override;
  Stream& compute_stream(Device) override;
  Stream& communication_stream(Device) override;
  void copy_from_host(const void*, const Array&) override;
  void copy_to_host(const Array&, void*) override;
#define TUTTI_KERNEL(name, ...) void name(TUTTI_PARAMETERS(__VA_ARGS__)) override;
#include <tutti/backend/kernel_list.h>
};

/// One by hand, and no other.
class CumsumByHand : public Backend {
 public:
  void cumsum(const Array&, std::size_t, bool, const Array&) override;
};

static_assert(std::is_abstract_v<Backend> && std::is_abstract_v<CumsumByHand> && !std::is_abstract_v<DeclaredByList>);

namespace {

using testing::CountingBackend;

/// Which of its arrays a kernel writes to, as letters of a word.
template <class Kernel> std::string written_of() {
  std::string word;
  [&]<class... Parameters>(kernel::ParameterList<Parameters...>) {
    (word.push_back(kernel::writes<Parameters> ? 'w' : std::is_same_v<Parameters, kernel::In> ? 'r' : '-'), ...);
  }(typename Kernel::Parameters());
  return word;
}

}  // namespace

TEST_CASE("a backend around another one sees each kernel, and what it writes") {
  static CpuBackend inner;
  static auto* counting = new CountingBackend(inner);
  const Device device{register_backend("counting", std::unique_ptr<Backend>(counting)), 0};
  const Array x = Array::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}, device);
  CHECK(cumsum(x, 1).to_vector<float>() == std::vector<float>{1, 3, 6, 4, 9, 15});
  const Array product = linear(x, Array::full({4, 3}, 1, DType::f32, device));
  CHECK(product.to_vector<float>() == std::vector<float>{6, 6, 6, 6, 15, 15, 15, 15});
  CHECK(counting->calls == std::map<std::string_view, int>{{"cumsum", 1}, {"fill", 1}, {"linear", 1}});
  CHECK(counting->written == 6 + 12 + 8);
  CHECK_THROWS_AS(Array::zeros({1}, DType::f32, Device{device.kind, 300}), DeviceError);
}

TEST_CASE("kernels have names of their own, and say what they write") {
  std::set<std::string_view> names;
  int count = 0;
  int defaults = 0;
  kernel::for_each([&]<class Kernel>(std::type_identity<Kernel>) {
    names.insert(Kernel::name);
    ++count;
    if (Kernel::has_default) ++defaults;
  });
  CHECK(names.size() == static_cast<std::size_t>(count));
  CHECK(names.contains("softmax_gradient"));
  CHECK(defaults == 9);
  CHECK(written_of<kernel::fill>() == "w-");
  CHECK(written_of<kernel::normalize_rows>() == "-rrrwww");
  CHECK(written_of<kernel::scatter>() == "-r-rw");
  CHECK(written_of<kernel::lu>() == "rwww");
  CHECK(written_of<kernel::custom>() == "--w");
}

}  // namespace tutti

TEST_SUITE_END();
