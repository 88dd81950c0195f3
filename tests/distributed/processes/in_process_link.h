// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/processes/process_link.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace tutti::testing {

/// Links between groups of one process that stand for processes: what all have said is heard on a thread of each.
class InProcessLinks {
 public:
  using Bytes = ProcessLink::Bytes;

  static std::vector<std::unique_ptr<ProcessLink>> make(const std::vector<std::uint32_t>& devices) {
    const auto hub = std::make_shared<Hub>();
    std::vector<std::unique_ptr<ProcessLink>> links;
    hub->said.resize(devices.size());
    for (std::size_t rank = 0; rank < devices.size(); ++rank) {
      links.push_back(std::make_unique<Link>(hub, static_cast<int>(rank), devices));
      hub->links.push_back(static_cast<Link*>(links.back().get()));
    }
    return links;
  }

 private:
  class Link;
  struct Hub {
    std::mutex mutex;
    std::vector<std::deque<Bytes>> said;  // by rank; its front is what all others are to say
    std::vector<Link*> links;             // null: closed
  };

  class Link final : public ProcessLink {
   public:
    Link(std::shared_ptr<Hub> hub, int rank, std::vector<std::uint32_t> devices)
        : hub_(std::move(hub)), rank_(rank), devices_(std::move(devices)) {}
    ~Link() override { close(); }

    int rank() const noexcept override { return rank_; }
    const std::vector<std::uint32_t>& devices() const noexcept override { return devices_; }
    void open(Hearing hearing) override {
      hearing_ = std::move(hearing);
      thread_ = std::thread([this] { run(); });
    }
    void say(Bytes bytes) override {
      const std::lock_guard lock(hub_->mutex);
      hub_->said[static_cast<std::size_t>(rank_)].push_back(std::move(bytes));
      for (const auto& said : hub_->said)
        if (said.empty()) return;
      std::vector<Bytes> by_rank;
      for (auto& said : hub_->said) {
        by_rank.push_back(std::move(said.front()));
        said.pop_front();
      }
      for (Link* link : hub_->links)
        if (link) link->put({by_rank, std::nullopt});
    }
    std::vector<int> missing() const override {
      const std::lock_guard lock(hub_->mutex);
      std::vector<int> ranks;
      if (hub_->said[static_cast<std::size_t>(rank_)].empty()) return ranks;
      for (std::size_t rank = 0; rank < devices_.size(); ++rank)
        if (hub_->said[rank].empty()) ranks.push_back(static_cast<int>(rank));
      return ranks;
    }
    void end(const End& end) noexcept override {
      const std::lock_guard lock(hub_->mutex);
      for (Link* link : hub_->links)
        if (link && link != this) link->put({{}, end});
    }
    void close() noexcept override {
      {
        const std::lock_guard lock(hub_->mutex);
        hub_->links[static_cast<std::size_t>(rank_)] = nullptr;
        closed_ = true;
        news_.notify_all();
      }
      if (thread_.joinable()) thread_.join();
    }

   private:
    struct News {
      std::vector<Bytes> said;
      std::optional<End> end;
    };
    void put(News news) {
      heard_.push_back(std::move(news));
      news_.notify_all();
    }
    void run() {
      std::unique_lock lock(hub_->mutex);
      for (;;) {
        news_.wait(lock, [this] { return closed_ || !heard_.empty(); });
        if (closed_) return;
        const News news = std::move(heard_.front());
        heard_.pop_front();
        lock.unlock();
        news.end ? hearing_.ended(*news.end) : hearing_.said(news.said);
        lock.lock();
      }
    }

    std::shared_ptr<Hub> hub_;
    int rank_;
    std::vector<std::uint32_t> devices_;
    Hearing hearing_;
    std::deque<News> heard_;  // guarded by the hub's mutex, as is closed_
    std::condition_variable news_;
    bool closed_ = false;
    std::thread thread_;
  };
};

}  // namespace tutti::testing
