// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tutti/distributed/processes/said_words.h>

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

  /// `devices`: number of each process's, numbered through: rank 1 of {2, 2} has cpu:2 and cpu:3.
  static std::vector<std::unique_ptr<ProcessLink>> make(const std::vector<std::uint32_t>& devices,
                                                        DeviceKind kind = DeviceKind::cpu) {
    const auto hub = std::make_shared<Hub>();
    std::vector<std::unique_ptr<ProcessLink>> links;
    hub->said.resize(ProcessLink::kLines, SaidWords(devices.size()));
    std::vector<Member> members;
    for (std::size_t rank = 0; rank < devices.size(); ++rank)
      for (std::uint32_t i = 0; i < devices[rank]; ++i)
        members.emplace_back(static_cast<int>(rank), Device{kind, static_cast<std::uint16_t>(members.size())});
    for (std::size_t rank = 0; rank < devices.size(); ++rank) {
      links.push_back(std::make_unique<Link>(hub, static_cast<int>(rank), members));
      hub->links.push_back(static_cast<Link*>(links.back().get()));
    }
    return links;
  }

 private:
  class Link;
  struct Hub {
    std::mutex mutex;
    std::vector<SaidWords> said;  // by line
    std::vector<Link*> links;     // null: closed
  };

  class Link final : public ProcessLink {
   public:
    Link(std::shared_ptr<Hub> hub, int rank, std::vector<Member> members)
        : hub_(std::move(hub)), rank_(rank), members_(std::move(members)) {}
    ~Link() override { close(); }

    int rank() const noexcept override { return rank_; }
    const std::vector<Member>& members() const noexcept override { return members_; }
    std::string place_of(int rank) const override { return "node" + std::to_string(rank) + " (pid 4711)"; }
    void open(Hearing hearing) override {
      hearing_ = std::move(hearing);
      thread_ = std::thread([this] { run(); });
    }
    void say(Line line, Bytes bytes) override {
      const std::lock_guard lock(hub_->mutex);
      said(line).add(rank_, std::move(bytes));
      put_complete(line);
    }
    void be_silent(Line line) override {
      const std::lock_guard lock(hub_->mutex);
      said(line).silence(rank_);
      put_complete(line);
    }
    std::vector<int> missing(Line line) const override {
      const std::lock_guard lock(hub_->mutex);
      return said(line).missing(rank_);
    }
    void end(const End& end) noexcept override {
      const std::lock_guard lock(hub_->mutex);
      for (Link* link : hub_->links)
        if (link && link != this) link->put({{}, {}, end});
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
      Line line;
      std::vector<Bytes> said;
      std::optional<End> end;
    };
    SaidWords& said(Line line) const { return hub_->said[static_cast<std::size_t>(line)]; }
    void put_complete(Line line) {
      while (const auto by_rank = said(line).take())
        for (Link* link : hub_->links)
          if (link) link->put({line, *by_rank, std::nullopt});
    }
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
        news.end ? hearing_.ended(*news.end) : hearing_.said(news.line, news.said);
        lock.lock();
      }
    }

    std::shared_ptr<Hub> hub_;
    int rank_;
    std::vector<Member> members_;
    Hearing hearing_;
    std::deque<News> heard_;  // guarded by the hub's mutex, as is closed_
    std::condition_variable news_;
    bool closed_ = false;
    std::thread thread_;
  };
};

}  // namespace tutti::testing
