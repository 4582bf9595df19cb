// Steps of readers, of who removes, and of clients that come and go.
#include "steps.hpp"

namespace ddpcache::model {

void Protocol::Step::end_task() {
  const Script &script = protocol_.scene_.scripts[static_cast<size_t>(p_)];
  // Registers that mean nothing any more would only make states differ.
  const Process before = me_;
  me_ = {};
  me_.fate = before.fate;
  me_.record = before.record;
  me_.epoch = before.epoch;
  me_.view = before.view;
  me_.view_tag = before.view_tag;
  me_.task = static_cast<uint8_t>(before.task + 1);
  me_.slices = static_cast<uint8_t>(protocol_.scene_.slices);
  if (me_.task == script.size()) {
    me_.slices = 0;
    return go(Pc::done);
  }
  go(protocol_.first_pc(p_, me_.task));
}

void Protocol::Step::end_script() {
  me_.task = static_cast<uint8_t>(protocol_.scene_.scripts[static_cast<size_t>(p_)].size() - 1);
  end_task();
}

// Cache::find.
void Protocol::Step::view_look() {
  const EntryWord word(s_.entry[index()]);
  me_.word = word.bits();
  if (word.state() != State::ready) return end_task();
  me_.place = protocol_.extent_at(word.place());
  if (protocol_.scene_.droppable) return go(Pc::view_name);
  show();
}

void Protocol::Step::view_name() {
  me_.name = protocol_.scene_.names ? 0 : kViews;
  while (me_.name < kViews && own().views[me_.name] != 0) ++me_.name;
  if (me_.name < kViews) {
    said(Move::name_view, 0, name_of(protocol_.place_of_extent(me_.place)));
    own().views[me_.name] = static_cast<uint8_t>(me_.place + 1);
  } else {
    said(Move::count_view, own().unnamed, own().unnamed + 1u);
    ++own().unnamed;
  }
  if (is(Mutant::reader_does_not_check)) return show();
  go(Pc::view_check);
}

void Protocol::Step::view_check() {
  const EntryWord still(s_.entry[index()]);
  if (still.without_waiters() != EntryWord(me_.word).without_waiters()) return go(Pc::view_end);
  me_.word = still.bits();
  show();
}

// Cache::glance: from here on the bytes may be looked at.
void Protocol::Step::show() {
  const EntryWord word(me_.word);
  if (word.is_unverified()) {
    me_.tried = 0;
    return go(Pc::verify_first);
  }
  if (s_.bytes[me_.place][0] == kUnsoundByte) return go(Pc::spoil);
  me_.view = static_cast<uint8_t>(me_.place + 1);
  me_.view_tag = tag_of(index(), word.generation());
  if (task().op == Op::read) return go(Pc::view_end);
  end_task();
}

// Cache::verify.
void Protocol::Step::verify(int half) {
  const bool right =
      s_.bytes[me_.place][static_cast<size_t>(half)] == tag_of(index(), EntryWord(me_.word).generation());
  me_.tried = static_cast<uint8_t>(me_.tried | (right ? 1 << half : 0));
  go(half == 0 ? Pc::verify_second : Pc::settle);
}

void Protocol::Step::settle() {
  const EntryWord word(me_.word);
  const bool intact = me_.tried == 3;
  uint64_t &shared = s_.entry[index()];
  const EntryWord next = intact ? word.as_verified() : word.next_empty();
  const bool changed = shared == me_.word || (!intact && is(Mutant::refuse_by_store));
  if (changed) change(&shared, intact ? Move::verify : Move::refuse, next.bits());
  me_.tried = 0;
  if (intact && (changed || EntryWord(shared) == next)) {
    me_.word = next.bits();
    return show();
  }
  if (protocol_.scene_.droppable) return go(Pc::view_end);
  end_task();
}

void Protocol::Step::spoil() {
  const EntryWord word(me_.word);
  uint64_t &shared = s_.entry[index()];
  if (shared == me_.word || is(Mutant::spoil_by_store)) change(&shared, Move::spoil, word.as_bad().bits());
  if (protocol_.scene_.droppable) return go(Pc::view_end);
  end_task();
}

// Cache::unpin.
void Protocol::Step::view_end() {
  me_.view = me_.view_tag = 0;
  if (!protocol_.scene_.droppable) return end_task();
  if (me_.name < kViews) {
    said(Move::unname_view, 0, 0);
    own().views[me_.name] = 0;
  } else {
    said(Move::uncount_view, own().unnamed, own().unnamed - 1u);
    --own().unnamed;
  }
  end_task();
}

// Cache::find_copy.
void Protocol::Step::copy_look() {
  const EntryWord word(s_.entry[index()]);
  me_.word = word.bits();
  if (word.state() != State::ready) return end_task();
  me_.place = protocol_.extent_at(word.place());
  me_.tried = 0;
  go(Pc::copy_first);
}

void Protocol::Step::copy(int half) {
  const bool right =
      s_.bytes[me_.place][static_cast<size_t>(half)] == tag_of(index(), EntryWord(me_.word).generation());
  me_.tried = static_cast<uint8_t>(me_.tried | (right ? 1 << half : 0));
  go(half == 0 ? Pc::copy_second : Pc::copy_check);
}

void Protocol::Step::copy_check() {
  const bool believed = s_.entry[index()] == me_.word || is(Mutant::copy_not_checked);
  if (believed && me_.tried != 3 && !EntryWord(me_.word).is_unverified()) {
    throw Violation{"a copy shows bytes that are not its sample's"};
  }
  end_task();
}

// Cache::drop.
void Protocol::Step::remove_look() {
  const EntryWord word(s_.entry[index()]);
  me_.word = word.bits();
  if (word.state() != State::ready && word.state() != State::bad) return end_task();
  go(Pc::remove);
}

void Protocol::Step::remove() {
  uint64_t &shared = s_.entry[index()];
  if (shared != me_.word && !is(Mutant::remove_by_store)) return remove_look();
  const EntryWord word(me_.word);
  change(&shared, Move::remove, next_empty(word, Mutant::no_generation_bump_when_removing).bits());
  if (s_.stored[index()] == word.generation() + 1) s_.stored[index()] = 0;
  end_task();
}

// Clients::register_client and try_record.
void Protocol::Step::record_look() {
  if (me_.other == protocol_.scene_.records || me_.fate == Fate::lost) return end_script();
  me_.purpose = Purpose::attaching;
  look_at_life();
}

void Protocol::Step::next_record() {
  ++me_.other;
  go(Pc::record_look);
}

void Protocol::Step::record_prove() {
  if (!is_death_proved() && !is(Mutant::record_reused_on_the_lock)) return next_record();
  const bool keeps = is(Mutant::record_reused_with_its_fills) || is(Mutant::neither_compared_nor_handed_back);
  go(keeps ? Pc::lock : Pc::hand_back);
}

void Protocol::Step::hand_back() {
  if (other().note == 0) return go(Pc::lock);
  me_.place = static_cast<uint8_t>(other().note - 1);
  const EntryWord seen(s_.entry[me_.place]);
  me_.word = seen.bits();
  const ClientLife gone = {me_.other, ClientWord(me_.client).epoch()};
  go(seen.state() == State::writing && seen.owner() == gone ? Pc::hand_over : Pc::lock);
}

void Protocol::Step::hand_over() {
  const EntryWord seen(me_.word);
  if (s_.entry[me_.place] != me_.word) return go(Pc::hand_back);
  if (protocol_.holds_lock(s_, seen.owner())) throw Violation{"the fill of a client that lives was handed back"};
  change(&s_.entry[me_.place], Move::take_over, seen.next_empty().bits());
  go(seen.has_waiters() ? Pc::wake : Pc::lock);
}

void Protocol::Step::lock() {
  if (me_.fate == Fate::lost) return next_record();
  if (!is(Mutant::record_not_locked)) {
    if (other().holder != 0) return next_record();
    if (!is(Mutant::live_before_lock)) other().holder = static_cast<uint8_t>(p_ + 1);
  }
  go(is(Mutant::record_not_checked_again) ? Pc::clear_names : Pc::record_check);
}

void Protocol::Step::record_check() {
  if (s_.client[me_.other] == me_.client) return go(Pc::clear_names);
  if (other().holder == p_ + 1) other().holder = 0;
  next_record();
}

void Protocol::Step::clear_names() {
  if (!is(Mutant::record_reused_with_its_names)) {
    other().views = {};
    other().name = 0;
    other().unnamed = 0;
  }
  other().note = 0;
  said(Move::clear, 0, 0);
  go(Pc::vacate);
}

// A store: while the lock is kept nobody else changes a word that is not LIVE.
void Protocol::Step::vacate() {
  const ClientWord before(me_.client);
  me_.client = ClientWord(Life::free, before.epoch()).bits();
  if (before.life() == Life::dead) change(&s_.client[me_.other], Move::vacate, me_.client);
  go(is(Mutant::identity_at_last) ? Pc::live : Pc::identify);
}

void Protocol::Step::identify() {
  other().pid = static_cast<uint8_t>(p_);
  if (is(Mutant::identity_at_last)) return end_task();
  go(Pc::live);
}

void Protocol::Step::begin_life() {
  const ClientWord before(me_.client);
  const uint32_t epoch = is(Mutant::epoch_not_raised) ? before.epoch() : before.next_epoch();
  change(&s_.client[me_.other], Move::join, ClientWord(Life::live, epoch).bits());
  for (const uint64_t word : s_.entry) {
    const EntryWord entry(word);
    const bool open = entry.state() == State::writing && entry.owner().client == me_.other;
    if (open && !is(Mutant::neither_compared_nor_handed_back)) {
      throw Violation{"a record has a new client while a fill of an old one is open"};
    }
  }
  if (is(Mutant::live_before_lock)) other().holder = static_cast<uint8_t>(p_ + 1);
  me_.record = static_cast<uint8_t>(me_.other + 1);
  me_.epoch = static_cast<uint8_t>(epoch);
  go(Pc::let_go);
}

// The lock outlives the descriptor until here.
void Protocol::Step::let_go() {
  if (me_.fate == Fate::lost && other().holder == p_ + 1) other().holder = 0;
  if (is(Mutant::identity_at_last)) return go(Pc::identify);
  end_task();
}

bool Protocol::Step::is_lock_kept(const Process &process) {
  return process.pc == Pc::record_check || process.pc == Pc::clear_names || process.pc == Pc::vacate ||
         process.pc == Pc::identify || process.pc == Pc::live || process.pc == Pc::let_go;
}

// Clients::retire.
void Protocol::Step::leave() {
  uint64_t &word = s_.client[me_.record - 1u];
  if (word == ClientWord(Life::live, me_.epoch).bits()) {
    change(&word, Move::leave, ClientWord(Life::free, me_.epoch).bits());
  }
  go(Pc::unlock);
}

void Protocol::Step::unlock() {
  if (own().holder == p_ + 1) own().holder = 0;
  me_.record = me_.epoch = 0;
  end_task();
}

}  // namespace ddpcache::model
