// One step of one client: what the code does between two accesses to shared words.
#include "steps.hpp"

namespace ddpcache::model {

void Protocol::Step::take(int choice) {
  switch (me_.pc) {
    case Pc::look: return look();
    case Pc::life: return look_at_life();
    case Pc::probe: return probe();
    case Pc::declare: return declare();
    case Pc::take_over: return take_over();
    case Pc::wake: return wake();
    case Pc::wait: return wait();
    case Pc::sleep: return sleep();
    case Pc::asleep: --me_.slices; return go(Pc::look);
    case Pc::may_fill: return may_fill();
    case Pc::note: return note();
    case Pc::claim: return claim();
    case Pc::unclaim: unnote(); return go(Pc::look);
    case Pc::find: return find(choice);
    case Pc::reserve: s_.reserved[me_.place] = 1; return go(is(Mutant::carved_before_reserved) ? Pc::find : Pc::carve);
    case Pc::carve: return carve();
    case Pc::owner: return look_at_owner();
    case Pc::scan: return scan();
    case Pc::prove: return prove();
    case Pc::recheck: return check_record_again();
    case Pc::take: return take_extent();
    case Pc::name: return name_extent();
    case Pc::check_entry: return check_entry();
    case Pc::check_extent: return check_extent();
    case Pc::write_first: return write(0);
    case Pc::write_second: return write(1);
    case Pc::publish: return publish();
    case Pc::disown: unname(); return expect_own_word(Pc::release);
    case Pc::release: return give_up();
    case Pc::unname: unname(); return go(Pc::unnote);
    case Pc::unnote: unnote(); return end_task();
    case Pc::view_look: return view_look();
    case Pc::view_name: return view_name();
    case Pc::view_check: return view_check();
    case Pc::verify_first: return verify(0);
    case Pc::verify_second: return verify(1);
    case Pc::settle: return settle();
    case Pc::spoil: return spoil();
    case Pc::view_end: return view_end();
    case Pc::copy_look: return copy_look();
    case Pc::copy_first: return copy(0);
    case Pc::copy_second: return copy(1);
    case Pc::copy_check: return copy_check();
    case Pc::remove_look: return remove_look();
    case Pc::remove: return remove();
    case Pc::record_look: return record_look();
    case Pc::record_prove: return record_prove();
    case Pc::hand_back: return hand_back();
    case Pc::hand_over: return hand_over();
    case Pc::lock: return lock();
    case Pc::record_check: return record_check();
    case Pc::clear_names: return clear_names();
    case Pc::vacate: return vacate();
    case Pc::identify: return identify();
    case Pc::live: return begin_life();
    case Pc::let_go: return let_go();
    case Pc::leave_names:
      own().views = {};
      own().name = 0;
      own().unnamed = 0;
      return go(Pc::leave);
    case Pc::leave: return leave();
    case Pc::unlock: return unlock();
    case Pc::done:
    case Pc::count: break;
  }
}

// Cache::claim.
void Protocol::Step::look() {
  const EntryWord word(s_.entry[index()]);
  me_.word = word.bits();
  switch (word.state()) {
    case State::ready:
    case State::bad: return end_task();
    case State::empty: return go(Pc::may_fill);
    case State::writing: {
      me_.must_be_gone = !protocol_.holds_lock(s_, word.owner());
      me_.other = static_cast<uint8_t>(word.owner().client);
      me_.purpose = Purpose::waiting;
      return go(Pc::life);
    }
  }
}

// Clients::look_after, for whichever purpose.
void Protocol::Step::look_at_life() {
  me_.client = s_.client[me_.other];
  const ClientWord word(me_.client);
  const bool own = me_.record == me_.other + 1 && word.epoch() == me_.epoch && !is(Mutant::own_record_probed);
  if (word.life() != Life::live || own || me_.fate == Fate::lost) return judge();
  go(is(Mutant::declared_without_a_probe) ? Pc::declare : Pc::probe);
}

void Protocol::Step::probe() {
  const uint8_t holder = other().holder;
  // A newcomer's lock may be taken for the old client's, for a moment.
  if (holder != 0 && is_lock_kept(s_.process[holder - 1u])) me_.must_be_gone = 0;
  // A descriptor does not see its own locks.
  if (holder != 0 && holder != p_ + 1) return judge();
  go(Pc::declare);
}

void Protocol::Step::declare() {
  const ClientWord dead(Life::dead, ClientWord(me_.client).epoch());
  if (s_.client[me_.other] == me_.client || is(Mutant::declared_by_store)) {
    change(&s_.client[me_.other], Move::declare, dead.bits());
    me_.client = dead.bits();
    return judge();
  }
  me_.client = is(Mutant::only_declarers_take) ? me_.client : s_.client[me_.other];
  judge();
}

void Protocol::Step::judge() {
  const ClientWord word(me_.client);
  switch (me_.purpose) {
    case Purpose::waiting: {
      const ClientLife owner = EntryWord(me_.word).owner();
      const bool gone = is(Mutant::neither_compared_nor_handed_back) ? word.life() != Life::live
                                                                     : word != ClientWord(Life::live, owner.epoch);
      return go(gone ? Pc::take_over : Pc::wait);
    }
    case Purpose::scanning: return go(Pc::prove);
    case Purpose::attaching:
      if (word.life() == Life::live) return next_record();
      return go(word.life() == Life::dead ? Pc::record_prove : Pc::lock);
    case Purpose::publishing:
    case Purpose::giving_up: break;
  }
}

// take_over in clients.cpp.
void Protocol::Step::take_over() {
  const EntryWord seen(me_.word);
  if (s_.entry[index()] != me_.word && !is(Mutant::take_over_by_store)) return go(Pc::look);
  if (protocol_.holds_lock(s_, seen.owner())) {
    throw Violation{"the fill of a client that lives, and holds its lock, was taken over"};
  }
  change(&s_.entry[index()], Move::take_over, next_empty(seen, Mutant::no_generation_bump_when_taking_over).bits());
  const bool wakes = seen.has_waiters() && !is(Mutant::no_wake_after_taking_over);
  go(wakes ? Pc::wake : Pc::look);
}

void Protocol::Step::wake() {
  const uint8_t entry = me_.purpose == Purpose::attaching ? me_.place : index();
  for (int q = 0; q < protocol_.processes(); ++q) {
    Process &sleeper = s_.process[static_cast<size_t>(q)];
    if (sleeper.pc == Pc::asleep && protocol_.task_of(s_, q).index == entry) sleeper.pc = Pc::look;
  }
  switch (me_.purpose) {
    case Purpose::attaching: return go(Pc::lock);
    case Purpose::publishing: return go(Pc::unname);
    case Purpose::giving_up: return go(Pc::unname);
    case Purpose::waiting:
    case Purpose::scanning: return go(Pc::look);
  }
}

// Cache::await, whose owner is not gone.
void Protocol::Step::wait() {
  if (me_.slices == 0) {
    const bool same = EntryWord(s_.entry[index()]).without_waiters() == EntryWord(me_.word).without_waiters();
    if (me_.must_be_gone && same && me_.fate == Fate::running) {
      throw Violation{"a waiter ended BUSY though the filler was gone"};
    }
    return end_task();
  }
  const EntryWord seen(me_.word);
  if (!seen.has_waiters() && !is(Mutant::waiters_not_set)) {
    uint64_t &shared = s_.entry[index()];
    if (shared != me_.word) {
      if (is(Mutant::waiters_cleared_by_a_loser) && shared == seen.with_waiters().bits()) shared = me_.word;
      return go(Pc::look);
    }
    change(&shared, Move::wait, seen.with_waiters().bits());
  }
  go(Pc::sleep);
}

void Protocol::Step::sleep() {
  const EntryWord expected = is(Mutant::waiters_not_set) ? EntryWord(me_.word) : EntryWord(me_.word).with_waiters();
  const bool same = EntryWord(s_.entry[index()]).low() == expected.low();
  go(same || is(Mutant::sleep_without_a_look) ? Pc::asleep : Pc::look);
}

void Protocol::Step::may_fill() {
  const bool alive = s_.client[me_.record - 1u] == ClientWord(Life::live, me_.epoch).bits();
  if (!alive || me_.fate == Fate::lost) return end_task();
  go(is(Mutant::claimed_before_noted) ? Pc::claim : Pc::note);
}

void Protocol::Step::note() {
  said(Move::note, 0, index() + 1u);
  own().note = static_cast<uint8_t>(index() + 1);
  if (is(Mutant::claimed_before_noted)) return go(Pc::find);
  go(Pc::claim);
}

void Protocol::Step::unnote() {
  said(Move::unnote, 0, 0);
  own().note = 0;
}

void Protocol::Step::claim() {
  if (s_.entry[index()] != me_.word && !is(Mutant::claim_by_store)) return go(Pc::unclaim);
  change(&s_.entry[index()], Move::claim, EntryWord::writing(EntryWord(me_.word).generation(), life()).bits());
  me_.tried = 0;
  go(is(Mutant::claimed_before_noted) ? Pc::note : Pc::find);
}

// Extents::take, but for where it looks first: any order is among those that are searched.
void Protocol::Step::find(int choice) {
  for (int x = 0; x < protocol_.extents(); ++x) {
    if (!protocol_.is_candidate(s_, me_, x) || choice-- != 0) continue;
    me_.place = static_cast<uint8_t>(x);
    me_.extent = s_.extent[me_.place];
    return go(ExtentWord(me_.extent).never_owned() ? Pc::take : Pc::owner);
  }
  for (int step = 0; step < protocol_.scene_.steps; ++step) {
    if (s_.step[static_cast<size_t>(step)] != 0 || choice-- != 0) continue;
    me_.place = static_cast<uint8_t>(step);
    return go(is(Mutant::carved_before_reserved) ? Pc::carve : Pc::reserve);
  }
  // DC_FULL: the caller aborts.
  go(Pc::disown);
}

void Protocol::Step::carve() {
  if (s_.step[me_.place] == 0) {
    said(Move::carve, 0, 1);
    s_.step[me_.place] = 1;
  }
  go(is(Mutant::carved_before_reserved) ? Pc::reserve : Pc::find);
}

// Extents::try_take.
void Protocol::Step::look_at_owner() {
  const ExtentWord owned(me_.extent);
  const EntryWord entry(s_.entry[static_cast<size_t>(owned.index())]);
  const bool writer = is(Mutant::extents_of_writers_are_free) && entry.state() == State::writing;
  if (is_in_use(owned, entry) && !writer) return next_extent();
  me_.other = 0;
  go(is(Mutant::names_not_scanned) ? Pc::take : Pc::scan);
}

// The words that a scan reads of one record are read in one step: nobody moves a hold from one of them to another.
void Protocol::Step::scan() {
  if (me_.other == protocol_.scene_.records) return go(Pc::take);
  const uint8_t named = static_cast<uint8_t>(me_.place + 1);
  bool names = other().name == named;
  for (const uint8_t view : other().views) names |= view == named && !is(Mutant::views_not_scanned);
  names |= other().unnamed > 0 && !is(Mutant::overflow_ignored);
  if (is(Mutant::own_names_ignored) && me_.record == me_.other + 1) names = false;
  if (ClientWord(s_.client[me_.other]).life() == Life::free || !names) {
    ++me_.other;
    return go(Pc::scan);
  }
  me_.purpose = Purpose::scanning;
  go(Pc::life);
}

void Protocol::Step::prove() {
  const bool dead = ClientWord(me_.client).life() == Life::dead;
  if (!dead || !(is_death_proved() || is(Mutant::scan_trusts_the_lock))) return next_extent();
  if (!is(Mutant::record_not_checked_after_the_proof)) return go(Pc::recheck);
  ++me_.other;
  go(Pc::scan);
}

void Protocol::Step::check_record_again() {
  if (s_.client[me_.other] != me_.client) return next_extent();
  ++me_.other;
  go(Pc::scan);
}

void Protocol::Step::take_extent() {
  if (s_.extent[me_.place] != me_.extent && !is(Mutant::take_by_store)) return next_extent();
  const ExtentWord mine = ExtentWord::owned(index(), EntryWord(me_.word).generation());
  change(&s_.extent[me_.place], ExtentWord(me_.extent).never_owned() ? Move::take_fresh : Move::retake, mine.bits());
  go(Pc::name);
}

// Fill::take_memory.
void Protocol::Step::name_extent() {
  said(Move::name, 0, name_of(protocol_.place_of_extent(me_.place)));
  own().name = static_cast<uint8_t>(me_.place + 1);
  go(is(Mutant::filler_does_not_check) ? Pc::write_first : Pc::check_entry);
}

void Protocol::Step::check_entry() {
  const bool mine = EntryWord(s_.entry[index()]).without_waiters() == own_word();
  const Pc next = is(Mutant::extent_not_checked) ? Pc::write_first : Pc::check_extent;
  go(mine ? next : Pc::disown);
}

void Protocol::Step::check_extent() {
  const bool mine = s_.extent[me_.place] == ExtentWord::owned(index(), EntryWord(me_.word).generation()).bits();
  go(mine ? Pc::write_first : Pc::disown);
}

void Protocol::Step::write(int half) {
  if (!s_.reserved[me_.place / static_cast<unsigned>(protocol_.scene_.slots)]) {
    throw Violation{"a filler wrote to memory that is not reserved"};
  }
  s_.bytes[me_.place][static_cast<size_t>(half)] = tag_of(index(), EntryWord(me_.word).generation());
  if (half == 0 && task().op == Op::fail) return go(Pc::disown);
  if (half == 0) return go(Pc::write_second);
  expect_own_word(Pc::publish);
}

// Fill::leave. A CAS that fails by the bit of WAITERS alone is repeated with it.
bool Protocol::Step::leave_entry(Move move, EntryWord next) {
  uint64_t &shared = s_.entry[index()];
  const EntryWord expected(me_.word);
  if (shared == me_.word) {
    change(&shared, move, next.bits());
    const bool forgotten =
        move == Move::publish ? is(Mutant::no_wake_after_publishing) : is(Mutant::no_wake_after_giving_up);
    const bool wakes = expected.has_waiters() && !forgotten && !is(Mutant::wake_by_the_first_look);
    me_.purpose = move == Move::publish ? Purpose::publishing : Purpose::giving_up;
    go(wakes ? Pc::wake : Pc::unname);
    return true;
  }
  if (EntryWord(shared).without_waiters() != own_word()) {
    go(Pc::unname);
    return false;
  }
  me_.word = shared;
  return false;
}

void Protocol::Step::publish() {
  const EntryWord next = EntryWord::ready(EntryWord(me_.word).generation(), protocol_.place_of_extent(me_.place));
  if (is(Mutant::publish_by_store)) {
    s_.entry[index()] = me_.word;
  }
  if (leave_entry(Move::publish, next)) s_.stored[index()] = static_cast<uint8_t>(next.generation() + 1);
}

void Protocol::Step::give_up() {
  leave_entry(Move::give_up, next_empty(EntryWord(me_.word), Mutant::no_generation_bump_when_giving_up));
}

void Protocol::Step::unname() {
  said(Move::unname, 0, 0);
  own().name = 0;
}

}  // namespace ddpcache::model
