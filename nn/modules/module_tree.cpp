// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/module_tree.h>

#include <tutti/backend/error.h>
#include <tutti/nn/recurrent/recurrent_cell.h>

#include <fmt/format.h>

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string_view>
#include <typeinfo>
#include <unordered_map>

namespace tutti {

// Of a template, the name of what it makes where it has one here, else its own.
std::string class_name(const Module& module) {
  const std::type_info& type = typeid(module);
  if (type == typeid(RNNCell)) return "RNNCell";
  if (type == typeid(LSTMCell)) return "LSTMCell";
  if (type == typeid(GRUCell)) return "GRUCell";
  const std::string name = class_name(type);
  return name.empty() ? "Module" : name;
}

std::string class_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> whole(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                          &std::free);
  if (status != 0) return {};
  const std::string_view name(whole.get());
  const std::string_view plain = name.substr(0, name.find('<'));
  const std::size_t scope = plain.rfind("::");
  return std::string(scope == std::string_view::npos ? plain : plain.substr(scope + 2));
}

namespace {

/// Writes the lines below a module, then goes back to write its own, which tells their sum.
class TreeWriter : public MemberVisitor {
 public:
  std::string write(Module& root) {
    write_module("", root);
    return std::move(text_);
  }

  void parameter(std::string_view name, Tensor& tensor) override {
    write_tensor(name, tensor, tensor.defined() && !tensor.requires_grad() ? ", frozen" : "", true);
  }
  void buffer(std::string_view name, Tensor& tensor) override { write_tensor(name, tensor, ", buffer", false); }
  void module(std::string_view name, Module& child) override {
    const std::string outer = prefix_;
    prefix_.append(name).append(".");
    write_module(fmt::format("{}: ", name), child);
    prefix_ = outer;
  }

 private:
  void write_module(std::string_view label, Module& module) {
    const std::size_t place = text_.size();
    const std::int64_t before = values_;
    const std::string margin(depth_, ' ');
    depth_ += 2;
    module.visit(*this);
    depth_ -= 2;
    const std::int64_t values = values_ - before;
    text_.insert(place, fmt::format("{}{}{}{}\n", margin, label, class_name(module),
                                    values > 0 ? fmt::format(", {} values", values) : ""));
  }

  void write_tensor(std::string_view name, const Tensor& tensor, std::string_view remark, bool counts) {
    if (!tensor.defined()) return;
    const auto [seen, fresh] = names_.emplace(tensor.identity(), prefix_ + std::string(name));
    if (fresh && counts) values_ += tensor.size();
    text_ += fmt::format("{}{}: {}\n", std::string(depth_, ' '), name,
                         fresh ? fmt::format("{} {}{}", to_string(tensor.dtype()), to_string(tensor.shape()), remark)
                               : fmt::format("that of {}", seen->second));
  }

  std::string text_;
  std::string prefix_;
  std::size_t depth_ = 0;
  std::int64_t values_ = 0;
  std::unordered_map<const void*, std::string> names_;
};

}  // namespace

std::string tree_text(Module& module) { return TreeWriter().write(module); }

}  // namespace tutti
