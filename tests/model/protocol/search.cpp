// Depth-first search over hashed states. Of two states with one 64-bit hash the second would not be searched; for 10^8
// states the chance that this happens at all is below 1 in 3,000.
#include <cstring>

#include "hash.hpp"
#include "protocol.hpp"

namespace ddpcache::model {
namespace {

// Hashes of states, each with a bit: whether it lies on the way from the first state to the present one.
class Seen {
 public:
  enum class Answer { fresh, on_the_way, known };

  Seen() : slots_(1 << 16) {}

  Answer enter(uint64_t hash) {
    if (count_ * 2 > slots_.size()) grow();
    uint64_t &slot = find(hash);
    if (slot != 0) return slot & kOnTheWay ? Answer::on_the_way : Answer::known;
    slot = hash | kOnTheWay;
    ++count_;
    return Answer::fresh;
  }
  void leave(uint64_t hash) { find(hash) &= ~kOnTheWay; }
  uint64_t count() const { return count_; }

 private:
  static constexpr uint64_t kOnTheWay = 1;

  uint64_t &find(uint64_t hash) {
    size_t at = hash >> 1 & (slots_.size() - 1);
    while (slots_[at] != 0 && (slots_[at] & ~kOnTheWay) != hash) at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }
  void grow() {
    std::vector<uint64_t> old(slots_.size() * 2);
    old.swap(slots_);
    for (const uint64_t slot : old) {
      if (slot != 0) find(slot & ~kOnTheWay) = slot;
    }
  }

  std::vector<uint64_t> slots_;
  uint64_t count_ = 0;
};

uint64_t hash_of(const World &world) {
  const uint64_t hash = hash64(&world, sizeof world) & ~uint64_t{1};
  return hash != 0 ? hash : 2;
}

class Search {
 public:
  Search(Protocol &protocol, uint64_t limit) : protocol_(protocol), limit_(limit) {}

  SearchResult run() {
    try {
      enter(protocol_.first());
    } catch (const Violation &violation) {
      result_.violation = violation.what;
      for (const Taken &taken : way_) result_.trace.push_back(text_of(taken));
    }
    result_.states = seen_.count();
    return result_;
  }

 private:
  struct Taken {
    int process;
    const char *what;
  };

  void enter(const World &world) {
    if (limit_ != 0 && seen_.count() >= limit_) {
      result_.complete = false;
      return;
    }
    const uint64_t hash = hash_of(world);
    switch (seen_.enter(hash)) {
      case Seen::Answer::known: return;
      case Seen::Answer::on_the_way: throw Violation{"a run goes on for ever"};
      case Seen::Answer::fresh: break;
    }
    protocol_.check(world);
    bool ended = true;
    for (int p = 0; p < protocol_.processes(); ++p) {
      const Pc pc = world.process[static_cast<size_t>(p)].pc;
      const int choices = protocol_.choices(world, p);
      ended = ended && (choices == 0 || pc == Pc::asleep);
      for (int choice = 0; choice < choices; ++choice) {
        go(world, p, name_of_pc(pc), [&](World *next) { protocol_.step(next, p, choice); });
      }
      if (protocol_.can_be_killed(world, p)) {
        go(world, p, "KILLED", [&](World *next) { protocol_.kill(next, p); });
      }
      if (protocol_.can_lose_its_lock(world, p)) {
        go(world, p, "LOSES ITS LOCK", [&](World *next) { protocol_.lose_lock(next, p); });
      }
    }
    if (ended) {
      ++result_.ends;
      protocol_.check_end(world);
    }
    seen_.leave(hash);
  }

  template <typename Change>
  void go(const World &world, int process, const char *what, Change change) {
    World next = world;
    way_.push_back({process, what});
    change(&next);
    enter(next);
    way_.pop_back();
  }

  static std::string text_of(const Taken &taken) { return std::to_string(taken.process) + " " + taken.what; }

  Protocol &protocol_;
  const uint64_t limit_;
  Seen seen_;
  std::vector<Taken> way_;
  SearchResult result_;
};

}  // namespace

SearchResult search(Protocol *protocol, uint64_t limit) { return Search(*protocol, limit).run(); }

}  // namespace ddpcache::model
