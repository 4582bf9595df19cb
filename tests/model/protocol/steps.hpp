// The machine that takes one step of one client.
#pragma once

#include "protocol.hpp"

namespace ddpcache::model {

// What lies in the halves of extents.
inline constexpr uint8_t kTornByte = 254;
inline constexpr uint8_t kUnsoundByte = 255;
constexpr uint8_t tag_of(int64_t index, uint32_t generation) {
  return static_cast<uint8_t>(1 + index * 32 + generation);
}

class Protocol::Step {
 public:
  Step(Protocol &protocol, World &world, int process)
      : protocol_(protocol), s_(world), p_(process), me_(world.process[static_cast<size_t>(process)]) {}

  void take(int choice);
  // Whether it keeps the lock of the record that it registers in, though all of its descriptors are closed.
  static bool is_lock_kept(const Process &process);

 private:
  void look();
  void look_at_life();
  void probe();
  void declare();
  void judge();
  void take_over();
  void wake();
  void wait();
  void sleep();
  void may_fill();
  void note();
  void unnote();
  void claim();
  void find(int choice);
  void carve();
  void look_at_owner();
  void scan();
  void prove();
  void check_record_again();
  void take_extent();
  void name_extent();
  void check_entry();
  void check_extent();
  void write(int half);
  bool leave_entry(Move move, EntryWord next);
  void publish();
  void give_up();
  void unname();
  void view_look();
  void view_name();
  void view_check();
  void show();
  void verify(int half);
  void settle();
  void spoil();
  void view_end();
  void copy_look();
  void copy(int half);
  void copy_check();
  void remove_look();
  void remove();
  void record_look();
  void record_prove();
  void hand_back();
  void hand_over();
  void lock();
  void record_check();
  void clear_names();
  void vacate();
  void identify();
  void begin_life();
  void let_go();
  void leave();
  void unlock();

  bool is(Mutant mutant) const { return protocol_.mutant_ == mutant; }
  const Task &task() const { return protocol_.task_of(s_, p_); }
  uint8_t index() const { return task().index; }
  Record &own() { return s_.record[me_.record - 1u]; }
  Record &other() { return s_.record[me_.other]; }
  ClientLife life() const { return {me_.record - 1u, me_.epoch}; }
  EntryWord own_word() const { return EntryWord::writing(EntryWord(me_.word).generation(), life()); }
  EntryWord next_empty(EntryWord word, Mutant mutant) const {
    return is(mutant) ? EntryWord::empty(word.generation()) : word.next_empty();
  }
  bool is_death_proved() { return protocol_.scene_.provable && s_.process[other().pid].fate == Fate::killed; }

  void go(Pc pc) { me_.pc = pc; }
  void expect_own_word(Pc pc) {
    me_.word = own_word().bits();
    go(pc);
  }
  void next_extent() {
    me_.tried = static_cast<uint8_t>(me_.tried | 1 << me_.place);
    go(Pc::find);
  }
  void next_record();
  void end_task();
  void end_script();

  void said(Move move, uint64_t from, uint64_t to) {
    if (protocol_.mutant_ == Mutant::none && !row_of(move).allows(from, to)) {
      throw Violation{std::string("the table of moves does not allow: ") + row_of(move).name};
    }
    protocol_.moves_.set(static_cast<size_t>(move));
    if (protocol_.log_) protocol_.log_->push_back(move);
  }
  void change(uint64_t *word, Move move, uint64_t to) {
    said(move, *word, to);
    *word = to;
  }

  Protocol &protocol_;
  World &s_;
  int p_;
  Process &me_;
};

}  // namespace ddpcache::model
