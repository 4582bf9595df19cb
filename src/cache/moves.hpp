// Every change that is ever made to a shared word: from what, to what, by whom and how. This is the table of
// transitions, as data: the model of the protocol (tests/model) makes its moves by it, and in builds with crash points
// the library holds each of its own to it.
//
// A move is said where it has been made: after the store, or after the CAS that succeeded. A row that is `alone` is
// made only while nobody else is attached.
#pragma once

#include <array>
#include <cstdint>

#include "words.hpp"

#ifdef DDPCACHE_FAULTS
#include <atomic>
#include <cstdio>
#include <cstdlib>
#endif

namespace ddpcache {

enum class Move : uint32_t {
  claim,
  wait,
  publish,
  give_up,
  take_over,
  spoil,
  remove,
  verify,
  refuse,
  recover,
  recover_empty,
  take_fresh,
  retake,
  recover_extent,
  carve,
  recover_step,
  join,
  vacate,
  declare,
  leave,
  retire,
  clear,
  note,
  unnote,
  name,
  unname,
  name_view,
  unname_view,
  count_view,
  uncount_view,
  count
};

struct MoveRow {
  Move move;
  const char *name;
  const char *word;
  const char *from;
  const char *to;
  const char *who;
  const char *by;
  bool alone;
  bool (*allows)(uint64_t from, uint64_t to);
};

namespace moves {

// What `from` may hold beyond the fields that the move is about is not asked, since a damaged word may hold anything.
constexpr bool is(uint64_t entry, State state) { return EntryWord(entry).state() == state; }
constexpr bool is_verified(uint64_t entry) { return is(entry, State::ready) && !EntryWord(entry).is_unverified(); }
constexpr bool is_next_empty(uint64_t from, uint64_t to) { return EntryWord(to) == EntryWord(from).next_empty(); }
constexpr bool begins_next_life(uint64_t from, uint64_t to) {
  return ClientWord(to) == ClientWord(Life::live, ClientWord(from).next_epoch());
}
constexpr bool ends_as(uint64_t from, uint64_t to, Life life) {
  return ClientWord(from).life() == Life::live && ClientWord(to) == ClientWord(life, ClientWord(from).epoch());
}
constexpr bool sets_name(uint64_t, uint64_t to) { return is_name(to); }
constexpr bool sets(uint64_t, uint64_t to) { return to != 0; }
constexpr bool clears(uint64_t, uint64_t to) { return to == 0; }

}  // namespace moves

// In the order of Move.
inline constexpr std::array<MoveRow, static_cast<size_t>(Move::count)> kMoves = {{
    {Move::claim, "claim", "entry", "EMPTY g", "WRITING g me", "a filler, after noting the index", "CAS", false,
     [](uint64_t from, uint64_t to) {
       return moves::is(from, State::empty) &&
              EntryWord(to) == EntryWord::writing(EntryWord(from).generation(), EntryWord(to).owner());
     }},
    {Move::wait, "wait", "entry", "WRITING g", "+ WAITERS", "a waiter", "CAS", false,
     [](uint64_t from, uint64_t to) {
       return moves::is(from, State::writing) && !EntryWord(from).has_waiters() &&
              EntryWord(to) == EntryWord(from).with_waiters();
     }},
    {Move::publish, "publish", "entry", "WRITING g me", "READY g place", "its filler", "CAS from its own word, wake",
     false,
     [](uint64_t from, uint64_t to) {
       return moves::is(from, State::writing) &&
              EntryWord(to) == EntryWord::ready(EntryWord(from).generation(), EntryWord(to).place());
     }},
    {Move::give_up, "give up", "entry", "WRITING g me", "EMPTY g+1", "its filler", "CAS from its own word, wake", false,
     [](uint64_t from, uint64_t to) { return moves::is(from, State::writing) && moves::is_next_empty(from, to); }},
    {Move::take_over, "take over", "entry", "WRITING g", "EMPTY g+1",
     "anyone, once the owner's record is not LIVE at its epoch", "CAS, wake", false,
     [](uint64_t from, uint64_t to) { return moves::is(from, State::writing) && moves::is_next_empty(from, to); }},
    {Move::spoil, "spoil", "entry", "READY g", "BAD g", "who finds its record unsound", "CAS", false,
     [](uint64_t from, uint64_t to) { return moves::is_verified(from) && EntryWord(to) == EntryWord(from).as_bad(); }},
    {Move::remove, "remove", "entry", "READY g, READY g U, BAD g", "EMPTY g+1", "who removes it, in droppable caches",
     "CAS", false,
     [](uint64_t from, uint64_t to) {
       return (moves::is(from, State::ready) || moves::is(from, State::bad)) && moves::is_next_empty(from, to);
     }},
    {Move::verify, "verify", "entry", "READY g U", "READY g", "a reader that found the checksum right", "CAS", false,
     [](uint64_t from, uint64_t to) {
       return EntryWord(from).is_unverified() && EntryWord(to) == EntryWord(from).as_verified();
     }},
    {Move::refuse, "refuse", "entry", "READY g U", "EMPTY g+1", "a reader that found it wrong", "CAS", false,
     [](uint64_t from, uint64_t to) { return EntryWord(from).is_unverified() && moves::is_next_empty(from, to); }},
    {Move::recover, "recover", "entry", "READY g", "READY g U", "recovery: the words fit together", "store", true,
     [](uint64_t from, uint64_t to) {
       return moves::is_verified(from) && EntryWord(to) == EntryWord(from).as_unverified();
     }},
    {Move::recover_empty, "recover empty", "entry", "any", "EMPTY g+1", "recovery: they do not", "store", true,
     [](uint64_t from, uint64_t to) { return moves::is_next_empty(from, to); }},

    {Move::take_fresh, "take fresh", "extent", "0", "owned by index at g", "a filler", "CAS", false,
     [](uint64_t from, uint64_t to) { return from == 0 && !ExtentWord(to).never_owned(); }},
    {Move::retake, "retake", "extent", "owned by an entry that moved on", "owned by index at g",
     "a filler, once nobody names the extent", "CAS from what was seen before the scan", false,
     [](uint64_t from, uint64_t to) { return from != 0 && from != to && !ExtentWord(to).never_owned(); }},
    {Move::recover_extent, "recover extent", "extent", "owned by no stored sample", "0", "recovery", "store", true,
     moves::clears},

    {Move::carve, "carve", "step", "0", "1 + class", "a filler, after reserving it", "CAS", false,
     [](uint64_t from, uint64_t to) { return from == 0 && to != 0; }},
    {Move::recover_step, "recover step", "step", "any", "0", "recovery: its space is gone", "store", true,
     moves::clears},

    {Move::join, "join", "client", "FREE e", "LIVE e+1", "a new client that holds the record's byte", "store", false,
     [](uint64_t from, uint64_t to) {
       return ClientWord(from).life() == Life::free && moves::begins_next_life(from, to);
     }},
    {Move::vacate, "vacate", "client", "DEAD e", "FREE e",
     "the same, once the old one's death is proved, its fills are handed back, its names and notes cleared", "store",
     false,
     [](uint64_t from, uint64_t to) {
       return ClientWord(from).life() == Life::dead &&
              ClientWord(to) == ClientWord(Life::free, ClientWord(from).epoch());
     }},
    {Move::declare, "declare", "client", "LIVE e", "DEAD e", "who probed the byte and found it free",
     "CAS from what was read before the probe", false,
     [](uint64_t from, uint64_t to) { return moves::ends_as(from, to, Life::dead); }},
    {Move::leave, "leave", "client", "LIVE e", "FREE e", "its owner", "CAS", false,
     [](uint64_t from, uint64_t to) { return moves::ends_as(from, to, Life::free); }},
    {Move::retire, "retire", "client", "any", "FREE e", "the first client after a reboot", "store", true,
     [](uint64_t from, uint64_t to) { return ClientWord(to) == ClientWord(Life::free, ClientWord(from).epoch()); }},

    {Move::clear, "clear", "notes and names", "any", "0", "a new client, before it writes LIVE", "stores", false,
     moves::clears},
    {Move::note, "note", "note", "0", "1 + index", "a filler, before it claims", "store", false, moves::sets},
    {Move::unnote, "unnote", "note", "any", "0", "its filler", "store", false, moves::clears},
    {Move::name, "name", "name", "0", "place", "a filler, before it touches the extent", "store", false,
     moves::sets_name},
    {Move::unname, "unname", "name", "any", "0", "its filler", "store", false, moves::clears},
    {Move::name_view, "name view", "name", "0", "place", "a reader, before it touches the extent", "store", false,
     moves::sets_name},
    {Move::unname_view, "unname view", "name", "any", "0", "its reader", "store", false, moves::clears},
    {Move::count_view, "count view", "overflow", "n", "n+1", "a reader without a name left", "add", false,
     [](uint64_t from, uint64_t to) { return static_cast<uint32_t>(to) == static_cast<uint32_t>(from + 1); }},
    {Move::uncount_view, "uncount view", "overflow", "n", "n-1", "the same, at its end", "add", false,
     [](uint64_t from, uint64_t to) { return static_cast<uint32_t>(to + 1) == static_cast<uint32_t>(from); }},
}};

constexpr const MoveRow &row_of(Move move) { return kMoves[static_cast<size_t>(move)]; }

constexpr bool moves_are_in_order() {
  for (size_t i = 0; i < kMoves.size(); ++i) {
    if (static_cast<size_t>(kMoves[i].move) != i) return false;
  }
  return true;
}
static_assert(moves_are_in_order());

#ifdef DDPCACHE_FAULTS
// Told of every move of this process that the table allows. Set while nothing else runs.
using MoveObserver = void (*)(Move move, uint64_t from, uint64_t to);
inline std::atomic<MoveObserver> move_observer{nullptr};

// Not where a test damages words itself: from those a move may lead anywhere.
inline std::atomic<bool> moves_are_judged{true};

inline void report_move(Move move, uint64_t from, uint64_t to) {
  if (!row_of(move).allows(from, to) && moves_are_judged.load(std::memory_order_relaxed)) {
    std::fprintf(stderr, "ddpcache: the move '%s' from %016lx to %016lx is not in the table of moves\n",
                 row_of(move).name, from, to);
    std::abort();
  }
  if (const MoveObserver observer = move_observer.load()) observer(move, from, to);
}
#define DC_MOVE(move, from, to) ::ddpcache::report_move(::ddpcache::Move::move, from, to)
#else
#define DC_MOVE(move, from, to) static_cast<void>(0)
#endif

}  // namespace ddpcache
