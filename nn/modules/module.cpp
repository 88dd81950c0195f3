// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/module.h>

#include <tutti/backend/raise.h>

#include <iterator>
#include <unordered_map>
#include <unordered_set>

namespace tutti {
namespace {

struct Member {
  enum class Kind { parameter, buffer };

  std::string name;
  Tensor* tensor;
  Kind kind;
};

/// Lists every member tensor and every submodule below a module, in order of declaration, shared ones each time.
class MemberCollector : public MemberVisitor {
 public:
  explicit MemberCollector(Module& root) {
    modules_.push_back(&root);
    root.visit(*this);
  }

  void parameter(std::string_view name, Tensor& tensor) override { add(name, tensor, Member::Kind::parameter); }
  void buffer(std::string_view name, Tensor& tensor) override { add(name, tensor, Member::Kind::buffer); }
  void module(std::string_view name, Module& child) override {
    modules_.push_back(&child);
    const std::string outer = prefix_;
    prefix_.append(name).append(".");
    child.visit(*this);
    prefix_ = outer;
  }

  const std::vector<Member>& members() const { return members_; }
  const std::vector<Module*>& modules() const { return modules_; }

 private:
  void add(std::string_view name, Tensor& tensor, Member::Kind kind) {
    if (tensor.defined()) members_.push_back({prefix_ + std::string(name), &tensor, kind});
  }

  std::vector<Member> members_;
  std::vector<Module*> modules_;
  std::string prefix_;
};

NamedTensors members_of(Module& module, Member::Kind kind) {
  NamedTensors named;
  std::unordered_set<const void*> seen;
  std::unordered_set<std::string_view> names;
  const MemberCollector collector(module);
  for (const Member& member : collector.members()) {
    if (!seen.insert(member.tensor->identity()).second) continue;
    if (!names.insert(member.name).second)
      raise("[module] two different tensors are both named \"{}\"; give each its own name in visit", member.name);
    if (member.kind == kind) named.emplace_back(member.name, *member.tensor);
  }
  return named;
}

void append_lines(std::string& text, const NamedTensors& tensors, std::string_view kind) {
  for (const auto& [name, tensor] : tensors)
    fmt::format_to(std::back_inserter(text), "{} {} {} {} on {}\n", kind, name, to_string(tensor.shape()),
                   to_string(tensor.dtype()), to_string(tensor.device()));
}

/// Every member becomes a leaf that holds `make` of its value; a tensor that several share stays shared.
template <class Make> void replace_members(Module& module, const Make& make) {
  const MemberCollector collector(module);
  std::unordered_map<const void*, Tensor> replaced;
  for (const Member& member : collector.members()) {
    const Tensor& tensor = *member.tensor;
    if (replaced.contains(tensor.identity())) continue;
    Tensor independent(make(tensor.array()), tensor.requires_grad());
    if (tensor.has_sparse_grad()) independent.set_sparse_grad(true);
    replaced.emplace(tensor.identity(), std::move(independent));
  }
  for (const Member& member : collector.members()) *member.tensor = replaced.at(member.tensor->identity());
  const MemberCollector again(module);  // who keeps more than tensors (HashEmbedding) sees that they are new
}

}  // namespace

NamedTensors Module::named_parameters() { return members_of(*this, Member::Kind::parameter); }

NamedTensors Module::named_buffers() { return members_of(*this, Member::Kind::buffer); }

NamedTensors Module::named_members() {
  NamedTensors members = named_parameters();
  for (auto& buffer : named_buffers()) members.push_back(std::move(buffer));
  return members;
}

std::vector<Tensor> Module::parameters() {
  std::vector<Tensor> tensors;
  for (auto& [name, tensor] : named_parameters()) tensors.push_back(std::move(tensor));
  return tensors;
}

void Module::train(bool training) {
  const MemberCollector collector(*this);  // must outlive the loop
  for (Module* module : collector.modules()) module->training_ = training;
}

void Module::zero_grad() {
  for (Tensor& parameter : parameters())
    if (parameter.requires_grad()) parameter.zero_grad();
}

void Module::detach_members_to(Device device) {
  replace_members(*this, [device](const Array& value) {
    return value.device() == device ? value.copy() : value.to(device).contiguous();
  });
}

void Module::detach_members_as(DType dtype) {
  if (!is_floating(dtype)) raise<DTypeError>("[module] members cannot be made {}", to_string(dtype));
  replace_members(*this, [dtype](const Array& value) {
    return is_floating(value.dtype()) && value.dtype() != dtype ? value.cast(dtype) : value.copy();
  });
}

std::string describe(Module& module) {
  const NamedTensors parameters = module.named_parameters();
  std::string text;
  append_lines(text, parameters, "parameter");
  append_lines(text, module.named_buffers(), "buffer");
  std::int64_t values = 0;
  for (const auto& [name, tensor] : parameters) values += tensor.size();
  fmt::format_to(std::back_inserter(text), "{} values in {} parameters\n", values, parameters.size());
  return text;
}

}  // namespace tutti
