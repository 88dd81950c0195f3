// SPDX-License-Identifier: Apache-2.0
#include <tutti/nn/hash_embedding.h>

#include <tutti/autodiff/node.h>
#include <tutti/autodiff/tensor/operation_scope.h>
#include <tutti/backend/raise.h>

#include <algorithm>
#include <functional>

namespace tutti {
namespace {

/// Rows by id: nothing is added up before the gradient is final.
struct HashEmbeddingGradient {
  static constexpr bool gives_rows = true;
  Array ids;  // [k], on the table's device
  std::int64_t columns;

  void operator()(const auto&, const Tensor& dy, InputGradients& gradients) const {
    if (!gradients.wants_rows(0))
      raise<AutodiffError>("[hash_embedding] its table has sparse gradients only, by backward: `grad` has none for it");
    const Shape rows{ids.size(), columns};
    gradients.set_rows(0, {ids, dy.array().reshape(rows).contiguous(), {0, columns}, false});
  }
};

class TableCollector : public MemberVisitor {
 public:
  explicit TableCollector(Module& root) { module("", root); }

  void parameter(std::string_view, Tensor&) override {}
  void buffer(std::string_view, Tensor&) override {}
  void module(std::string_view name, Module& child) override {
    const std::string outer = path_;
    path_.append(path_.empty() || name.empty() ? "" : ".").append(name);
    if (const auto* embedding = dynamic_cast<const HashEmbedding*>(&child)) add(embedding->table());
    child.visit(*this);
    path_ = outer;
  }

  NamedTables tables;

 private:
  void add(const std::shared_ptr<HashTable>& table) {
    if (std::ranges::find(tables, table, [](const auto& named) { return named.second; }) == tables.end())
      tables.emplace_back(path_, table);
  }

  std::string path_;
};

std::string prefix_of(const std::string& table) { return table.empty() ? "" : table + "."; }

}  // namespace

HashEmbedding::HashEmbedding(std::int64_t columns, const HashEmbeddingOptions& options)
    : table_(std::make_shared<HashTable>(columns, options.table)), unknown_(options.unknown) {
  weight = table_->weight();
}

// A clone shows itself by its new leaf: `Module::detach_members_to` gives it one and then has the members shown again.
const std::shared_ptr<HashTable>& HashEmbedding::table() const {
  if (!table_->weight().is_same(weight)) table_ = table_->copy_for(weight);
  return table_;
}

void HashEmbedding::visit(MemberVisitor& visitor) {
  table();
  visitor.parameter("weight", weight);
}

Tensor HashEmbedding::compute(const Tensor& ids) const {
  if (ids.dtype() != DType::i64)
    raise<DTypeError>("[hash_embedding] ids are {} {}: they must be i64", to_string(ids.dtype()),
                      to_string(ids.shape()));
  const auto flat = ids.to_vector<std::int64_t>();  // waits, and hears of earlier operations' errors
  const OperationScope scope("hash_embedding", ids);
  const HashTable& held = *table();
  Shape shape = ids.shape();
  shape.push_back(held.columns());
  Array rows = held.lookup(flat, training() ? HashTable::Unknown::initial : unknown_).reshape(shape);
  const Tensor inputs[] = {weight};
  return record("hash_embedding", std::move(rows), inputs, [&] {
    return HashEmbeddingGradient{Array::from(flat, {ids.size()}, held.device()), held.columns()};
  });
}

NamedTables sparse_parameters(Module& module) { return TableCollector(module).tables; }

std::vector<Tensor> dense_parameters(Module& module) {
  const NamedTables tables = sparse_parameters(module);
  std::vector<Tensor> dense = module.parameters();
  std::erase_if(dense, [&](const Tensor& parameter) {
    return std::ranges::any_of(tables, [&](const auto& named) { return named.second->weight().is_same(parameter); });
  });
  return dense;
}

HashTable::NamedArrays save_tables(Module& module) {
  HashTable::NamedArrays all;
  for (const auto& [table_name, table] : sparse_parameters(module))
    for (auto& [name, array] : table->save()) all.emplace_back(prefix_of(table_name) + name, std::move(array));
  return all;
}

std::function<void()> prepare_load_tables(Module& module, const HashTable::NamedArrays& arrays,
                                          const std::set<std::string>& left_out) {
  const NamedTables tables = sparse_parameters(module);
  std::vector<HashTable::NamedArrays> parts(tables.size());
  for (const auto& [name, array] : arrays) {
    const auto owner = std::ranges::find_if(tables, [&](const auto& table) {
      const std::string prefix = prefix_of(table.first);
      return name.starts_with(prefix) &&
             (name.find('.', prefix.size()) == std::string::npos || name.starts_with(prefix + "state."));
    });
    if (owner == tables.end()) raise<DataError>("[load_tables] it holds \"{}\", which the module does not have", name);
    parts[static_cast<std::size_t>(owner - tables.begin())].emplace_back(name.substr(prefix_of(owner->first).size()),
                                                                         array);
  }
  std::vector<std::function<void()>> installs;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    if (parts[i].empty() && left_out.contains(prefix_of(tables[i].first) + "rows")) continue;
    if (parts[i].empty()) raise<DataError>("[load_tables] there is nothing for table \"{}\"", tables[i].first);
    try {
      installs.push_back(tables[i].second->prepare_load(parts[i]));
    } catch (const DataError& error) {
      raise<DataError>("[load_tables] table \"{}\": {}", tables[i].first, error.what());
    }
  }
  return [installs = std::move(installs)] {
    for (const auto& install : installs) install();
  };
}

void load_tables(Module& module, const HashTable::NamedArrays& arrays) { prepare_load_tables(module, arrays)(); }

}  // namespace tutti
